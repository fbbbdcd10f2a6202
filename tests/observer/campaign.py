"""Every way of running on three worlds: what was watched, what differs. A section of `make audit`."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from observer import compare
from observer.kept import kept
from observer.planted import FAULTS
from observer.run import MANY, Seen, Stage, cannot
from observer.ways import WAYS

FIRST, OTHER, NO_NUMBERS = "first", "other scores", "no numbers"
REPEATED = {"plain": 6, "PrivateSearch": 6}  # runs on each of two worlds, for what is counted; a flow takes minutes
ONLY = "OBSERVER_WAYS"  # ways and planted leaks, parted by "; ": what one sitting has time for
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


class Runs:
    """The runs of one way in their order, each made or kept, and the seconds that they took."""

    def __init__(self, way: str, faults: Sequence[str] = ()) -> None:
        self._stage, self._name, self._faults = Stage(WAYS[way]), "; ".join((way, *faults)), faults
        self._made, self.seconds = 0, 0.0

    def on(self, world: str, *, asks: bool) -> Seen:
        """The next run, on this world."""

        def make() -> tuple[str, Seen]:
            seen = self._stage.run(world, asks=asks, faults=self._faults)
            return self._stage.tape or "", seen

        name = f"{self._name}, {self._made} on {world}, {'asks' if asks else 'counts'}"
        self._stage.tape, seen, seconds = kept(name, make)
        self._made += 1
        self.seconds += seconds
        return seen


def observe(way: str, *, short: bool) -> Row:
    """Two worlds asked at every port, the third by one who counts bytes; then both again and again, counted."""
    made = Runs(way)
    asked = [(FIRST, made.on(FIRST, asks=True)), (OTHER, made.on(OTHER, asks=True))]
    again: dict[str, list[Seen]] = {FIRST: [], OTHER: []}
    for _ in range(0 if short else REPEATED.get(way, 0)):  # in turn: the machine's load drifts
        for world, runs in again.items():
            runs.append(made.on(world, asks=False))
    seen = [*asked, *((world, run) for world, runs in again.items() for run in runs)]
    if not short:
        seen.append((NO_NUMBERS, made.on(NO_NUMBERS, asks=False)))
    counted, p_value, most = compare.counted(again[FIRST], again[OTHER]) if again[FIRST] else (0, None, "")
    channels = {channel for _, run in seen for channel in run.items}
    items = {(channel, key) for _, run in seen for channel, keys in run.items.items() for key in keys}
    exact = [item for item in items if compare.listed(*item) is None]
    differences = tuple(compare.exact(seen))
    return Row(way, len(seen), len(channels), len(exact), differences, counted, p_value, most, made.seconds / 60.0)


def caught(fault: str) -> tuple[int, str]:
    """(how many items differ, the first of them) where a leak is planted."""
    made = Runs("flow" if "Prefect" in fault else "plain", (fault,))
    found = compare.exact([(world, made.on(world, asks=True)) for world in (FIRST, OTHER)])
    return len(found), f"{found[0].channel}" if found else ""


def _left_out(name: str) -> bool:
    """Whether this sitting has no time for it: the page says so, and the audit fails."""
    return ONLY in os.environ and name not in os.environ[ONLY].split("; ")


def table(*, short: bool) -> str:
    """The ways, or why nobody could observe."""
    if (why := cannot()) is not None:
        return f"Not run: {why}."
    ways = ["plain"] if short else list(WAYS)
    rows = []
    for way in (way for way in ways if not _left_out(way)):
        rows.append(observe(way, short=short))
        sys.stderr.write(f"{rows[-1]}\n")  # it takes long
    lines = [
        "| way of running | runs | minutes | channels | items | counted: items that vary | p | differences |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        p = "" if row.p_value is None else f"{row.p_value:.3f}"
        varying = "" if row.p_value is None else f"{row.counted:,}"
        differences = len(row.differences) + (0 if row.fine or row.differences else 1)
        lines.append(
            f"| {row.way} | {row.runs} | {row.minutes:.1f} | {row.channels} | {row.items:,} | {varying} | {p} | "
            f"{differences} |"
        )
    lines += [f"| {way} | 0 | | | | | | not run |" for way in ways if _left_out(way)]
    told = [f"* {row.way}: {found}" for row in rows for found in row.differences]
    return "\n".join([*lines, *(["", *told] if told else [])])


def planted_table(*, short: bool) -> str:
    """Each planted leak, and how many items differ by it."""
    if cannot() is not None:
        return ""
    lines = ["| planted leak | seen first in | items that differ |", "|---|---|---|"]
    for fault in list(FAULTS)[: 1 if short else None]:
        count, channel = (0, "not run") if _left_out(fault) else caught(fault)
        lines.append(f"| {fault} | {channel} | {count} |")
    return "\n".join(lines)
