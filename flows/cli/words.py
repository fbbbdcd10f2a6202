"""Words that several commands take, each with its one meaning, and how a duration and a file are read."""

import re
from pathlib import Path
from typing import Annotated

import typer

from dpbo_core.errors import StudyInvalid

Study = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Explain = Annotated[bool, typer.Option("--explain", help="A second screen: what each line means.")]
Port = Annotated[int, typer.Option(help="Where a Prefect server is found or started.")]
TrustServer = Annotated[
    bool,
    typer.Option("--trust-server", help="Use a server that asks nobody for a password. It can run code as you."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")]

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(text: str) -> float:
    """The seconds of a duration such as `6h`, `30m`, `5s` or `1d`.

    Raises:
        StudyInvalid: it is none of them.
    """
    duration = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if duration is None or int(duration[1]) == 0:
        raise StudyInvalid(f"--every {text!r} is no duration", remedy="write 30m, 6h or 1d")
    return float(int(duration[1]) * _UNITS[duration[2]])


def check_padding(pad_steps: float) -> None:
    """Refuse a value of --pad-steps that is no duration.

    Raises:
        StudyInvalid: it is none.
    """
    if not 0.0 <= pad_steps < float("inf"):
        raise StudyInvalid(f"--pad-steps {pad_steps} is no duration", remedy="give seconds, 0 or more")


def lines_of(file: Path, *, remedy: str = "check the path") -> list[str]:
    """The lines of a text file.

    Raises:
        StudyInvalid: it cannot be read; `remedy` says what to do.
    """
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        reason = reason_of(error)
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    raise StudyInvalid(f"the file {str(file)!r} cannot be read ({reason})", remedy=remedy)


def reason_of(error: Exception) -> str:
    """The operating system's reason for refusing a file, in its own words."""
    return (getattr(error, "strerror", None) or "no reason given").lower()
