"""What a method may be expected to lose, looked up in a table that was simulated on synthetic score functions.

| symbol | name here | meaning | shape |
|---|---|---|---|
| d | `dimensions` | coordinates of the unit cube | scalar |
| N′ | `trainings` | candidates that are trained and scored | scalar |
| n | `public_records` | records of the public set; None if nobody has counted them yet | scalar |
| m̃ | `records` | records that give this noise at ε = 1, k = 1, δ = 1e-6, the usual shares | scalar |
| r, e | `regret`, `score_error` | mean loss of the choice, mean error of the released score | scalars |

The table, expected_loss.csv beside this file, is benchmarks/advice_calibration.py's, once for each of three degrees
to which the two populations may differ: nobody knows beforehand which it is, so a loss is said as a range about
them, wide enough to hold nine in ten losses of `benchmarks/shift.py`'s tasks. On tasks held back from it the ranges
of `FORMS_WITHOUT_MODEL` held fewer (the public best 56%, a trajectory with a public prior 64%, a flat one's end
18%): "unknown" stands for them. A base measure's, which "auto" takes, held 89% and 94% of 120 cells, and 86% and
91% of 360 splits (`benchmarks/misleading.py`, seeds 1413263372 and 1892963621): most others lost less. Between its
nodes log r and log e are linear in log d, log N′, log n and log m̃; beyond them the nearest node speaks, except that
e goes on as 1/m̃.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import Problem

TABLE_FILE = Path(__file__).with_suffix(".csv")
UNITS_PER_RANGE = 100_000  # of a loss in the table, in the score's range
TABLE_RECORDS = (50, 200, 800, 3_000, 12_000, 50_000)  # m̃ of the table's columns
AGREEMENT_DEGREES = ("alike", "apart", "misleading")
MIN_TABLE_LOSS = 1e-5  # what five digits of the table can tell from 0
UNKNOWN_AGREEMENT = "unknown"
MIN_SHOWN_LOSS = 5e-4  # of the score's range: a smaller loss is shown as below it
MIN_RECORDS, MAX_RECORDS = 50, 5_000  # public records, where their number is not known
FORMS_WITHOUT_MODEL = ("public", "flat")  # the last word of a form
MIN_PAIRED_NOISE_SHARE = 0.2  # of the noise that is left where scores are paired, at best
SPAN, STEEPER = 10.0, 1.5  # of every range: real losses are a half larger than simulated ones, and so far apart

Node = tuple[int, int, int, int]


@dataclass(frozen=True)
class Expected:
    """What the simulation says, in units of the score."""

    regret: float  # mean loss of the choice over the degrees to which the populations may differ
    low: float  # the loss where the public set is like the sensitive one
    high: float  # the loss where it misleads
    score_error: float  # mean error of the released score
    score_range: float
    form: str  # the method and its options, as the table has it

    @property
    def range(self) -> tuple[float, float] | None:
        """The least and largest simulated loss; None for a variant whose range failed on tasks held out."""
        return None if self.form.rpartition("/")[2] in FORMS_WITHOUT_MODEL else (self.low, self.high)

    @property
    def caption(self) -> str:
        """The simulated loss in words: "0.01 to 0.04", "up to 0.04", "under 0.0005" or "an unknown amount"."""
        return "an unknown amount" if self.range is None else self._shown("under ", "up to ", " to ")

    @property
    def short(self) -> str:
        """The range of the simulated loss in a table's cell: <0.0005, ≤0.004, 0.001–0.01 or unknown."""
        return UNKNOWN_AGREEMENT if self.range is None else self._shown("<", "≤", "–")

    def _shown(self, under: str, up_to: str, between: str) -> str:
        least = MIN_SHOWN_LOSS * self.score_range
        if self.high < least:
            return f"{under}{least:.0g}"
        return f"{up_to}{self.high:.0g}" if self.low < least else f"{self.low:.0g}{between}{self.high:.0g}"


