"""Steps under many linear models by one matrix product, where its rounding cannot show.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x, y | `records` | a record's row, its entries in [−1, 1], and its sign | (d,), ±1 |
| w_l | `slopes` | the weights of a model | (d, L) |
| t, t̃ | — | y·wᵀx as `LinearModel.margins` computes it, and as a matrix product does | scalar |
| e | — | bound of the distance of t̃ and t | scalar |
| K | `score.lipschitz` | Lipschitz constant of φ | scalar |
| η | `score.rounding` | bound of what `phi` and `overwrite` make of a finite margin, against φ of it | scalar |
| δ | `reach` | 2²⁴(K·e + 2η) | steps; of accuracy e |

Claim: where 2²⁴φ̃(t̃) lies within ½ − δ of a whole number k, the record's steps by `LinearModel.steps` are k.

A sum of d products of doubles in any order, fused or not, misses y·wᵀx by at most γ_d·Σ|x_j||w_j| ≤ γ_d‖w‖₁, with
γ_d = d·2⁻⁵³/(1 − d·2⁻⁵³), and by what products lose that are smaller than doubles can be. Both t and t̃ do, so e is
twice that. Then |2²⁴φ̂(t) − 2²⁴φ̃(t̃)| ≤ 2²⁴(η + K·e + η) = δ, where φ̂ and φ̃ are as computed; a factor of 2²⁴ and
the difference to k are exact. So 2²⁴φ̂(t) is less than ½ from k, and its rounding is k.

Accuracy is 1 where t > 0: where |t̃| > e, t has the sign of t̃. A record without a sign, and a row of zeros, have
t = 0 and are in no doubt.

The other records, about 2δL of all where scores are spread evenly, are scored by the functions that score one
model, so that the sums are theirs to the last bit, whatever the product rounds to and whatever that follows. As
many records are scored again as places are kept for them, a number that follows from m, L and δ, which are public,
so that durations tell of more than that only. A block with an entry beyond [−1, 1], which no record in the unit
ball has, those functions score whole.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Encoded
from dpbo_core.models.scores.accuracy import Accuracy
from dpbo_core.models.scores.grid import GRID
from dpbo_core.models.scores.margin import Steep

Exact = Callable[[Encoded], NDArray[np.int64]]  # steps of some records, (m, L)

MODELS_AT_LEAST = 4  # fewer gain nothing
DOUBTFUL_AT_MOST = 1 / 32  # of records; δ is public
_SCORES = 32_768  # that are in the cache at once
_ROWS = 2048  # at most, for the same reason
_SPAN = 262_144  # records after which those in doubt are scored again
_PLACES = 16  # for records in doubt, beyond twice as many as are to be expected


@dataclass(frozen=True, eq=False, repr=False)
class NearSteps:
    """What a matrix product says of many models' steps.

    Attributes:
        slopes: (d, L), C-contiguous.
        score: a continuous one, or accuracy.
        reach: δ.
    """

    slopes: NDArray[np.float64]
    score: Steep | Accuracy
    reach: float

    @classmethod
    def of(cls, slopes: NDArray[np.float64], score: object) -> "NearSteps | None":
        """A fast scorer of L linear models, weights (d, L); None for L < 4, another score, or too much rounding."""
        n_models = slopes.shape[1]
        if n_models < MODELS_AT_LEAST or not isinstance(score, Steep | Accuracy):
            return None
        with np.errstate(all="ignore"):
            weight = float(np.abs(slopes).sum(axis=0).max(initial=0.0))
        # 2.1 for 2: what γ_d and the sum of d weights lose beyond d·2⁻⁵³ each, with much to spare
        error = 2.1 * len(slopes) * 2.0**-53 * weight + 2.0**-1000
        reach = error if isinstance(score, Accuracy) else GRID * (score.lipschitz * error + 2.0 * score.rounding)
        return cls(slopes, score, reach) if 2.0 * reach * n_models <= DOUBTFUL_AT_MOST else None

    def blocks(
        self, records: Encoded, exact: Exact
    ) -> Iterator[tuple[int, NDArray[np.float64] | NDArray[np.int64]]]:
        """Blocks (sign, integer scores (r, L)), to add up by sign: −1 takes back rows that `exact` scores again.

        All together are the steps of every record once, by `exact`. What is yielded is good until the next.
        """
        d, n_models = self.slopes.shape
        if records.X.shape[1] != d:
            yield 1, exact(records)  # which says so
            return
        size = min(_ROWS, max(1, _SCORES // n_models))
        scratch = [np.empty((size, n_models), kind) for kind in (np.float64, np.float64, np.bool_)]
        for start in range(0, records.n_records, _SPAN):
            span = records.part(slice(start, start + _SPAN))
            doubtful, taken_back = [np.empty(0, dtype=np.intp)], []
            for at in range(0, span.n_records, size):
                part = span.part(slice(at, at + size))
                if not (part.X.max(initial=0.0) <= 1.0 and part.X.min(initial=0.0) >= -1.0):
                    yield 1, exact(part)
                    continue
                steps, rows = self._near(part, scratch)
                yield 1, steps
                doubtful.append(at + rows)
                taken_back.append(steps[rows])
            again = np.concatenate(doubtful)
            for steps in taken_back:
                yield -1, steps
            places = _PLACES + math.ceil(4.0 * self.reach * n_models * span.n_records)
            padded = np.append(again, np.zeros(-len(again) % places if len(again) else places, dtype=np.intp))
            for at in range(0, len(padded), size):
                yield 1, exact(span.part(padded[at : at + size]))[: max(0, len(again) - at)]

    def _near(self, records: Encoded, scratch: list[NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Approximate integer scores (r, L), and which records are too near a rounding edge to trust them."""
        scaled, steps, doubtful = (array[: records.n_records] for array in scratch)
        with np.errstate(all="ignore"):
            np.matmul(records.X, self.slopes, out=scaled)
            scaled *= records.signs[:, None]
            if isinstance(self.score, Accuracy):
                np.multiply(np.greater(scaled, 0.0, out=doubtful), GRID, out=steps)
                np.less_equal(np.abs(scaled, out=scaled), self.reach, out=doubtful)
                return steps, np.flatnonzero(doubtful.any(axis=1) & (records.signs != 0) & records.X.any(axis=1))
            self.score.overwrite(scaled)
            scaled *= GRID
            np.rint(scaled, out=steps)
            scaled -= steps
            np.abs(scaled, out=scaled)
            np.greater(scaled, 0.5 - self.reach, out=doubtful)
        return steps, np.unique(np.flatnonzero(doubtful) // doubtful.shape[1])
