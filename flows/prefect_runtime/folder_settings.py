"""Settings of Prefect's that lie beside a study are refused: whoever wrote the study's folder wrote them too.

Prefect reads `prefect.toml`, `[tool.prefect]` of `pyproject.toml` and `.env` of the current folder when it is
imported, and one of its settings names code that runs then. The environment and profiles are the user's own.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from dpbo_core.errors import StudyInvalid

PREFIX = "PREFECT"


def refuse_folder_settings(folder: Path) -> None:
    """Before Prefect is imported.

    Raises:
        StudyInvalid: names the file.
    """
    for name in _found(folder):
        raise StudyInvalid(
            f"{name} in this folder holds settings of Prefect's, and some of them run code",
            cause="the folder came from somebody else, or is another project's",
            remedy="run in a folder of your own; put what you need into the environment or a profile of Prefect's",
        )


def _found(folder: Path) -> Iterator[str]:
    if _is_there(folder / "prefect.toml"):
        yield "prefect.toml"
    if _is_there(folder / "pyproject.toml"):
        try:
            project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            yield "pyproject.toml, which cannot be read,"
        else:
            tool = project.get("tool")
            if isinstance(tool, dict) and "prefect" in tool:
                yield "pyproject.toml"
    if _is_there(folder / ".env"):
        try:
            text = (folder / ".env").read_text(encoding="utf-8", errors="replace")
        except OSError:
            yield ".env, which cannot be read,"
        else:
            if PREFIX in text.upper():
                yield ".env"


def _is_there(path: Path) -> bool:
    return path.is_symlink() or path.exists()
