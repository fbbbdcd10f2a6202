"""What is left of a budget, when it ends, and when people are told that it is nearly spent.

A budget ends by its spends by date, and those to come at the rhythm of its studies:

| symbol | name here | meaning | shape |
|---|---|---|---|
| s | `Stream` | the editions of one study by one method: what each costs now, and how often it is requested | — |
| T_s | `every` | the median time between two editions of s, or as it is said | duration |
| t, ε_t | `Point` | a date, and what is spent by then | — |

Nothing is promised: the ledger admits or refuses each study when it is requested. A study with a single edition has
no rhythm, and is not expected again. Prices are those of the newest edition, admission is the ledger's own rule.
"""

import heapq
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Any

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.account import MAX_COUNTED_ROOM, Account, Entry, with_reports
from dpbo_core.ledger.accounting.admission import room_text
from dpbo_core.ledger.accounting.composition import Draw, compose_all
from dpbo_core.privacy.amounts import from_units

N_RECENT_EDITIONS = 12  # editions whose rhythm counts
FORECAST_HORIZON = timedelta(days=3653)  # nobody plans further: ten years
N_CURVE_POINTS = 48  # points of a curve
SETTING, SHARE = "DPBO_BUDGET_ALERT", "0.8"


@dataclass(frozen=True)
class Stream:
    """A recurring study: its editions are expected to continue."""

    newest: Entry  # what the next edition will cost
    every: timedelta  # time between two of them

    @property
    def name(self) -> str:
        """The name of the recurring study."""
        return self.newest.study


@dataclass(frozen=True)
class Point:
    """The ε of a budget that is spent at one moment; `expected` if that moment is in the future."""

    at: datetime
    spent: float
    expected: bool


@dataclass(frozen=True)
class Forecast:
    """The burn-down of a budget."""

    limit: float  # the cap's ε
    points: tuple[Point, ...]  # oldest first
    # each study that goes on, with how many more of its editions are admitted before the end
    streams: tuple[tuple[Stream, int], ...]
    ends: datetime | None  # when the first edition is refused; None if none is in the time that is looked at
    refused: Stream | None  # whose that edition is

    def to_json(self) -> dict[str, Any]:
        """Return the forecast as the JSON object that `dpbo budget --forecast --json` prints."""
        return {
            "ends": None if self.ends is None else _iso_utc(self.ends),
            "first_refused": None if self.refused is None else self.refused.name,
            "studies": [
                {
                    "study": stream.name,
                    "method": stream.newest.method,
                    "every_days": round(stream.every / timedelta(days=1), 4),
                    "more": more,
                }
                for stream, more in self.streams
            ],
            "burn_down": [
                {
                    "at": _iso_utc(point.at),
                    "spent": point.spent,
                    "remaining": max(0.0, self.limit - point.spent),
                    "expected": point.expected,
                }
                for point in self.points
            ],
        }


def streams_of(account: Account, every: timedelta | None = None) -> tuple[Stream, ...]:
    """Return the studies of several editions, with the median time between them, or all, with that of `every`."""
    kinds: dict[tuple[str, str], list[Entry]] = {}
    for entry in with_reports(account.entries):
        kinds.setdefault((entry.study, entry.method), []).append(entry)
    streams = []
    for entries in kinds.values():
        times = [entry.moment for entry in entries[-N_RECENT_EDITIONS:]]
        gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
        rhythm = every or (timedelta(seconds=median(gaps)) if gaps else None)
        if rhythm:
            streams.append(Stream(entries[-1], rhythm))
    return tuple(streams)


def forecast(account: Account, now: datetime, every: timedelta | None = None) -> Forecast | None:
    """Return when the budget ends if studies recur as they did, or `every` so often; None if public or unspent."""
    if account.budget.public or not account.entries:
        return None
    streams = streams_of(account, every)
    due = [(max(s.newest.moment + s.every, now), place) for place, s in enumerate(streams)]
    heapq.heapify(due)
    admitted: list[tuple[datetime, int]] = []
    ends, refused, total, filtered = None, None, account.spent, account.filtered
    while due and len(admitted) < MAX_COUNTED_ROOM:
        at, place = heapq.heappop(due)
        stream = streams[place]
        if at > now + FORECAST_HORIZON:
            break
        total = total + stream.newest.cost
        filtered = filtered.after(stream.newest.draws, stream.newest.cost)
        if not account.budget.admits(total, account.unit, filtered):
            ends, refused = at, stream
            break
        admitted.append((at, place))
        heapq.heappush(due, (at + stream.every, place))
    counts = Counter(place for _, place in admitted)
    return Forecast(
        limit=from_units(account.budget.epsilon_units),
        points=tuple(_curve(account, [(at, streams[place].newest) for at, place in admitted])),
        streams=tuple((stream, counts[place]) for place, stream in enumerate(streams)),
        ends=ends,
        refused=refused,
    )


def _curve(account: Account, expected: list[tuple[datetime, Entry]]) -> Iterator[Point]:
    charges = [(entry.moment, entry, False) for entry in account.entries]
    charges += [(at, entry, True) for at, entry in expected]
    draws, only, delta = Counter[Draw](), 0, account.budget.conversion_for(account.unit)
    for place, (at, entry, future) in enumerate(charges):
        draws.update(entry.draws)
        only += entry.cost.delta_units
        turning = place + 1 in (len(account.entries), len(charges))
        if turning or place % max(1, len(charges) // N_CURVE_POINTS) == 0:
            yield Point(at, compose_all(draws, only, delta)[0], future)


def _iso_utc(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def alert_share() -> float:
    """The share of a budget from which people are told that it is nearly spent: DPBO_BUDGET_ALERT, else 0.8."""
    text = os.environ.get(SETTING) or SHARE
    if not re.fullmatch(r"0?\.\d+|1(\.0*)?", text):
        raise StudyInvalid(f"{SETTING} is no share of a budget", remedy="set it to 0.8, say")
    return float(text)


def account_line(account: Account, *, study: str = "") -> str:
    """A dataset's budget now, in one line: spent, limit and left, and how many more editions of `study` fit."""
    cap, spent = account.budget, account.spent_epsilon[0]
    limit = from_units(cap.epsilon_units)
    if cap.public:
        return f"{cap.dataset}: declared public, no limit"
    if math.isinf(spent):
        return f"{cap.dataset}: ε without end of {limit:g} spent, nothing left"
    stated, more = account.sum_of_entries, account.editions.get(study)
    delta = from_units(cap.delta_units)
    at = f": all draws together cost less than the ε stated ({stated:.3g} so far), at the cap's δ = {delta:g}"
    fits = ("" if more is None else f", {room_text(more)}") + (at if stated > 1.05 * spent else "")
    return f"{cap.dataset}: ε {spent:.3g} of {limit:g} spent, {max(0.0, limit - spent):.3g} left{fits}"


def end_line(burn_down: Forecast | None) -> str:
    """When a budget ends if its studies continue as they did, in one line; or why that is unknown. Not escaped."""
    if burn_down is None:
        return "no forecast: it has no limit, or nothing has been spent yet"
    if not burn_down.streams:
        return "no forecast: no study has run twice yet"
    if burn_down.ends is None or burn_down.refused is None:
        return "the budget lasts longer than ten years"
    return f"the budget ends on {burn_down.ends:%Y-%m-%d}, when {burn_down.refused.name} is refused"
