"""An error on standard error: one line for programs and screen readers, in three aligned parts on a terminal."""

import sys

from dpbo_core.errors import DpboError
from flows.screens.terminal import Screen, is_plain, lenient, named


def print_letter(error: DpboError) -> None:
    """What happened, the usual cause, what to do."""
    lenient(sys.stderr)
    if is_plain() or not sys.stderr.isatty():
        sys.stderr.write(f"dpbo: {error.letter()}\n")
        return
    screen = Screen(stderr=True)
    screen.say(f"[bold red]dpbo:[/] {named(error.what)}")
    parts = (("usual cause", error.cause), ("what to do", error.remedy))
    screen.facts((name, named(text)) for name, text in parts if text)
