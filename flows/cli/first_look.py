"""What a study's own words and its files' headers refuse, answered before a library but NumPy is imported.

The command checks all of it again. Files are looked at only where no ledger is: a release that is recorded is shown
again without them, and a ledger may say that a file named as public is sensitive.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from dpbo_core.data.addresses import parse_place
from dpbo_core.data.file_formats import format_of
from dpbo_core.data.header import missing_file_error
from dpbo_core.errors import StudyInvalid, no_budget
from dpbo_core.privacy.named_parts import declared
from dpbo_core.study import StudySpec
from dpbo_core.study.sections import no_epsilon
from dpbo_core.study.spec import read_study, space_of, study_tables

STUDY_COMMANDS = ("tune", "plan", "evaluate", "watch", "serve")


def look(words: Sequence[str]) -> StudySpec | None:
    """Return the study that a command's `words` name, read; None if there is none.

    Its text is checked, and its files' headers if there is no ledger yet.

    Raises:
        StudyInvalid: as the command would.

    Args:
        words: of the command.
    """
    verb = next((word for word in words if not word.startswith("-")), "")
    path = next((Path(word) for word in words if word.endswith(".toml")), None)
    if list(words) == ["tune"]:
        raise no_study()
    if verb not in STUDY_COMMANDS or path is None or {"--help", "--debug", "--plain"} & {*words}:
        return None
    if not all(word.isprintable() for word in words):  # the command says so
        return None
    if declared("dpbo.sections").keys() & study_tables(path).keys():
        return None  # its feature reads it
    study = read_study(path)
    space_of(study)
    stated = study.asks_for_evaluation
    if verb == "evaluate" and not stated and not any(word.startswith("--epsilon") for word in words):
        raise no_epsilon()
    if verb in ("plan", "tune") and not (
        Path("mlruns").exists() or any(name.startswith("DPBO_") for name in os.environ)
    ):
        _look_at_files(study, path.parent, verb)
    return study


def _look_at_files(study: StudySpec, folder: Path, verb: str) -> None:
    """Refuse a study whose headers do not fit: the public file's for a plan; for a tune both, and it needs
    a cap.
    """
    section = study.data.divided
    if section is not None and "{" not in section.training + section.validation:
        for name in (section.training,) if verb == "plan" else (section.training, section.validation):
            place = parse_place(folder, name)
            if isinstance(place, Path) and format_of(place) is not None and not place.exists():
                raise missing_file_error(name)  # before the readers of tables are imported
        from dpbo_core.study.headers import check_validation, public_header

        columns = public_header(study, folder).columns
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
