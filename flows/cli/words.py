"""The words that commands take: those that several share, and those of `tune`, `serve`, `plan`, `evaluate`, `ui`.

The modules of these five are imported when the command runs. So help and a wrong option are answered before a
library is loaded, and a missing file before the ledger is opened.
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dpbo.flows.terminal import PLAIN_SETTING, PRINTS_JSON, announce_stage
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
Debug = Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.", expose_value=False)]
EXAMPLE_NAME = "the bundled example"
Registers = Annotated[bool, typer.Option("--register", help="Register the final model in MLflow.")]


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


def tune(
    ctx: typer.Context,
    study: Annotated[Path | None, typer.Argument(metavar="STUDY.toml", help="The study file.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Run the bundled example study.")] = False,
    register: Registers = False,
    anyway: Anyway = False,
    yes: Annotated[bool, typer.Option("--yes", help="Spend without asking on the terminal.")] = False,
    new_spend: Annotated[
        bool, typer.Option("--new-spend", help="Spend budget again for a study changed after its release.")
    ] = False,
    direct: Direct = False,
) -> None:
    """Search step by step, charge the budget, release the result and show it in MLflow."""
    if study is not None:
        _check_study(ctx)
    announce_stage(EXAMPLE_NAME if study is None else study.name, "reading the study")
    from dpbo.flows.cli import tune as command

    command.tune(
        study, example=example, register=register, anyway=anyway, yes=yes, new_spend=new_spend, read=ctx.obj
    )


def serve(
    study: Study,
    cron: Annotated[str | None, typer.Option(help='When to fire, UTC: "0 2 * * *", say.')] = None,
    every: Annotated[str | None, typer.Option(help="How often to run, such as 30m, 6h or 1d.")] = None,
    port: Port = 4200,
    register: Annotated[bool, typer.Option("--register", help="Register each final model in MLflow.")] = False,
    trust_server: TrustServer = False,
) -> None:
    """Run the study on a schedule. To serve its model, use dpbo tune --register.

    Each run is a new edition and a new spend, until the budget refuses.
    """
    from dpbo.flows.cli import tune as command

    command.serve(study, cron=cron, every=every, port=port, register=register, trust_server=trust_server)


def plan(
    ctx: typer.Context,
    studies: Annotated[
        list[Path], typer.Argument(metavar="STUDY.toml", help="The study file; several are priced together.")
    ],
    every_method: Annotated[
        bool, typer.Option("--all", help="Show every method with its numbers and the reasons.")
    ] = False,
    rehearse: Annotated[
        bool, typer.Option("--rehearse", help="With a trainer of your own: train once on invented records.")
    ] = False,
    event: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Price a dp_accounting event too, on the first study's dataset."),
    ] = None,
) -> None:
    """Estimate each method's accuracy and privacy cost, and refuse what tune would refuse.

    Reads no sensitive record and charges nothing.
    """
    _check_study(ctx)
    from dpbo.flows.cli import plan as command

    command.plan(studies, every_method=every_method, rehearse=rehearse, event=event)


def evaluate(
    ctx: typer.Context,
    study: Study,
    epsilon: Annotated[
        float | None, typer.Option(help="ε of the report; replaces the study's [evaluation].")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Evaluate a saved public model instead: its folder, or an MLflow model."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Recalibrate the model from the report; costs no further ε.")
    ] = False,
    threshold: Annotated[
        str | None, typer.Option(help="With --repair: cost=10:1 (a miss costs ten false alarms) or recall=0.9.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Compare with this champion instead: a saved model's folder, models:/NAME@ALIAS, or column:NAME.",
        ),
    ] = None,
    register: Annotated[
        bool, typer.Option("--register", help="With --against: make the model MLflow's champion if it is better.")
    ] = False,
    plan: Annotated[
        bool, typer.Option("--plan", help="Show the price and the expected accuracy; charges nothing.")
    ] = False,
    anyway: Anyway = False,
) -> None:
    """Report the released model's quality on the sensitive records: ROC, calibration and groups, for one ε."""
    _check_study(ctx)
    from dpbo.flows.cli import evaluate as command

    command.evaluate(
        study,
        epsilon=epsilon,
        model=model,
        repair=repair,
        threshold=threshold,
        against=against,
        register=register,
        plan=plan,
        anyway=anyway,
    )


def ui(port: Annotated[int, typer.Option(help="The port on this machine.")] = 5000) -> None:
    """Serve MLflow's pages of the project's store, read-only, at the link that is printed."""
    announce_stage("MLflow", "starting its server")
    from dpbo.flows.cli.serving import show_pages

    show_pages(port)


def _check_study(ctx: typer.Context) -> None:
    """Read the study that the command names, unless it was read already: its mistakes are answered first."""
    if ctx.obj is None:
        from dpbo.flows.cli import look

        ctx.obj = look(sys.argv[1:])
