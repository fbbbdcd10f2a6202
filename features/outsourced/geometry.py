"""The curator's table as exact integers: clipped, projected, on a grid; and how far one row can move there.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n, d, r | — | rows, columns, columns published | scalars |
| X | `table` | the candidates' rows | (n, d) |
| c | `centre` | public, given by a person or 0 | (d,) |
| B | `norm_bound` | rows are clipped to ‖x − c‖₂ ≤ B | scalar > 0 or None |
| R | `radius` | bound on every ‖x − c‖₂ after clipping: B, or 2²⁴√d | scalar |
| P | `projection` | public, orthonormal | (d, r) |
| Δ | — | most ‖x − x′‖₂ between neighbours after clipping: 2B, or 1 | scalar |
| h | `step` | the grid, a power of two at most 2⁻²⁰Δ | scalar |
| Q | `image` | round((X − c)P/h) | (n, r) int64 |
| ω | `floor` | `singular_value_floor` of the published transform | scalar |
| X̃ | `raised` | X with its singular values raised to √(σ² + ω²) | (n, d) |

Totality: a row with an entry that is no finite number is replaced by c. Every step moves neighbours no further
apart: clamping a coordinate and clipping to a ball are non-expansive, P has norm 1, and rounding adds h√r. P is
determined by d and r alone, so that it tells nothing of anybody.

At the end stands Algorithm 1 of Kharkovskii et al. (2020), to the letter, both branches: XM/√r or X̃M/√r, M in
`mechanisms/random_projection`. It protects nobody.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.features import clipped, norms, scaled_rows
from dpbo_core.data.table import Table
from dpbo_core.data.values import numbers
from dpbo_core.privacy.guarantee import Evidence, NeighboringRelation, Standing
from dpbo_core.privacy.sensitive import Sensitive

MAX_COORDINATE = 2.0**24  # further from the centre coordinates are clamped, so that doubles hold all of the grid
_GRID_BITS = 20
REFUTED_EVIDENCE = Evidence(
    Standing.REFUTED,
    "Kharkovskii et al. (2020), Theorem 1, is false: every published row is the same secret linear map of its own "
    "row, so whoever knows the other rows solves for the map, and for the row",
)


def public_projection(n_columns: int, dim: int) -> NDArray[np.float64]:
    """The public projection P, (d, min(dim, d)): fixed random orthonormal columns, or the identity if dim ≥ d.

    A projection drawn in ignorance of the data keeps, on the average, r/d of every squared distance; the public
    choice costs nothing in privacy because the guarantee holds for every fixed P.
    """
    if dim >= n_columns:
        return np.eye(n_columns)
    fixed = np.random.default_rng((n_columns, dim)).standard_normal((n_columns, dim))
    Q, R = np.linalg.qr(fixed)
    return np.ascontiguousarray(Q * np.sign(np.diag(R)))


def spectral_norm_bound(P: NDArray[np.float64]) -> float:
    """Return a rigorous upper bound on ‖P‖₂ in floating point: ‖P‖₂² = ‖PᵀP‖₂ ≤ ‖PᵀP‖_∞, with room for rounding."""
    gram = np.abs(P.T @ P)
    return float(np.sqrt(gram.sum(axis=1).max()) * (1.0 + 1e-12) + 1e-12)


@dataclass(frozen=True)
class AnyRow:
    """Neighbours replace one row by any other within B of the centre."""

    norm_bound: float
    relation: ClassVar = NeighboringRelation.REPLACE_ONE

    @property
    def distance(self) -> float:
        """The largest distance Δ = 2B of two rows within the norm bound B, ℓ₂."""
        return 2.0 * self.norm_bound


@dataclass(frozen=True)
class NearRow:
    """Neighbours move one row by a distance of at most 1; a bound on its length is the curator's choice."""

    distance: ClassVar[float] = 1.0  # Δ = 1: how far one row moves, ℓ₂, in the table's units

    norm_bound: float | None = None
    relation: ClassVar = NeighboringRelation.ROW_MOVES_BY_ONE


Neighbours = AnyRow | NearRow


