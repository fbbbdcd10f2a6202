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
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.linear.certificates import row_norm
from dpbo_core.models.linear.losses import row_blocks


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
        """Each row of X (n, d) times its sign ±1 (n,); refused unless all are finite and there is at least one.

        Raises:
            StudyInvalid: no rows, shapes that differ, a number that is not finite, a sign that is not −1 or +1.
        """
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
    """A binary training set for `LinearTrainer`, in the place of an array X."""

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
        """All rows times their signs, as the solvers need them."""
        return SignedRows(self.Z)

    def signed_where(self, chosen: NDArray[np.bool_]) -> SignedRows:
        """The rows where the mask `chosen` (n,) is True, times their signs."""
        blocks = (self.Z[block][chosen[block]] for block in row_blocks(*self.shape))
        return SignedRows(stored(blocks, (int(chosen.sum()), self.shape[1]), self.limit))

    def unsigned_where(self, chosen: NDArray[np.bool_]) -> Iterator[tuple[Rows, Rows]]:
        """The rows x_i and signs y_i = ±1 where the mask `chosen` (n,) is True, a block at a time."""
        for block in row_blocks(*self.shape):
            in_block = chosen[block]
            signs = self.signs[block][in_block]
            yield self.Z[block][in_block] * signs[:, None], signs


def stored(blocks: Iterable[Rows], shape: tuple[int, int], limit: int) -> Rows:
    """Blocks of rows as one matrix of `shape` (n, d), in memory up to `limit` bytes, else in a temporary file.

    Raises:
        StudyInvalid: there is no room for the file.
    """
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
