"""The `dpbo` command: its words, what they do, and its screens."""

import atexit
import gc
import os
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from dpbo_core.study import StudySpec

GC_THRESHOLD = 1_000_000  # allocations between two collections; a command's imports make 700,000, and no garbage


def main() -> None:
    """Run the command line: check the study, then import and run the command; until then a signal just ends it."""
    try:
        with suppress(ValueError):  # in another thread than the main one nobody handles signals
            signal.signal(signal.SIGTERM, _raise_interrupt)
        gc.set_threshold(GC_THRESHOLD)
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # nobody else's code is shown what is read
        atexit.register(gc.freeze)  # a process that ends gives its memory back whole: nothing is searched once more
        read = _first_look()
        from dpbo.flows.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("dpbo: stopped; nothing was charged. What to do: run the same command again\n")
        sys.exit(130)
    run(read)


def _first_look() -> "StudySpec | None":
    """The study that a command without options names, read; exit with a message if its text or its files' headers
    are refused.

    None if the command names no study, or where anything else fails, which the command itself says.
    """
    words = sys.argv[1:]
    options = any(word.startswith("-") for word in words)  # of which a wrong one is answered first
    n_studies = sum(word.endswith(".toml") for word in words)
    if options or (words != ["tune"] and n_studies != 1):
        return None  # no study is named, or several: nothing is imported to read one
    from dpbo.flows.cli.first_look import look
    from dpbo.flows.terminal import print_message
    from dpbo_core.errors import BudgetRefused, StudyInvalid

    try:
        return look(words)
    except (StudyInvalid, BudgetRefused) as error:
        print_message(error)
        sys.exit(error.exit_code)


def _raise_interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
