"""The `dpbo` command: each subcommand reads its words, makes one call, and prints a screen or one JSON object.

The words that several commands take are here, and those of `tune`, `serve`, `plan`, `evaluate` and `ui`, whose
modules are imported when they run. So help and a wrong option are answered before a library is loaded, and a
missing file before the ledger is opened.

Exit codes: 0 done · 2 the study or the data reference is invalid · 3 the budget refuses · 4 an assumption is not
accepted · 1 anything else. Standard error says what happened, the usual
cause and what to do: one line, or three aligned parts where that is a terminal; a stack trace only with --debug,
and never a sensitive value.
"""

import os
import sys
import tomllib
import traceback
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from dpbo.flows.terminal import (
    PLAIN_SETTING,
    PRINTS_JSON,
    Screen,
    allow_any_encoding,
    announce_stage,
    print_message,
)
from dpbo.tasks.policies import PREFECT_USE
from dpbo_core.errors import DpboError, StudyInvalid, suggestion
from dpbo_core.privacy.named_parts import NamedParts, load

if TYPE_CHECKING:
    from dpbo_core.study import StudySpec

COMMANDS = (
    ("dpbo init TRAIN.csv VALID.csv", "write a study file for your two files"),
    ("dpbo plan study.toml", "estimate accuracy and privacy cost; reads no sensitive record"),
    ("dpbo tune study.toml", "search, charge the budget and release the choice"),
    ("dpbo budget", "show what was spent and what is left"),
    ("dpbo ui", "view the releases in MLflow"),
)
OWN_COMMANDS = {  # in the order of --help: its home, and its line there
    "init": ("dpbo.flows.cli.init:init", "Write a study file for two data files."),
    "plan": ("dpbo.flows.cli.app:plan", "Estimate accuracy and privacy cost; reads no sensitive record."),
    "tune": ("dpbo.flows.cli.app:tune", "Search, charge the budget and release the choice."),
    "evaluate": (
        "dpbo.flows.cli.app:evaluate",
        "Report the released model's quality on the sensitive records.",
    ),
    "serve": ("dpbo.flows.cli.app:serve", "Tune on a schedule until the budget is spent."),
    "predict": ("dpbo.flows.cli.predict:predict", "Write the released model's predictions for new rows."),
    "show": ("dpbo.flows.cli.show:show", "Print a recorded release; reads only the ledger."),
    "report": ("dpbo.flows.cli.report:report", "Summarise every study for its managers; reads only the ledger."),
    "budget": ("dpbo.flows.cli.budget_words:budget_app", "Show what was spent, by whom, and what is left."),
    "ui": ("dpbo.flows.cli.app:ui", "Show MLflow's pages, read-only, behind a link."),
    "doctor": ("dpbo.flows.cli.doctor:doctor", "Check this machine's setup."),
    "verify": ("dpbo.flows.cli.verify:verify", "Recompute a release's ε and δ and check its receipt."),
}
FEATURE_COMMANDS: Mapping[str, tuple[str, str]] = NamedParts(__name__, {}, group="dpbo.commands")
ALL_COMMANDS = ChainMap(OWN_COMMANDS, cast("dict[str, tuple[str, str]]", FEATURE_COMMANDS))
N_COMMON_COMMANDS = 10  # of them are what most people need; the rest stands under "also"
RESULT_COMMANDS = {"show", "report", "tune", "evaluate", "plan", "verify", *FEATURE_COMMANDS}
INTERRUPT_EXIT_CODE = 130  # of a process that an interrupt ended
RERUN_HINT = "run the same command again"


Study = Annotated[Path, typer.Argument(metavar="STUDY.toml", help="The study file.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object only.")]
Explain = Annotated[bool, typer.Option("--explain", help="Add a second screen that explains each line.")]
Anyway = Annotated[bool, typer.Option("--anyway", help="Run even if the plan expects mostly noise.")]
Port = Annotated[int, typer.Option(help="The port at which a Prefect server is found or started.")]
TrustServer = Annotated[
    bool,
    typer.Option("--trust-server", help="Accept a server without a password. Such a server can run code as you."),
]

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


class Verbs(TyperGroup):
    """A group that imports a command's module when it is called: help and completion need no libraries."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002  click hands it over
        """Write the commands of a first project in the order of use, then all others."""
        lines = [(name, ALL_COMMANDS[name][1]) for name in (*OWN_COMMANDS, *FEATURE_COMMANDS)]
        for title, section in (("Commands", lines[:N_COMMON_COMMANDS]), ("Also", lines[N_COMMON_COMMANDS:])):
            with formatter.section(title):
                formatter.write_dl(section)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name, command and remaining words, as typer resolves them, with the command's module imported."""
        if args[0] not in ALL_COMMANDS and not args[0].startswith("-") and not ctx.resilient_parsing:
            ctx.fail(f"this installation has no command or feature {args[0]!r}{suggestion(args[0], ALL_COMMANDS)}")
        name, _, rest = super().resolve_command(ctx, args)
        if name is None:
            return name, None, rest
        verb = load(ALL_COMMANDS[name][0])
        command = typer.main.get_command(verb if isinstance(verb, typer.Typer) else group_of_one(name, verb))
        add_options(command, common_options)
        if name in RESULT_COMMANDS:
            add_options(command, result_options)
        return name, command, rest


