"""The `dpbo` command: each subcommand reads its words, makes one call, and prints a screen or one JSON object.

Exit codes: 0 done · 2 the study or the data reference is invalid · 3 the budget refuses · 4 an assumption is not
accepted · 5 a look's alarm, where that is asked for · 1 anything else. Standard error says what happened, the usual
cause and what to do: one line, or three aligned parts where that is a terminal; a stack trace only with --debug,
and never a sensitive value.
"""

import atexit
import gc
import os
import sys
import traceback
from typing import Annotated

import typer

from dpbo.flows.cli import budget_words
from dpbo.flows.cli.alerts import alerts
from dpbo.flows.cli.budget import budget_app
from dpbo.flows.cli.compare import compare
from dpbo.flows.cli.doctor import doctor
from dpbo.flows.cli.evaluate import evaluate
from dpbo.flows.cli.init import init
from dpbo.flows.cli.outsourced import curate_app, model_app
from dpbo.flows.cli.plan import plan
from dpbo.flows.cli.show import show, verify
from dpbo.flows.cli.status import status
from dpbo.flows.cli.terminal import Screen, lenient, print_message
from dpbo.flows.cli.tune import score, serve, tune
from dpbo.flows.cli.ui import ui
from dpbo.flows.cli.watch import watch
from dpbo.flows.plain import PLAIN
from dpbo_core.errors import DpboError, StudyInvalid

OBJECTS = 100_000  # that are made between two searches for garbage; imports make many, and none

COMMANDS = (
    ("dpbo init TRAIN.csv VALID.csv", "write a study file for your two files"),
    ("dpbo plan study.toml", "its price and what to expect; opens no sensitive file"),
    ("dpbo tune study.toml", "search, release, charge the budget"),
    ("dpbo budget", "what was spent, and what is left"),
    ("dpbo ui", "look at the releases in MLflow"),
)

app = typer.Typer(
    name="dpbo",
    help="Tune models on sensitive validation data; every output is differentially private.",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def start(
    ctx: typer.Context,
    plain: Annotated[
        bool, typer.Option("--plain", help="For screen readers: words alone. Before or after a command.")
    ] = False,
) -> None:
    """Tune models on sensitive validation data; every output is differentially private."""
    lenient(sys.stdout)
    if plain:
        os.environ[PLAIN] = "1"
    if ctx.invoked_subcommand is None:
        print_first()


def print_first() -> None:
    """Print what `dpbo` alone shows: what it does, and the first commands."""
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
    screen.say("From Python: from dpbo_core import PrivateSearch; help(PrivateSearch).")
    screen.say("For a screen reader: --plain, before or after a command, or DPBO_PLAIN=1.")


for of_budget in (
    budget_words.set_cap, budget_words.allow, budget_words.publish,
    budget_words.export, budget_words.verify, budget_words.recover,
):  # fmt: skip
    budget_app.command(of_budget.__name__.removesuffix("_cap"))(of_budget)
app.add_typer(budget_app, name="budget")
app.add_typer(curate_app, name="curate")
app.add_typer(model_app, name="model")
for words in (  # in the order in which --help lists them
    show, status, alerts, init, tune, score, evaluate, watch, plan, compare, serve, verify, doctor, ui,
):  # fmt: skip
    app.command()(words)


def _refuse_unprintable(words: list[str]) -> None:
    """A name that a shell expanded may hold a terminal's escape codes, and usage errors repeat words as they are.

    Raises:
        StudyInvalid: a word does.
    """
    for word in words:
        if not word.isprintable():
            raise StudyInvalid(
                f"the word {word[:60]!r} of the command holds an invisible character",
                cause="a file with such a name, or text that was pasted",
                remedy="rename the file, or type the word",
            )


def main() -> None:
    """The entry point: run, and turn every error into one message and an exit code."""
    gc.set_threshold(OBJECTS)
    atexit.register(gc.freeze)  # a process that ends gives its memory back whole: nothing is searched once more
    sys.argv = plain_first(sys.argv)
    debug = "--debug" in sys.argv
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    try:
        _refuse_unprintable(sys.argv[1:])
        app()
    except DpboError as error:
        message = error
        if debug:
            traceback.print_exc()
    except KeyboardInterrupt:
        message = DpboError("stopped", remedy="run the same command again; it continues, and nothing is paid twice")
        message.exit_code = 130
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


def plain_first(words: list[str]) -> list[str]:
    """The command's words with --plain, wherever it stands, moved before the subcommand."""
    end = words.index("--") if "--" in words else len(words)
    rest = [word for word in words[1:end] if word != "--plain"]
    asked = ["--plain"] if len(rest) < end - 1 else []
    return [words[0], *asked, *rest, *words[end:]]
