"""Every way of running on three worlds: what was watched, what differs. A section of `make audit`."""

import sys
import time
from dataclasses import dataclass

from audit.verdict import line
from audit.verdict import table as table_of

from observer import compare
from observer.planted import FAULTS
from observer.run import MANY, Seen, Stage, cannot
from observer.ways import WAYS

FIRST, OTHER, NO_NUMBERS = "first", "other scores", "no numbers"
REPEATED = {"plain": 6, "PrivateSearch": 6}  # runs on each of two worlds, for what is counted; a flow takes minutes
LEVEL = 1 / 462  # of a false alarm, a way: 12 runs are shared out in 462 ways
__all__ = ["LEVEL", "MANY", "REPEATED", "observe", "planted_table", "table"]


@dataclass(frozen=True)
class Row:
    """A way of running, and what its runs showed."""

    way: str
    runs: int
    channels: int
    items: int
    differences: tuple[compare.Difference, ...]
    counted: int
    p_value: float | None
    most: str
    minutes: float

    @property
    def fine(self) -> bool:
        return not self.differences and (self.p_value is None or self.p_value > LEVEL)


def observe(way: str, *, short: bool) -> Row:
    """Two worlds asked at every port, the third by one who counts bytes; then both again and again, counted."""
    stage, begun = Stage(WAYS[way]), time.monotonic()
    asked = [(world, stage.run(world, asks=True)) for world in (FIRST, OTHER)]
    again: dict[str, list[Seen]] = {FIRST: [], OTHER: []}
    for _ in range(0 if short else REPEATED.get(way, 0)):  # in turn: the machine's load drifts
        for world, runs in again.items():
            runs.append(stage.run(world, asks=False))
    seen = [*asked, *((world, run) for world, runs in again.items() for run in runs)]
    if not short:
        seen.append((NO_NUMBERS, stage.run(NO_NUMBERS, asks=False)))
    counted, p_value, most = compare.counted(again[FIRST], again[OTHER]) if again[FIRST] else (0, None, "")
    channels = {channel for _, run in seen for channel in run.items}
    items = {(channel, key) for _, run in seen for channel, keys in run.items.items() for key in keys}
    exact = [item for item in items if compare.listed(*item) is None]
    differences = tuple(compare.exact(seen))
    minutes = (time.monotonic() - begun) / 60.0
    return Row(way, len(seen), len(channels), len(exact), differences, counted, p_value, most, minutes)


def caught(fault: str) -> tuple[int, str]:
    """(how many items differ, the first of them) where a leak is planted."""
    stage = Stage(WAYS["flow" if "Prefect" in fault else "plain"])
    found = compare.exact([(world, stage.run(world, asks=True, faults=(fault,))) for world in (FIRST, OTHER)])
    return len(found), f"{found[0].channel}" if found else ""


def table(*, short: bool) -> str:
    """The ways, or why nobody could observe."""
    if (why := cannot()) is not None:
        return f"Not run: {why}."
    ways = ["plain"] if short else list(WAYS)
    rows = []
    for way in ways:
        rows.append(observe(way, short=short))
        sys.stderr.write(f"{rows[-1]}\n")  # it takes long
    head = "way of running | runs | minutes | channels | items | counted: items that vary | p | differences"
    lines = []
    for row in rows:
        counted = ("", "") if row.p_value is None else (f"{row.counted:,}", f"{row.p_value:.3f}")
        differences = len(row.differences) + (0 if row.fine or row.differences else 1)
        watched = row.runs, f"{row.minutes:.1f}", row.channels, f"{row.items:,}"
        lines.append(line(row.way, *watched, *counted, differences))
    told = [f"* {row.way}: {found}" for row in rows for found in row.differences]
    return "\n".join([table_of(head, lines), *(["", *told] if told else [])])


def planted_table(*, short: bool) -> str:
    """Each planted leak, and how many items differ by it."""
    if cannot() is not None:
        return ""
    some = list(FAULTS)[: 1 if short else None]
    rows = [line(fault, *caught(fault)[::-1]) for fault in some]
    return table_of("planted leak | seen first in | items that differ", rows)
