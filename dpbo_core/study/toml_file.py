"""The file a study is written in: read, and told from the one that its owner approved."""

import hashlib
import tomllib
from pathlib import Path

from dpbo_core.errors import PolicyRefused, StudyInvalid
from dpbo_core.study import StudySpec

LARGEST_STUDY, LONGEST_LINE = 2**16, 2**12  # bytes


def read_study(path: str | Path, *, frozen: str | None = None) -> StudySpec:
    """The study in a TOML file, checked; with `frozen`, the file's SHA-256, a changed one is refused.

    Args:
        path: of the file.
        frozen: SHA-256 of the file as its owner approved it (`study_digest`), or None for any.

    Raises:
        StudyInvalid: a missing or unreadable file, or anything in it that a study cannot hold.
        PolicyRefused: the file is not as it was approved.
    """
    shown = str(path)
    try:
        text = _study_text(Path(path))
        if frozen is not None and hashlib.sha256(text.encode()).hexdigest() != frozen:
            raise changed_study(shown)
        tables = tomllib.loads(text)
    except OSError as error:
        problem = f"the study file {shown!r} cannot be read ({(error.strerror or 'no reason given').lower()})"
    except UnicodeDecodeError:
        problem = f"the study file {shown!r} is not UTF-8 text"
    except tomllib.TOMLDecodeError as error:
        problem = f"the study file {shown!r} is not valid TOML: {error}"
    except (ValueError, RecursionError):  # a null byte in the path, a number of thousands of digits, deep nesting
        problem = f"the study file {shown!r} is no study: over 64 KiB or 4,096 bytes a line, or nested too deep"
    else:
        return StudySpec.from_dict(tables)
    raise StudyInvalid(problem, cause="a mistyped path or a syntax error", remedy="check the file named")


def study_digest(path: str | Path) -> str:
    """SHA-256 of a study file, in hex; refused unless it reads as a study."""
    read_study(path)
    return hashlib.sha256(_study_text(Path(path)).encode()).hexdigest()


def changed_study(shown: str) -> PolicyRefused:
    """The error for a study file that was changed since its schedule was served."""
    return PolicyRefused(
        f"the study file {shown!r} is not the one that was served",
        cause="it was changed after dpbo serve started, or the run names another file",
        remedy="change it back, or stop dpbo serve and start it again with the new one",
    )


def _study_text(path: Path) -> str:
    """The text of a study file; ValueError for a large one, whose long dotted keys take quadratic time to parse.

    Raises:
        ValueError: larger, or with a longer line, than anyone writes.
    """
    with path.open("rb") as file:
        raw = file.read(LARGEST_STUDY + 1)
    if len(raw) > LARGEST_STUDY or max(map(len, raw.splitlines()), default=0) > LONGEST_LINE:
        raise ValueError
    return raw.decode()