@dataclass(frozen=True)
class Geometry:
    """The public facts of a published table's image, before any row is read."""

    n_columns: int
    dim: int
    neighbours: Neighbours
    centre: tuple[float, ...]

    @cached_property
    def projection(self) -> NDArray[np.float64]:
        """The public orthogonal projection P of the rows, shape (d, r)."""
        return public_projection(self.n_columns, self.dim)

    @property
    def width(self) -> int:
        """The number of columns published, r = min(dim, d)."""
        return min(self.dim, self.n_columns)

    @property
    def radius(self) -> float:
        """The bound R on the length of every row: the norm bound, or without one that of clamped columns."""
        bound = self.neighbours.norm_bound
        return MAX_COORDINATE * math.sqrt(self.n_columns) if bound is None else bound

    @property
    def step(self) -> float:
        """The width h of the integer grid on which rows are noised, in the table's units."""
        return 2.0 ** (math.floor(math.log2(self.neighbours.distance)) - _GRID_BITS)

    @property
    def sensitivity(self) -> float:
        """The ℓ₂ sensitivity of one row of the image Q, rounded up: (Δ‖P‖₂ + 2√r·e)/h + √r.

        e bounds the error of one coordinate in doubles: a product of d terms with |x||p| ≤ R, and the clipping
        before it, lose at most (4d + 64)·2⁻⁵³·R.
        """
        error = (4 * self.n_columns + 64) * 2.0**-53 * (self.radius + max(map(abs, self.centre), default=0.0))
        moved = (
            self.neighbours.distance * spectral_norm_bound(self.projection) + 2.0 * math.sqrt(self.width) * error
        )
        return (moved / self.step + math.sqrt(self.width)) * (1.0 + 1e-12)


def image(table: Table, geometry: Geometry) -> Sensitive[NDArray[np.int64]]:
    """A table's rows as integers before noise, (n, r): clipped, projected, on a grid; the centre if unreadable."""
    raw = np.stack([numbers(column) for column in table.columns.values()], axis=1)
    centre = np.array(geometry.centre or (0.0,) * geometry.n_columns)
    finite = np.isfinite(raw).all(axis=1) & ~table.broken
    X = np.where(finite[:, None], raw, centre)
    match geometry.neighbours:
        case AnyRow(bound):
            mantissas, exponents = scaled_rows(X.T, centre, np.ones(geometry.n_columns))
            X = clipped(mantissas, exponents, radius=1.0, bound=bound).T
        case NearRow(chosen):
            X = np.clip(X, centre - MAX_COORDINATE, centre + MAX_COORDINATE) - centre
            if chosen is not None:
                X = X * (chosen / np.maximum(norms(X.T), chosen))[:, None]
    if geometry.width < geometry.n_columns:
        X = _product(X, geometry.projection)
    return Sensitive(np.rint(X / geometry.step).astype(np.int64))


def in_order(value: Sensitive[NDArray[np.int64]], order: NDArray[np.int64]) -> Sensitive[NDArray[np.int64]]:
    """Return the rows in another order: row i of the result is row order[i]."""
    return Sensitive(np.ascontiguousarray(value.expose()[order]))


def _product(X: NDArray[np.float64], P: NDArray[np.float64]) -> NDArray[np.float64]:
    """The product XP column by column: a matrix library may round a row by its place, which must not matter."""
    total = np.zeros((len(X), P.shape[1]))
    for x, p in zip(X.T, P, strict=True):
        total += x[:, None] * p
    return total


def algorithm_1_rows(table: Table, floor: float, order: NDArray[np.int64]) -> Sensitive[NDArray[np.float64]]:
    """The rows for the published transform: unreadable cells 0, centred, singular values `raised`, in `order`."""
    X = np.stack([numbers(column) for column in table.columns.values()], axis=1)
    X = np.where(np.isfinite(X) & ~table.broken[:, None], X, 0.0)
    return Sensitive(raised(X, floor)[order])


def raised(X: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """Centre X and, where its least singular value is below the floor ω, raise each σ to √(σ² + ω²)."""
    X = X - X.mean(axis=0)  # Alg. 1, line 2
    U, S, Vt = np.linalg.svd(X, full_matrices=False)  # line 4
    if S.min() >= floor:  # line 6
        return X  # line 7, before its product
    lifted: NDArray[np.float64] = (U * np.sqrt(S**2 + floor**2)) @ Vt  # line 9
    return lifted  # line 10, before its product
