"""Words that several commands take, each with its one meaning, and how a duration and a file are read."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.cli.terminal import PRINTS_JSON
from dpbo.flows.plain_output import PLAIN_SETTING
from dpbo.tasks.policies import PREFECT_USE
from dpbo_core.errors import StudyInvalid

Study = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object only.")]
Explain = Annotated[bool, typer.Option("--explain", help="Add a second screen that explains each line.")]
Anyway = Annotated[bool, typer.Option("--anyway", help="Run even if the plan expects mostly noise.")]
Port = Annotated[int, typer.Option(help="The port at which a Prefect server is found or started.")]
TrustServer = Annotated[
    bool,
    typer.Option("--trust-server", help="Accept a server without a password. Such a server can run code as you."),
]

_SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def _set_json(ctx: typer.Context, value: bool) -> None:
    before = PRINTS_JSON.set(value)
    ctx.call_on_close(lambda: PRINTS_JSON.reset(before))


def _set_plain(value: bool) -> None:
    if value:
        os.environ[PLAIN_SETTING] = "1"


Plain = Annotated[
    bool,
    typer.Option(
        "--plain",
        help="Plain text for screen readers. May stand before or after a command.",
        callback=_set_plain,
        expose_value=False,
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.", expose_value=False)]


def common_options(debug: Debug = False, plain: Plain = False) -> None:
    """Do nothing: its signature declares the options --debug and --plain of every command; `main` reads --debug."""


def result_options(
    json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object only.", callback=_set_json, expose_value=False),
    ] = False,
) -> None:
    """Do nothing: its signature declares the option --json of commands with a result; `print_result` obeys it."""


def _set_direct(ctx: typer.Context, value: bool) -> None:
    if value:
        before = os.environ.get(PREFECT_USE)
        os.environ[PREFECT_USE] = "off"
        ctx.call_on_close(lambda: os.environ.update({PREFECT_USE: before or ""}))


Direct = Annotated[
    bool,
    typer.Option(
        "--direct",
        help="Run in this process without Prefect: faster, but Prefect records nothing. DPBO_PREFECT=off does "
        "the same.",
        callback=_set_direct,
        expose_value=False,
    ),
]


def seconds(text: str) -> float:
    """Return the seconds of a duration such as `6h`, `30m`, `5s` or `1d`; anything else is refused."""
    duration = re.fullmatch(r"(\d{1,6})([smhd])", text.strip())
    if duration is None or int(duration[1]) == 0:
        raise StudyInvalid(f"--every {text!r} is no duration", remedy="write 30m, 6h or 1d")
    return float(int(duration[1]) * _SECONDS_PER_UNIT[duration[2]])


def lines_of(file: Path) -> list[str]:
    """The lines of a UTF-8 text file, which end at the newline character alone, as those of JSON lines do."""
    lines = text_of(file).split("\n")
    return lines if lines[-1] else lines[:-1]


def text_of(file: Path, *, remedy: str = "check the path") -> str:
    """Return the text of a UTF-8 file, as it is; StudyInvalid with the `remedy` where it cannot be read."""
    try:
        return file.read_bytes().decode()
    except OSError as error:
        reason = reason_of(error)
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    raise StudyInvalid(f"the file {str(file)!r} cannot be read ({reason})", remedy=remedy)


@contextmanager
def writing(what: str, *, remedy: str = "choose another place") -> Iterator[None]:
    """Context for writing `what`, a name for the message: StudyInvalid where the operating system refuses."""
    try:
        yield
    except OSError as error:
        raise StudyInvalid(f"{what} cannot be written ({reason_of(error)})", remedy=remedy) from None


def reason_of(error: OSError) -> str:
    """Return the operating system's reason for refusing a file, in its own words."""
    return (error.strerror or "no reason given").lower()
