"""A text file that somebody names on the command line."""

from pathlib import Path

from dpbo_core.errors import StudyInvalid


def lines_of(file: Path, *, remedy: str = "check the path") -> list[str]:
    """Its lines.

    Raises:
        StudyInvalid: it cannot be read; `remedy` says what to do.
    """
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    raise StudyInvalid(f"the file {str(file)!r} cannot be read ({reason})", remedy=remedy)