def expected(method: Method, problem: Problem) -> Expected | None:
    """The expected regret and error of the score, by the table of simulations; None for a method not in it."""
    at = method.simulated(problem)
    if at is None:
        return None
    G, d = problem.score_range, max(1, problem.candidates.encoded.shape[1])
    n, n_public = method.n_steps(problem), public_records(problem)
    noises = (at.choice_records, at.choice_records / MIN_PAIRED_NOISE_SHARE) if at.paired else (at.choice_records,)
    losses = [
        _interpolated(at.form, 0, degree, d, n, public, records)
        for degree in AGREEMENT_DEGREES
        for public in ((MIN_RECORDS, MAX_RECORDS) if n_public is None else (n_public,))
        for records in noises
    ]
    error = beyond = 0.0
    if math.isfinite(at.score_records):
        error = _interpolated(at.form, 1, AGREEMENT_DEGREES[0], d, n, n_public or MIN_RECORDS, at.score_records)
        beyond = min(1.0, TABLE_RECORDS[-1] / at.score_records)
        beyond = max(beyond, min(TABLE_RECORDS[0] / at.score_records, 1.0 / error))  # a few records, or their pairs
    low, high = min(losses), max(losses)
    middle = STEEPER * math.sqrt((low + MIN_SHOWN_LOSS) * (high + MIN_SHOWN_LOSS))
    low, high = (
        max(0.0, middle / math.sqrt(SPAN) - MIN_SHOWN_LOSS),
        min(1.0, middle * math.sqrt(SPAN) - MIN_SHOWN_LOSS),
    )
    mean = sum(losses) / len(losses)
    return Expected(G * mean, G * low, G * high, G * error * beyond, G, at.form)


def public_records(problem: Problem) -> int | None:
    """Return the number n of training records, sensitive ones as declared; None if public ones were not counted."""
    return problem.n_public if problem.trainer is None and problem.training is None else problem.n_training


class Row(NamedTuple):
    """Mean losses of one form of a method at one size, each a share of the score's range at each of
    `TABLE_RECORDS`.
    """

    form: str
    dimensions: int
    trainings: int  # N′
    public: int  # public records; 0 if they have no say
    degree: str  # how far the public population is from the sensitive one; "" where it has no say
    regret: tuple[float, ...]  # what the choice loses
    score_error: tuple[float, ...]  # error of the released score


@cache
def rows() -> tuple[Row, ...]:
    """Return the rows of the table of simulated losses, read once."""
    with TABLE_FILE.open(encoding="utf-8", newline="") as file:
        _, *lines = csv.reader(file)
    table, n = [], len(TABLE_RECORDS)
    for form, d, trainings, public, degree, *numbers in lines:
        losses = tuple(int(number) / UNITS_PER_RANGE for number in numbers)
        table.append(Row(form, int(d), int(trainings), int(public), degree, losses[:n], losses[n:]))
    return tuple(table)


@cache
def _table(form: str, degree: str, which: int) -> dict[Node, float]:
    return {
        (row.dimensions, row.trainings, row.public, records): (row.regret, row.score_error)[which][i]
        for row in rows()
        if row.form == form and row.degree in ("", degree)
        for i, records in enumerate(TABLE_RECORDS)
    }


def _interpolated(form: str, which: int, degree: str, *at: float) -> float:
    """Return a mean loss as a share of the score's range: regret (`which` = 0) or the released score's error (1).

    It is interpolated between the table's simulations, in the logarithm, at dimensions, trainings, public records
    and m̃ (`at`). Values outside the table's grid are moved to its edge.
    """
    table, total = _table(form, degree, which), 0.0
    for corner, weight in _corners([sorted({node[axis] for node in table}) for axis in range(4)], at):
        total += weight * math.log(max(table[corner], MIN_TABLE_LOSS))
    return math.exp(total)


def _corners(axes: list[list[int]], at: Sequence[float]) -> list[tuple[Node, float]]:
    corners: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for nodes, x in zip(axes, at, strict=True):
        x = min(max(x, nodes[0]), nodes[-1])
        above = next(i for i, node in enumerate(nodes) if node >= x)
        below = max(0, above - 1)
        t = 0.0 if above == below else math.log(x / nodes[below]) / math.log(nodes[above] / nodes[below])
        sides = [(nodes[below], 1.0 - t), (nodes[above], t)] if above != below else [(nodes[above], 1.0)]
        corners = [((*corner, node), weight * share) for corner, weight in corners for node, share in sides]
    return [((corner[0], corner[1], corner[2], corner[3]), weight) for corner, weight in corners if weight > 0.0]
