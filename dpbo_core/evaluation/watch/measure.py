"""What a look compares: how far today's table is below the reference, as an integer of known sensitivity.

| symbol | name here | meaning |
|---|---|---|
| m_t | `n` | records of the table of look t, at least `least_records`; or the stated number of persons |
| S_t | — | exact sum of the records' scores in steps of 2⁻²⁴·G, or of the persons' means |
| C₂, D | — | count of pairs ranked right, and of all pairs twice |
| r | `reference` | public, in units of the score |
| h | `unit` | score per step |
| Δ | `sensitivity` | most that one unit moves u_t, whatever the table |

A mean:  u_t = r/h − ⌊S_t/m_t⌋, h = G·2⁻²⁴, Δ = ⌈k·2²⁴/least_records⌉: k records move S_t by at most k·2²⁴.
An AUC:  u_t = −⌊2²⁴(C₂ − ⌊rD⌋)/m_t²⌋, whose Δ is ⌈2k·2²⁴/least_records⌉, since k records move C₂ − ⌊rD⌋ by at
most 2q(m_t − q), q = min(k, ⌊m_t/2⌋). A step of it is h = 2⁻²⁴/(2π(1 − π)) of AUC, π the PUBLIC share of positives:
the share of a table's own records is as private as they are.
"""

import math
from dataclasses import dataclass
from typing import Protocol

from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.above_threshold import Fall
from dpbo_core.models.scores.grid import GRID
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.objective.in_memory import Scorable, Scorer, shifted
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.problem import Problem

EVEN = 0.5  # share of positives at which pairs tell most, where nothing public says it


class Measure(Protocol):
    """How a table becomes the integer that a look compares."""

    @property
    def unit(self) -> float:
        """h: how much of the score one whole step is."""
        ...

    @property
    def per_record(self) -> float:
        """What one record of a table of one would move the score by."""
        ...

    def sensitivity(self, least_records: int) -> int:
        """Δ, in steps, over tables of at least so many records."""
        ...

    def fall(self, reference: float, n: int) -> Fall:
        """From the value of a table of n to u."""
        ...

    def value(self, table: Scorer, model: Scorable, reference: float) -> Sensitive[int]:
        """S, or C₂ − ⌊rD⌋."""
        ...

    def sampling(self, n: int, spread: float, reference: float) -> float:
        """Standard deviation of the score of n records."""
        ...


@dataclass(frozen=True)
class MeanMeasure:
    """Of a mean of bounded scores.

    Attributes:
        counted: k, records of one person.
        score_range: G.
    """

    counted: int
    score_range: float

    @property
    def unit(self) -> float:
        """G·2⁻²⁴, a step of the mean."""
        return self.score_range / GRID

    @property
    def per_record(self) -> float:
        """G, the range of one score."""
        return self.score_range

    def sensitivity(self, least_records: int) -> int:
        """Δ in whole steps: one person's k records move a mean of `least_records` by ⌈k·2²⁴/least_records⌉."""
        return -((-min(self.counted, least_records) * GRID) // least_records)

    def fall(self, reference: float, n: int) -> Fall:
        """From the exact sum to how far its mean is below the reference."""
        return Fall(start=round(reference / self.unit), times=1, over=n)

    def value(self, table: Scorer, model: Scorable, reference: float) -> Sensitive[int]:
        """The exact sum of the table's scores."""
        del reference
        return table.evaluate(model)

    def sampling(self, n: int, spread: float, reference: float) -> float:
        """That of one record's score over √n."""
        del reference
        return spread / math.sqrt(n)


@dataclass(frozen=True)
class PairMeasure:
    """Of an AUC, or of balanced accuracy, by the count of pairs.

    Attributes:
        counted: k, records of one person.
        share: π, PUBLIC share of positives.
    """

    counted: int
    share: float

    @property
    def unit(self) -> float:
        """AUC per step, at the public share of positives."""
        return 1.0 / (2.0 * self.share * (1.0 - self.share) * GRID)

    @property
    def per_record(self) -> float:
        """1/(π(1 − π)): one record is in as many pairs as there are others."""
        return 2.0 * GRID * self.unit

    def sensitivity(self, least_records: int) -> int:
        """Δ in whole steps: a count of pairs moves by twice as much as a mean, ⌈2k·2²⁴/least_records⌉."""
        return -((-2 * min(self.counted, least_records) * GRID) // least_records)

    def fall(self, reference: float, n: int) -> Fall:
        """From C₂ − ⌊rD⌋, which is relative to the reference already."""
        del reference
        return Fall(start=0, times=GRID, over=n * n)

    def value(self, table: Scorer, model: Scorable, reference: float) -> Sensitive[int]:
        """C₂ − ⌊rD⌋ of the table's pairs.

        Raises:
            StudyInvalid: r is outside [0, 1], where one record moves this by more than is charged.
        """
        if not 0.0 <= reference <= 1.0:
            raise StudyInvalid("the watch's reference is no share of pairs", remedy="open another watch")
        return shifted(table.evaluate(model), table.pairs(), reference)

    def sampling(self, n: int, spread: float, reference: float) -> float:
        """That of an AUC (Hanley, McNeil 1982), at the public share of positives."""
        del spread
        a = min(max(reference, 0.5), 1.0)
        positives, negatives = max(1.0, n * self.share), max(1.0, n * (1.0 - self.share))
        one, other = a / (2.0 - a), 2.0 * a * a / (1.0 + a)
        variance = a * (1.0 - a) + (positives - 1.0) * (one - a * a) + (negatives - 1.0) * (other - a * a)
        return math.sqrt(max(0.0, variance) / (positives * negatives))


def measure_of(problem: Problem) -> MeanMeasure | PairMeasure:
    """How the study's score of a table is compared."""
    k = problem.max_records_per_person
    if isinstance(problem.score, PairScore):
        share = problem.positives if problem.positives is not None else EVEN
        least = 1.0 / (problem.n_training if problem.trainer is not None else 2)
        return PairMeasure(k, min(max(share, least), 1.0 - least))
    return MeanMeasure(k, problem.score_range)
