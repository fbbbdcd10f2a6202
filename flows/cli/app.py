"""The `dpbo` command: each subcommand reads its words, makes one call, and prints a screen or one JSON object.

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

from dpbo.flows.cli.words import Plain, common_options, result_options
from dpbo.flows.terminal import Screen, allow_any_encoding, print_message
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
    "plan": ("dpbo.flows.cli.words:plan", "Estimate accuracy and privacy cost; reads no sensitive record."),
    "tune": ("dpbo.flows.cli.words:tune", "Search, charge the budget and release the choice."),
    "evaluate": (
        "dpbo.flows.cli.words:evaluate",
        "Report the released model's quality on the sensitive records.",
    ),
    "serve": ("dpbo.flows.cli.words:serve", "Tune on a schedule until the budget is spent."),
    "predict": ("dpbo.flows.cli.predict:predict", "Write the released model's predictions for new rows."),
    "show": ("dpbo.flows.cli.show:show", "Print a recorded release; reads only the ledger."),
    "report": ("dpbo.flows.cli.report:report", "Summarise every study for its managers; reads only the ledger."),
    "budget": ("dpbo.flows.cli.budget_words:budget_app", "Show what was spent, by whom, and what is left."),
    "ui": ("dpbo.flows.cli.words:ui", "Show MLflow's pages, read-only, behind a link."),
    "doctor": ("dpbo.flows.cli.doctor:doctor", "Check this machine's setup."),
    "verify": ("dpbo.flows.cli.verify:verify", "Recompute a release's ε and δ and check its receipt."),
}
FEATURE_COMMANDS: Mapping[str, tuple[str, str]] = NamedParts(__name__, {}, group="dpbo.commands")
ALL_COMMANDS = ChainMap(OWN_COMMANDS, cast("dict[str, tuple[str, str]]", FEATURE_COMMANDS))
N_COMMON_COMMANDS = 10  # of them are what most people need; the rest stands under "also"
RESULT_COMMANDS = {"show", "report", "tune", "evaluate", "plan", "verify", *FEATURE_COMMANDS}
INTERRUPT_EXIT_CODE = 130  # of a process that an interrupt ended
RERUN_HINT = "run the same command again"


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
