"""An error on standard error: one line for programs and screen readers, in three aligned parts on a terminal."""

import sys
from collections.abc import Iterable

from dpbo.flows.cli.screens.terminal import Screen, lenient, named
from dpbo.flows.plain import is_plain
from dpbo_core.errors import DpboError, printable


def print_message(error: DpboError) -> None:
    """What happened, the usual cause, what to do."""
    lenient(sys.stderr)
    if is_plain() or not sys.stderr.isatty():
        sys.stderr.write(f"dpbo: {error.message()}\n")
        return
    screen = Screen(stderr=True)
    screen.say(f"[bold red]dpbo:[/] {named(error.what)}")
    parts = (("usual cause", error.cause), ("what to do", error.remedy))
    screen.facts((name, named(text)) for name, text in parts if text)


def print_warnings(lines: Iterable[str]) -> None:
    """What could not be done beside a result that stands: on standard error, a line each."""
    lenient(sys.stderr)
    for line in lines:
        sys.stderr.write(f"dpbo: warning: {printable(line)}\n")
