"""What was worked out so far: one cell a line of a printed table, kept as its single runs, to be resumed.

docs/evidence/printed_numbers.json      {key: {"runs": [one number a run], "curve": [mean by step] or absent}}

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
DIGITS = 5


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
class Known:
    """The cells that are worked out, whole."""

    kept: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> "Known":
        """What the state has; nothing where there is none."""
        return cls(json.loads(STATE.read_text()) if STATE.exists() else {})

    def has(self, cell: Cell) -> bool:
        """Whether all its runs are there."""
        return len(self.kept.get(cell.key, {}).get("runs", ())) == cell.runs

    def work_out(self, cell: Cell) -> None:
        """All runs of a cell, written at once."""
        found = [cell.run(i) for i in range(cell.runs)]
        curves = [one for one in found if hasattr(one, "__len__")]
        entry = {"runs": [round(float(one[-1] if curves else one), DIGITS) for one in found]}
        if curves:
            entry["curve"] = [round(sum(column) / len(curves), DIGITS) for column in zip(*curves, strict=True)]
        self.kept[cell.key] = entry
        replace_atomically(STATE, (json.dumps(self.kept, sort_keys=True, indent=0) + "\n").encode())

    def mean(self, key: str) -> tuple[float, float] | None:
        """Mean and standard error; None where it was not run."""
        runs = self.kept.get(key, {}).get("runs")
        if not runs:
            return None
        mean = sum(runs) / len(runs)
        spread = math.sqrt(sum((one - mean) ** 2 for one in runs) / max(1, len(runs) - 1))
        return mean, spread / math.sqrt(len(runs))

    def excess(self, key: str, over: str) -> tuple[float, float] | None:
        """Mean and standard error of the difference, run by run."""
        one, other = (self.kept.get(name, {}).get("runs") for name in (key, over))
        if not one or not other or len(one) != len(other):
            return None
        apart = [a - b for a, b in zip(one, other, strict=True)]
        mean = sum(apart) / len(apart)
        spread = math.sqrt(sum((a - mean) ** 2 for a in apart) / max(1, len(apart) - 1))
        return mean, spread / math.sqrt(len(apart))
