"""The two losses of Kusner §5 (Assumption 2) and the regularised objective O_λ.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n, d | `Z.shape` | public training records, weights | scalars ≥ 1 |
| Z | `Z` | signed rows z_i = y_i x_i, y_i ∈ {−1, +1}, ‖x_i‖₂ ≤ 1 | (n, d) |
| w | `w` | weights | (d,) |
| m_i | `margins` | y_i wᵀx_i = z_iᵀw | (n,) |
| λ | `regularization` | strength of the penalty | scalar > 0 |
| ℓ | `loss` | convex, |ℓ′| ≤ 1, so 1-Lipschitz in w | function of a margin |
| ℓ₀ | `initial_loss` | ℓ(0), the mean loss at w = 0 | scalar |
| O_λ(w) | `objective` | (λ/2)‖w‖² + (1/n) Σ ℓ(m_i) | scalar |
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid

_BLOCK_ELEMENTS = 2**17  # one megabyte of rows: a block stays in the processor's cache between its passes


@dataclass(frozen=True)
class Logistic:
    """ℓ(m) = log(1 + e^(−m)). No margin overflows."""

    @property
    def initial_loss(self) -> float:
        """The loss ℓ₀ = log 2 of a record at w = 0."""
        return math.log(2.0)

    def values(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """The loss ℓ(m) of each margin m, in the margins' shape."""
        return self.derivatives(margins)[0]

    def slopes(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """The derivative ℓ′(m) = −1/(1 + e^m) at each margin, in [−1, 0]."""
        return self.derivatives(margins)[1]

    def curvatures(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """The second derivative ℓ″(m) = e^m/(1 + e^m)² at each margin, in [0, ¼]."""
        return self.derivatives(margins)[2]

    def derivatives(
        self, margins: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """ℓ, ℓ′ and ℓ″ at once, from one exponential."""
        e = np.exp(-np.abs(margins))
        share = 1.0 / (1.0 + e)
        slopes = np.where(margins > 0.0, -e, -1.0) * share
        return np.log1p(e) + np.maximum(-margins, 0.0), slopes, e * share * share


@dataclass(frozen=True)
class Hinge:
    """ℓ(m) = max(0, 1 − m)."""

    initial_loss: ClassVar[float] = 1.0  # ℓ₀ = 1: the loss at w = 0

    def values(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """The loss ℓ(m) of each margin m, in the margins' shape."""
        return np.maximum(0.0, 1.0 - margins)

    def slopes(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """A subgradient of the loss at each margin m: −1 where m < 1, else 0."""
        return np.where(margins < 1.0, -1.0, 0.0)


Loss = Logistic | Hinge


def loss_named(name: str) -> Loss:
    """The loss that a study names: "logistic" or "hinge".

    Raises:
        StudyInvalid: any other name.
    """
    match name:
        case "logistic":
            return Logistic()
        case "hinge":
            return Hinge()
    raise StudyInvalid(f"there is no loss named {name!r}", remedy='write "logistic" or "hinge"')


def objective(Z: NDArray[np.float64], w: NDArray[np.float64], regularization: float, loss: Loss) -> float:
    """The regularised objective O_λ(w): the mean loss over the training set plus λ‖w‖²/2."""
    return 0.5 * regularization * float(w @ w) + float(np.mean(loss.values(Z @ w)))


def gradient(
    Z: NDArray[np.float64], w: NDArray[np.float64], regularization: float, loss: Loss
) -> NDArray[np.float64]:
    """The gradient ∇O_λ(w), (d,); a subgradient for the hinge."""
    g: NDArray[np.float64] = regularization * w + Z.T @ loss.slopes(Z @ w) / len(Z)
    return g


def hessian(Z: NDArray[np.float64], curvatures: NDArray[np.float64], regularization: float) -> NDArray[np.float64]:
    """The matrix λI + (1/n) Zᵀ diag(curvatures) Z, (d, d): ∇²O_λ for ℓ″ of the margins, or an interior point's.

    Curvatures are (n,) and ≥ 0. One block of rows at a time, so that the extra memory is bounded; BLAS adds each to
    the upper triangle alone.
    """
    from scipy.linalg import blas

    n, d = Z.shape
    upper, roots = np.zeros((d, d), order="F"), np.sqrt(curvatures)
    for rows in row_blocks(n, d):
        S = Z[rows] * roots[rows, None]
        upper = blas.dsyrk(1.0, S.T, beta=1.0, c=upper, overwrite_c=1)
    H = upper + np.triu(upper, 1).T
    H /= n
    H[np.diag_indices(d)] += regularization
    return H


def row_blocks(n: int, d: int) -> list[slice]:
    """The rows 0 … n−1 in blocks of at most 4096, a function of the shape alone."""
    size = min(4096, max(256, _BLOCK_ELEMENTS // max(1, d)))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]
