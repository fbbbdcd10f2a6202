"""Records' scores as exact integers, and the two ways to aggregate them to one per candidate.

A record's score in whole steps of its range, and what both ways have:

| symbol | name here | meaning | shape |
|---|---|---|---|
| g | `scores` | a record's score | (m,) |
| G | `score_range` | range of one record's score | scalar > 0 |
| — | `GRID` | steps from 0 to G, 2²⁴ | integer |
| m | `n_records` | validation records | scalar |
| k | `counted` | records one person may own | scalar |
| Δ | `record_steps` | the sensitivity: most that k replaced records move the integer by | integer |

The mean of bounded scores, one a record, as an exact integer sum: Δ is k·2²⁴ at a fixed model, never above m·2²⁴.

The count of pairs ranked right: AUC and balanced accuracy of two classes, without knowing their shares.

| symbol | name here | meaning | shape |
|---|---|---|---|
| P, Q | — | records of the second and of the first class; both are sensitive, P + Q ≤ m | integers |
| s_i | — | the public model's decision value of record i, on a public integer grid | integer |
| C₂ | — | Σ over pairs (i of the second class, j of the first) of 2·[s_i > s_j] + [s_i = s_j] | integer |
| D | — | 2PQ, what C₂ is of a model that ranks every pair right; the same for every candidate | integer |
| Δ | `record_steps` | 2q(m − q), q = min(k, ⌊m/2⌋): most k records move either by; 2(m − 1) at k = 1 | integer |
| — | `range_steps` | the largest D, 2⌊m/2⌋⌈m/2⌉ | integer |
| — | `score_per_step` | 2/m²: a step in the AUC of a table half of whose records are positive | scalar |
| π | `share` | PUBLIC share of the second class; None if it is not known | scalar |

AUC = C₂/D, and with the predicted class for s balanced accuracy. Why Δ: of the pairs in a table at most q(m − q)
hold one of k given records, so many where these are of one class and all others of the other; each counts 0, 1 or 2
and every other pair is untouched. Enumerated in `test_pair_count`; k·2(m − 1) is an upper bound of it.

For any r in [0, 1], B = C₂ − ⌊rD⌋ has the same Δ: the real C₂ − rD moves by at most Δ, since a pair weighs between
−2r and 2(1 − r) in it, so the integer B moves by less than Δ + 1. AUC = r + B/D, so that with r near the AUC an
error in D hardly matters, where AUC = C₂/D would take all of it.

The sum of clipped differences of two models' scores on the same records:

| symbol | name here | meaning | shape |
|---|---|---|---|
| s_i(λ) | `steps` | record i's score under a model, rounded to whole steps of G/2²⁴ | (m,) in 0 … 2²⁴ |
| c | `clipped` | public bound of a difference, in steps | integer, 1 … 2²³ − 1 |
| d_i | — | clip(s_i(λ) − s_i(λ₀), −c, c) | (m,) |
| — | `stretched` | ⌊(d_i + c)·2²⁴/2c⌋ of each record | (m,) in 0 … 2²⁴ |

At fixed models each term is a function of its record alone and lies in 0 … 2²⁴, as a plain score's steps do:
replacing one record moves the sum by at most 2²⁴ steps, which is 2c of the difference. So a choice among such sums
is priced as a choice among plain ones, and its noise is 2c/2²⁴ of theirs in units of the score.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

GRID = 2**24  # steps from 0 to G


def to_grid(scores: ArrayLike, score_range: float, *, broken_score: float) -> NDArray[np.int64]:
    """Return each score, clipped to [0, G], in whole steps of G/2²⁴, rounded; NaN counts as `broken_score`.

    That is φ(0) for a margin score, 0 for others. Sums of the steps are exact for every m < 2³⁸, in any order.
    """
    steps = np.clip(np.asarray(scores, dtype=np.float64), 0.0, score_range)  # a copy; NaN stays NaN
    # before the cast: NaN as int64 is −9.2e18
    np.copyto(steps, float(broken_score), where=np.isnan(steps))
    if score_range != 1.0:
        steps /= score_range  # at most 1, so that no step is above 2²⁴
    steps *= GRID
    return np.rint(steps, out=steps).astype(np.int64)


@dataclass(frozen=True)
class MeanOfRecords:
    """f = (1/m) Σ g."""

    n_records: int
    counted: int
    score_range: float

    @property
    def record_steps(self) -> int:
        """The sensitivity Δ of the integer sum of scores: the most one person, of `counted` records, moves it."""
        return min(self.counted, self.n_records) * GRID

    @property
    def range_steps(self) -> int:
        """The largest possible integer sum of scores."""
        return self.n_records * GRID

    @property
    def score_per_step(self) -> float:
        """The mean score's change per 1 of the integer sum: G/(m·2²⁴)."""
        return self.score_range / (self.n_records * GRID)

    @property
    def metric_per_step(self) -> float:
        """The metric's change per 1 of the integer sum; the metric is the mean score itself here."""
        return self.score_per_step

    @property
    def spread(self) -> float:
        """The difference between a perfect and a useless model's score: the whole range G."""
        return self.score_range

    def doubt(self, best: float, n_public: int) -> float:
        """Return the standard error, in units of the score, of a public mean near `best` on `n_public` records."""
        G = self.score_range
        return math.sqrt(max(best * (G - best), G**2 / n_public) / n_public)


