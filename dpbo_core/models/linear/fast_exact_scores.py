"""A binary training set as the solvers see it: checked once, signed once, with what every visit needs beside it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Z | `Z` | signed rows z_i = y_i x_i | (n, d) |
| y | `signs` | classes in {−1, +1} | (n,) |
| r | `norm` | max ‖z_i‖, rounded up | scalar |
| k | `summands` | the longest chain of additions when a sum over rows is taken block by block | scalar |
| L | `limit` | bytes of rows that an array may take; beyond it they are in a file that has no name | scalar ≥ 0 |

The file lies in the folder of temporary files (TMPDIR) and goes with the process. It is mapped into memory: the
system holds as much of it as there is room for, and the solvers see one matrix, so that their sums are those of an
array, in the same order. It is written as a file and not through the map, where a full disk would end the process.

Steps under many linear models by one matrix product, where its rounding cannot show.

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
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.data import Encoded
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.linear.losses import row_blocks, row_norm
from dpbo_core.models.scores.accuracy import Accuracy
from dpbo_core.models.scores.kinds import Steep


@dataclass(frozen=True, eq=False, repr=False)
class SignedRows:
    """Z, contiguous, in blocks that stay in the processor's cache between the two products of a visit."""

    Z: NDArray[np.float64]
    norm: float = field(init=False)
    blocks: list[slice] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", row_norm(self.Z))
        object.__setattr__(self, "blocks", row_blocks(*self.Z.shape))

    @classmethod
    def of(cls, X: ArrayLike, signs: ArrayLike) -> "SignedRows":
        """Return each row of X (n, d) times its sign ±1 (n,); refused if there is none, or one is not finite."""
        rows, classes = np.asarray(X, dtype=np.float64), np.asarray(signs, dtype=np.float64)
        if rows.ndim != 2 or 0 in rows.shape or classes.shape != (len(rows),):
            raise StudyInvalid(
                f"training rows of shape {rows.shape} with signs of shape {classes.shape}",
                remedy="give a table of at least one row and one feature, and one sign for each row",
            )
        if not (np.isfinite(rows).all() and (np.abs(classes) == 1.0).all()):
            raise StudyInvalid(
                "a training row is not finite, or a sign is not -1 or +1",
                remedy="fill or drop missing training values, and give exactly two classes",
            )
        with np.errstate(all="ignore"):
            return cls(np.ascontiguousarray(rows * classes[:, None]))

    @property
    def summands(self) -> int:
        """The longest chain of additions in a sum over the rows, block by block, which bounds its rounding."""
        return int(self.blocks[0].stop) + len(self.blocks)


