"""What a script hands over: rows that say what was asked, what was measured, and whether it is reached."""

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass

from threadpoolctl import threadpool_limits

from benchmarks.timing import Spread


@dataclass(frozen=True)
class Row:
    """One measured number beside what was asked of it; without a number it says why.

    Attributes:
        what: what was measured, and on what.
        figure: the number, None where it could not be measured.
        unit: "×", "MB", "s", "%".
        at_least, at_most: what was asked; neither for a number that is shown for comparison.
        low, high: its spread over the repetitions, where there were several.
        note: anything a reader must know to believe it.
    """

    what: str
    figure: float | None
    unit: str = "×"
    at_least: float | None = None
    at_most: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.figure is None:
            return "not measured"
        if self.at_least is None and self.at_most is None:
            return ""
        reached = self.figure >= self.at_least if self.at_least is not None else self.figure <= self.at_most
        return "reached" if reached else "**short**"

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """(what, asked, measured, spread, verdict)."""
        asked = ""
        if self.at_least is not None:
            asked = f"≥ {self.at_least:g} {self.unit}"
        elif self.at_most is not None:
            asked = f"≤ {self.at_most:g} {self.unit}"
        measured = "" if self.figure is None else f"{self.figure:.3g} {self.unit}"
        spread = "" if self.low is None else f"{self.low:.3g} … {self.high:.3g}"
        return f"{self.what} ({self.note})" if self.note else self.what, asked, measured, spread, self.verdict


def spread_row(what: str, spread: Spread, **details: object) -> Row:
    """A row from a median and its spread."""
    return Row(what, spread.median, low=spread.low, high=spread.high, **details)  # type: ignore[arg-type]


def missing(what: str, peer: str, **details: object) -> Row:
    """A row whose peer is not installed."""
    note = f"{peer} is not installed; it belongs to the dependency group `bench`"
    return Row(what, None, note=note, **details)  # type: ignore[arg-type]


def main(rows: Callable[[], Iterable[Row]]) -> None:
    """Run a script: its rows as a table, or as one JSON line for the report with --json."""
    with threadpool_limits(1):
        found = list(rows())
    if "--json" in sys.argv:
        print(json.dumps([asdict(row) for row in found]))
        return
    for row in found:
        print(" | ".join(row.cells))