LEAST_NOISE_SHARE = 0.5  # share of positives at which the noise is least; what is shown while nobody knows theirs


@dataclass(frozen=True)
class PairCount:
    """C₂ and D of m records, k of which one person may own."""

    score_range: ClassVar[float] = 1.0  # 1: a ranking has no pair right, or all
    spread: ClassVar[float] = 0.5  # ½: whoever guesses gets the other half

    n_records: int
    counted: int
    share: float | None = None

    @property
    def record_steps(self) -> int:
        """The sensitivity Δ ≥ 1 of C₂, twice the count of right pairs, to one person of `counted` records."""
        q = min(self.counted, self.n_records // 2)
        return max(1, 2 * q * (self.n_records - q))

    @property
    def range_steps(self) -> int:
        """The largest possible C₂, twice the count of right pairs: 2⌊m/2⌋⌈m/2⌉, at least 1."""
        half = self.n_records // 2
        return max(1, 2 * half * (self.n_records - half))

    @property
    def score_per_step(self) -> float:
        """The AUC's change per 1 of C₂ (twice the right pairs) if half of the records are positive: 2/m²."""
        return 2.0 / self.n_records**2

    @property
    def metric_per_step(self) -> float:
        """The AUC's change per 1 of C₂ (twice the count of right pairs) at the public share of positives, or ½."""
        return 1.0 / self.expected

    @property
    def expected(self) -> float:
        """D = 2PQ, the C₂ of a perfect ranking, at the public share of positives (½ if unknown); at least 1."""
        share = LEAST_NOISE_SHARE if self.share is None else self.share
        return max(1.0, 2.0 * self.n_records**2 * share * (1.0 - share))

    def doubt(self, best: float, n_public: int) -> float:
        """Return the standard error of a public AUC near `best`, from the records of the rarer class alone."""
        share = LEAST_NOISE_SHARE if self.share is None else self.share
        rarer = max(1.0, n_public * min(share, 1.0 - share))
        return math.sqrt(max(best * (1.0 - best), 1.0 / rarer) / rarer)


Aggregate = MeanOfRecords | PairCount

EQUAL_SCORE = GRID // 2  # what a record comes to on which the two models score alike


@dataclass(frozen=True)
class Pairing:
    """How candidates are compared with one of them. Public."""

    reference: int  # λ₀, an index into Λ
    clipped: int  # c, in steps of the grid, below half of it


def stretched(steps: NDArray[np.int64], reference: NDArray[np.int64], clipped: int) -> NDArray[np.int64]:
    """Return each record's steps less the `reference`'s, clipped at ±`clipped` and scaled to 0 … 2²⁴, (m,).

    It is 2²³ where both are equal.
    """
    differences: NDArray[np.int64] = np.clip(steps - reference, -clipped, clipped)
    return (differences + clipped) * GRID // (2 * clipped)
