"""The `dpbo` command: its words, what they do, and its screens."""

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from dpbo.flows.plain_output import announce_stage

if TYPE_CHECKING:
    from dpbo_core.study import StudySpec

GC_THRESHOLD = 1_000_000  # allocations between two collections; a command's imports make 700,000, and no garbage


STUDY_OPTIONS = {  # beside those of every command: what takes another word is refused before a study is read
    "tune": ("--example", "--register", "--anyway", "--yes", "--new-spend", "--direct"),
    "plan": ("--all", "--rehearse", "--event"),
    "evaluate": (
        "--epsilon",
        "--model",
        "--repair",
        "--threshold",
        "--against",
        "--register",
        "--plan",
        "--anyway",
    ),
    "serve": ("--cron", "--every", "--port", "--register", "--trust-server"),
}
COMMON_OPTIONS = ("--help", "--json", "--debug", "--plain")


def main() -> None:
    """Run the command line: check the study, then import and run the command; until then a signal just ends it."""
    try:
        with suppress(ValueError):  # in another thread than the main one nobody handles signals
            signal.signal(signal.SIGTERM, _raise_interrupt)
        gc.set_threshold(GC_THRESHOLD)
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # nobody else's code is shown what is read
        atexit.register(gc.freeze)  # a process that ends gives its memory back whole: nothing is searched once more
        read = None if _is_misspelt(sys.argv[1:]) else _first_look()
        _announce(sys.argv[1:])
        from dpbo.flows.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("dpbo: stopped; nothing was charged. What to do: run the same command again\n")
        sys.exit(130)
    run(read)


def _is_misspelt(words: list[str]) -> bool:
    """Return whether a command that names a study has an option that it does not take, or a second study."""
    verb = next((word for word in words if not word.startswith("-")), "")
    options = [word.partition("=")[0] for word in words if word.startswith("-")]
    options_taken = (*STUDY_OPTIONS.get(verb, options), *COMMON_OPTIONS)
    n_studies = sum(word.endswith(".toml") for word in words)
    return any(option not in options_taken for option in options) or (verb == "tune" and n_studies > 1)


def _announce(words: list[str]) -> None:
    """Print on standard error what `tune` or `ui` begins to do, before the imports, which take seconds."""
    if "--help" in words or _is_misspelt(words) or words[:1] not in (["tune"], ["ui"]):
        return
    study = next((word for word in words if word.endswith(".toml")), "the bundled example")
    if words[0] == "ui":
        announce_stage("MLflow", "starting its server")
    else:
        announce_stage(study.rpartition("/")[2], "reading the study")


def _first_look() -> "StudySpec | None":
    """The study that the command names, read; exit with a message if its text or its files' headers are refused.

    None if the command names no study, or where anything else fails, which the command itself says.
    """
    words = sys.argv[1:]
    if words != ["tune"] and not any(word.endswith(".toml") for word in words):
        return None  # no study is named: nothing is imported to read one
    from dpbo.flows.cli.first_look import look
    from dpbo.flows.cli.terminal import print_message
    from dpbo_core.errors import BudgetRefused, StudyInvalid

    with suppress(Exception):
        try:
            return look(words)
        except (StudyInvalid, BudgetRefused) as error:
            print_message(error)
            sys.exit(error.exit_code)
    return None


def _raise_interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
