"""A binary training set as the solvers see it: checked once, signed once, with what every visit needs beside it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Z | `Z` | signed rows z_i = y_i x_i, y_i ∈ {−1, +1} | (n, d) |
| r | `norm` | max ‖z_i‖, rounded up | scalar |
| k | `summands` | the longest chain of additions when a sum over rows is taken block by block | scalar |
"""

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
        """Each row of X (n, d) times its sign (n,).

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
        """How many products each entry of a matrix-vector product adds up, for the bound on its rounding."""
        return int(self.blocks[0].stop) + len(self.blocks)