Rows = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A binary training set for `LinearTrainer`, instead of an array X."""

    Z: Rows = field(repr=False)
    signs: Rows = field(repr=False)
    limit: int

    def __len__(self) -> int:
        return len(self.Z)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and features, (n, d)."""
        n, d = self.Z.shape
        return n, d

    def signed(self) -> SignedRows:
        """Return all rows times their signs, as the solvers need them."""
        return SignedRows(self.Z)

    def signed_where(self, chosen: NDArray[np.bool_]) -> SignedRows:
        """Return the rows where the mask `chosen` (n,) is True, times their signs."""
        blocks = (self.Z[block][chosen[block]] for block in row_blocks(*self.shape))
        return SignedRows(stored(blocks, (int(chosen.sum()), self.shape[1]), self.limit))

    def unsigned_where(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows x_i and signs y_i = ±1 where the mask `chosen` (n,) is True, a block at a time."""
        for block in row_blocks(*self.shape):
            in_block = chosen[block]
            signs = self.signs[block][in_block]
            yield self.Z[block][in_block] * signs[:, None], signs


def stored(blocks: Iterable[Rows], shape: tuple[int, int], limit: int) -> Rows:
    """Return blocks of rows as one matrix of `shape` (n, d), in memory up to `limit` bytes, else in a file."""
    size = 8 * shape[0] * shape[1]
    if size <= limit:
        rows, end = np.empty(shape), 0
        for block in blocks:
            rows[end : end + len(block)] = block
            end += len(block)
        return rows
    try:
        with tempfile.TemporaryFile(prefix="dpbo-") as file:
            for block in blocks:
                file.write(np.ascontiguousarray(block, dtype=np.float64).data)
            file.flush()
            return np.asarray(np.memmap(file, dtype=np.float64, mode="r", shape=shape))
    except OSError:
        raise StudyInvalid(
            f"the training rows take {size / 1e9:.3g} GB, for which the folder of temporary files has no room",
            cause="they are more than data.memory_limit, so they are kept on disk while models are trained",
            remedy="name a folder with more room in TMPDIR, or raise data.memory_limit where there is memory",
        ) from None


Exact = Callable[[Encoded], NDArray[np.int64]]  # steps of some records, (m, L)

MIN_MODELS = 4  # fewer gain nothing
MAX_DOUBTFUL_SHARE = 1 / 32  # of records that are expected to be scored again; a larger share is not worth it
_SCORES_PER_BLOCK = 32_768  # that are in the cache at once
_MAX_BLOCK_ROWS = 2048  # at most, for the same reason
_RECORDS_PER_RESCORING = 262_144  # records after which those in doubt are scored again
_EXTRA_SLOTS = 16  # for records in doubt, beyond twice as many as are to be expected


@dataclass(frozen=True, eq=False, repr=False)
class NearSteps:
    """Scores of many linear models by one matrix product, exact except for records near a rounding boundary."""

    slopes: NDArray[np.float64]  # (d, L), C-contiguous
    score: Steep | Accuracy  # a continuous one, or accuracy
    reach: float  # δ

    @classmethod
    def of(cls, slopes: NDArray[np.float64], score: object) -> "NearSteps | None":
        """Return a fast scorer of models `slopes` (d, L); None for L < 4, another score, or too much rounding."""
        n_models = slopes.shape[1]
        if n_models < MIN_MODELS or not isinstance(score, Steep | Accuracy):
            return None
        with np.errstate(all="ignore"):
            weight = float(np.abs(slopes).sum(axis=0).max(initial=0.0))
        # 2.1 for 2: what γ_d and the sum of d weights lose beyond d·2⁻⁵³ each, with much to spare
        error = 2.1 * len(slopes) * 2.0**-53 * weight + 2.0**-1000
        reach = error if isinstance(score, Accuracy) else GRID * (score.lipschitz * error + 2.0 * score.rounding)
        return cls(slopes, score, reach) if 2.0 * reach * n_models <= MAX_DOUBTFUL_SHARE else None

    def blocks(
        self, records: Encoded, exact: Exact
    ) -> Iterator[tuple[int, NDArray[np.float64] | NDArray[np.int64]]]:
        """Yield blocks (sign, integer scores (r, L)) whose signed sum has every record's exact scores once.

        A block with sign −1 takes back the rows near a rounding boundary, and `exact` scores those again. The
        number of rows scored again is padded to a public number, so that the running time does not tell how many
        there were. A yielded array is overwritten by the next.
        """
        d, n_models = self.slopes.shape
        if records.X.shape[1] != d:
            yield 1, exact(records)  # which says so
            return
        size = min(_MAX_BLOCK_ROWS, max(1, _SCORES_PER_BLOCK // n_models))
        scratch = [np.empty((size, n_models), kind) for kind in (np.float64, np.float64, np.bool_)]
        for start in range(0, records.n_records, _RECORDS_PER_RESCORING):
            span = records.part(slice(start, start + _RECORDS_PER_RESCORING))
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
            places = _EXTRA_SLOTS + math.ceil(4.0 * self.reach * n_models * span.n_records)
            padded = np.append(again, np.zeros(-len(again) % places if len(again) else places, dtype=np.intp))
            for at in range(0, len(padded), size):
                yield 1, exact(span.part(padded[at : at + size]))[: max(0, len(again) - at)]

    def _near(self, records: Encoded, scratch: list[NDArray[Any]]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return approximate integer scores (r, L), and the indices of records too near a rounding boundary."""
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
