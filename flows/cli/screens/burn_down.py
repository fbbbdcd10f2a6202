"""`dpbo budget --forecast`: how each dataset's budget burns down, and when it ends."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from dpbo.flows.cli.screens.account_tables import account_json, account_line
from dpbo.flows.cli.screens.terminal import Screen, named
from dpbo_core.accounting.accounts import MOST_ROOM, Account
from dpbo_core.accounting.forecast import Forecast, Stream

Forecasts = tuple[tuple[Account, Forecast | None], ...]


def forecasts_json(forecasts: Forecasts) -> dict[str, Any]:
    """The object of `dpbo budget --forecast --json`: each account as without it, and its forecast beside it."""
    return {
        "datasets": [
            account_json(account) | {"forecast": None if told is None else told.to_json()}
            for account, told in forecasts
        ]
    }


def print_forecasts(forecasts: Forecasts) -> None:
    """Each account in a line, its burn-down, and what is refused first."""
    screen = Screen()
    if not forecasts:
        screen.say("The ledger is empty. Open a cap: dpbo budget set DATASET --epsilon 5 --delta 1e-5")
    for place, (account, told) in enumerate(forecasts):
        if place:
            screen.say()
        screen.say(f"[bold]{account_line(account)}[/]")
        for line in _lines(told, screen):
            screen.say(f"  {line}")


def _lines(told: Forecast | None, screen: Screen) -> Iterator[str]:
    if told is None:
        yield "nothing burns down: it has no limit, or nothing was spent on it yet"
        return
    if not told.streams:
        yield "no study has a rhythm yet: say one with --every 30d"
        return
    for expected, words in ((False, "left so far"), (True, "and if they go on")):
        left = [max(0.0, told.limit - point.spent) for point in told.points if point.expected is expected]
        if left:
            yield f"{screen.spark([told.limit, *left, 0.0])}  {words}"
    for stream, more in told.streams:
        count = f"{more:,}" if more < MOST_ROOM else f"{MOST_ROOM:,} or more"
        yield f"{named(stream.name)} ({named(stream.newest.method)}), every {_duration(stream.every)}: {count} more"
    yield _end(told.ends, told.refused)


def _end(ends: datetime | None, refused: Stream | None) -> str:
    if ends is None or refused is None:
        return "it does not end within ten years"
    return f"it ends on {ends:%Y-%m-%d}, when {named(refused.name)} is refused"


def _duration(every: timedelta) -> str:
    days = every / timedelta(days=1)
    return f"{days:.3g} days" if days >= 2.0 else f"{24.0 * days:.3g} hours"
