"""`dpbo` alone: what it is, five commands in the order of use, where to read on."""

from dpbo.flows.cli.screens.terminal import Screen

COMMANDS = (
    ("dpbo init TRAIN.csv VALID.csv", "write a study file for your two files"),
    ("dpbo plan study.toml", "its price and what to expect; opens no sensitive file"),
    ("dpbo tune study.toml", "search, release, charge the budget"),
    ("dpbo budget", "what was spent, and what is left"),
    ("dpbo ui", "look at the releases in MLflow"),
)


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