def group_of_one(name: str, function: Callable[..., None]) -> typer.Typer:
    """Return a typer application that has this function as its one command."""
    group = typer.Typer(add_completion=False, rich_markup_mode=None)
    group.command(name)(function)
    return group


def add_options(command: Any, declared: Callable[..., None]) -> None:
    """Give a command, or every command of a group, the options that a function declares."""
    members = getattr(command, "commands", {}).values()
    for member in members:
        add_options(member, declared)
    if not members:
        options = typer.main.get_command(group_of_one("options", declared)).params
        command.params += options


app = typer.Typer(
    name="dpbo",
    cls=Verbs,
    help="Tune models on sensitive validation data; every output is differentially private.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for verb in ALL_COMMANDS:
    app.command(verb, help=OWN_COMMANDS[verb][1] if verb in OWN_COMMANDS else None)(lambda: None)


@app.callback()
def start(
    ctx: typer.Context,
    plain: Plain = False,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Before a command: let standard output replace what it cannot encode; without one print the first screen."""
    allow_any_encoding(sys.stdout)
    if version:
        from dpbo_core.privacy.named_parts import library_version

        Screen().say(f"dpbo {library_version()}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        print_first()


def print_first() -> None:
    """Print the screen of `dpbo` without a command: what dpbo does, and the first commands."""
    screen = Screen()
    screen.say("[bold]dpbo[/] tunes models on validation records that must not leak.")
    screen.say(
        "The training file is public, the validation file is sensitive; whatever comes out, to the last log line, "
        "is differentially private.\n"
    )
    screen.say("Five commands, in the order of use:\n")
    screen.facts(COMMANDS)
    screen.say("\nNo data at hand: dpbo tune --example, on bundled data, in an empty folder.")
    screen.say("All commands: dpbo --help. One of them: dpbo tune --help.")
    screen.say("From Python: from dpbo import PrivateSearch; help(PrivateSearch).")
    screen.say("For a screen reader: --plain, before or after a command, or DPBO_PLAIN=1.")


def main(read: "StudySpec | None" = None) -> None:
    """The entry point: run, and turn every error into one message and an exit code.

    `read` is the study that the command names, if that was read.
    """
    sys.argv = sort_plain_first(sys.argv)
    debug = "--debug" in sys.argv
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    try:
        for word in sys.argv[1:]:  # before a usage error repeats it: it may be a terminal's escape code
            if not word.isprintable():
                raise StudyInvalid(
                    f"the word {word[:60]!r} of the command holds an invisible character",
                    cause="a file with such a name, or text that was pasted",
                    remedy="rename the file, or type the word",
                )
        app(obj=read)
    except DpboError as error:
        message = error
        if debug:
            traceback.print_exc()
    except KeyboardInterrupt:
        message = exit_interrupted(sys.argv[1:])
    except SystemExit as ended:
        if ended.code != INTERRUPT_EXIT_CODE:  # into which typer turns an interrupt
            raise
        message = exit_interrupted(sys.argv[1:])
    except Exception as error:  # noqa: BLE001  the last resort: a person gets a message, not a stack trace
        if debug:
            traceback.print_exc()
        message = DpboError(
            f"something unexpected went wrong ({type(error).__name__})",
            cause="a broken installation, a full disk or a store that another version wrote",
            remedy="run it again with --debug to see where",
        )
    else:
        return
    print_message(message)
    sys.exit(message.exit_code)


def sort_plain_first(words: list[str]) -> list[str]:
    """Return the command's words with --plain, wherever it stands, moved before the subcommand."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[1:end] if word != "--plain"]
    option = ["--plain"] if len(rest) < end - 1 else []
    return [words[0], *option, *rest, *words[end:]]


def exit_interrupted(words: Sequence[str]) -> DpboError:
    """Return the error of an interrupted command: what the ledger charged its study, and whether it released."""
    error = DpboError("stopped", remedy=f"{RERUN_HINT}; it continues, and nothing is paid twice")
    with suppress(Exception, KeyboardInterrupt):  # whatever cannot be looked up is not said
        error = _study_stopped(next(Path(word) for word in words if word.endswith(".toml")))
    error.exit_code = INTERRUPT_EXIT_CODE
    return error


def _study_stopped(path: Path) -> DpboError:
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    name, edition = tables["study"]["name"], tables["study"].get("edition", "1")
    entries = []
    if "dpbo.flows.cli.running" in sys.modules:  # no library is loaded to say that nothing began
        from dpbo.flows.cli.running import accounts_here

        entries = [
            entry
            for account in accounts_here(tables["privacy"]["dataset"])
            for entry in account.entries
            if entry.study.partition("/")[0] == name
            and entry.edition.partition(".")[0] == edition.partition(".")[0]
        ]
    if not entries:
        return DpboError(f"stopped; nothing was charged for {name!r}", remedy=f"{RERUN_HINT} whenever you like")
    unfinished = [entry for entry in entries if entry.released_at is None]
    if unfinished:
        paid = ", ".join(f"{entry.study} (ε = {entry.epsilon:g})" for entry in unfinished)
        return DpboError(
            f"stopped; charged and not released yet: {paid}",
            remedy=f"{RERUN_HINT}: it continues, and pays nothing twice",
        )
    return DpboError(
        f"stopped; what {name!r} was charged for is released",
        remedy=f"dpbo show {path} prints it; {RERUN_HINT} to publish what is not shown yet, at no price",
    )
