"""What was worked out so far: one cell a line of a printed table, kept as its single runs, to be resumed.

docs/evidence/printed_numbers.json      {key: {"runs": [one number a run], "curve": [mean by step] or absent}}
                                        {key: {"count": …, "mean": …, "error": …}} of more than SINGLE runs

Every run of a cell has a seed of its own, so a cell can be extended, and any single run made again.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpbo_core.privacy.atomically import replace_atomically

ROOT = Path(__file__).parent.parent.parent
STATE = ROOT / "docs" / "evidence" / "printed_numbers.json"
DIGITS, SINGLE = 5, 1000


@dataclass(frozen=True)
class Cell:
    """One quantity, over independent runs.

    Attributes:
        key: its name in the state, and in the page's code.
        run: the result of run number i: a number, or a curve whose last number it is.
        runs: how many.
    """

    key: str
    run: Callable[[int], Any]
    runs: int


@dataclass
class Results:
    """The cells that are worked out, whole."""

    cells: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> "Results":
        """What the state has; nothing where there is none."""
        return cls(json.loads(STATE.read_text()) if STATE.exists() else {})

    def has(self, cell: Cell) -> bool:
        """Whether all its runs are there."""
        entry = self.cells.get(cell.key, {})
        return int(entry.get("count", len(entry.get("runs", ())))) == cell.runs

    def work_out(self, cell: Cell) -> None:
        """All runs of a cell, written at once."""
        outcome = [cell.run(i) for i in range(cell.runs)]
        curves = [one for one in outcome if hasattr(one, "__len__")]
        entry: dict[str, Any] = {"runs": [round(float(one[-1] if curves else one), DIGITS) for one in outcome]}
        if curves:
            entry["curve"] = [round(sum(column) / len(curves), DIGITS) for column in zip(*curves, strict=True)]
        if cell.runs > SINGLE:
            mean, error = _moments(entry["runs"])
            entry = {"count": cell.runs, "mean": round(mean, DIGITS), "error": round(error, DIGITS)}
        self.cells[cell.key] = entry
        replace_atomically(STATE, (json.dumps(self.cells, sort_keys=True, indent=0) + "\n").encode())

    def mean(self, key: str) -> tuple[float, float] | None:
        """Mean and standard error; None where it was not run."""
        entry = self.cells.get(key, {})
        if "count" in entry:
            return entry["mean"], entry["error"]
        return _moments(entry["runs"]) if entry.get("runs") else None

    def excess(self, key: str, over: str) -> tuple[float, float] | None:
        """Mean and standard error of the difference, run by run, over the runs that both have."""
        one, other = (self.cells.get(name, {}).get("runs") for name in (key, over))
        if not one or not other:
            return None
        return _moments([a - b for a, b in zip(one, other, strict=False)])


def _moments(runs: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    mean = sum(runs) / len(runs)
    spread = math.sqrt(sum((one - mean) ** 2 for one in runs) / max(1, len(runs) - 1))
    return mean, spread / math.sqrt(len(runs))
