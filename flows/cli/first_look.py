"""What a study's own words and its files' headers refuse, answered before a library but NumPy is imported.

The command checks all of it again. A missing file is answered first, before NumPy and what reads a study, and
beside a ledger too, unless that has the study: a release that is recorded is shown again without its files.
Headers are read only where no ledger is, which may say that a file named as public is sensitive.
"""

import os
import tomllib
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo_core.data.addresses import format_of, is_address
from dpbo_core.data.header import missing_file_error
from dpbo_core.errors import BudgetRefused, StudyInvalid, no_budget

if TYPE_CHECKING:
    from dpbo_core.study import StudySpec

STUDY_COMMANDS = ("tune", "plan", "evaluate", "watch", "serve")
MAX_BYTES = 2**13  # of a study that is read here first: parsing takes time quadratic in the length of a line


def look(words: Sequence[str]) -> "StudySpec | None":
    """Return the study that a command's `words` name, read; None if there is none, or if the command must say why.

    Its text is checked, and its files' headers if there is no ledger yet.

    Raises:
        StudyInvalid, BudgetRefused: as the command would.
    """
    try:
        return _look(words)
    except (StudyInvalid, BudgetRefused):
        raise
    except Exception:  # noqa: BLE001  the command itself says so
        return None


def _look(words: Sequence[str]) -> "StudySpec | None":
    verb = next((word for word in words if not word.startswith("-")), "")
    path = next((Path(word) for word in words if word.endswith(".toml")), None)
    if list(words) == ["tune"]:
        raise no_study()
    if verb not in STUDY_COMMANDS or path is None or not all(word.isprintable() for word in words):
        return None
    reads_files = verb in ("plan", "tune") and not any(name.startswith("DPBO_") for name in os.environ)
    if reads_files:
        _check_files_exist(path, verb)
    from dpbo_core.study.sections import no_epsilon
    from dpbo_core.study.spec import feature_sections, read_study, space_of, study_tables

    if feature_sections(study_tables(path)):
        return None
    study = read_study(path)
    space_of(study)
    stated = study.asks_for_evaluation
    if verb == "evaluate" and not stated and not any(word.startswith("--epsilon") for word in words):
        raise no_epsilon()
    if reads_files and not Path("mlruns").exists():
        _look_at_files(study, path.parent, verb)
    return study


def _check_files_exist(path: Path, verb: str) -> None:
    """Refuse a study whose files do not exist, unless its files change by date or it may be charged already."""
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        return  # what is wrong with it is said when it is read
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        name, files = tables["study"]["name"], [tables["data"][key] for key in ("training", "validation")]
        dated = "{" in "".join(files)
    except Exception:  # noqa: BLE001  a study of another kind, or wrong
        return
    if dated or (verb == "tune" and Path("mlruns").exists() and _is_charged(name)):
        return
    for file in files[:1] if verb == "plan" else files:
        if not is_address(file) and format_of(file) is not None and not (path.parent / file).exists():
            raise missing_file_error(file)


def _is_charged(study: str) -> bool:
    """Return whether this folder's ledger has a charge of the study's name, read without SQLAlchemy."""
    import sqlite3

    ledger = sqlite3.connect(f"{Path('mlruns/ledger.db').absolute().as_uri()}?mode=ro", uri=True)
    with closing(ledger):
        charges = ledger.execute("SELECT COUNT(*) FROM reservations WHERE study = ?", (study,))
        return bool(charges.fetchone()[0])


def _look_at_files(study: "StudySpec", folder: Path, verb: str) -> None:
    """Refuse a study whose headers do not fit: the public file's for a plan; for a tune both, and it needs
    a cap.
    """
    section = study.data.divided
    if section is not None and "{" not in section.training + section.validation:
        from dpbo_core.study.data_files import check_validation, public_columns

        columns = public_columns(study, folder)
        if verb == "tune":
            check_validation(study, folder, columns)
    if verb == "tune" and study.budget is None:
        raise no_budget(study.privacy.dataset)


def no_study() -> StudyInvalid:
    """Return the error for a tune that names no study."""
    return StudyInvalid(
        "tune runs one study: a file, or the bundled example",
        cause="no study was named, or one was named beside --example",
        remedy="run dpbo tune study.toml, or dpbo tune --example; dpbo init writes a study for your own data",
    )
