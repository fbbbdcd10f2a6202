"""The `dpbo` command: its words, what they do, and its screens."""

import signal
import sys
from contextlib import suppress
from typing import NoReturn


def main() -> None:
    """Import and run the command; until it is imported a signal ends it at once, as nothing is charged yet."""
    try:
        with suppress(ValueError):  # in another thread than the main one nobody handles signals
            signal.signal(signal.SIGTERM, _raise_interrupt)
        from dpbo.flows.cli.app import main as run
    except KeyboardInterrupt:
        sys.stderr.write("dpbo: stopped; nothing was charged. What to do: run the same command again\n")
        sys.exit(130)
    run()


def _raise_interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt
