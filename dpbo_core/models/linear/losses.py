"""The two losses of Kusner §5 (Assumption 2) and the regularised objective O_λ.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n, d | `Z.shape` | public training records, weights | scalars ≥ 1 |
| Z | `Z` | signed rows z_i = y_i x_i, y_i ∈ {−1, +1}, ‖x_i‖₂ ≤ 1 | (n, d) |
| w | `w` | weights | (d,) |
| m_i | `margins` | y_i wᵀx_i = z_iᵀw | (n,) |
| λ | `regularization` | strength of the penalty | scalar > 0 |
| ℓ | `logistic` | convex, |ℓ′| ≤ 1, so 1-Lipschitz in w | function of a margin |
| ℓ₀ | `initial_loss` | ℓ(0), the mean loss at w = 0 | scalar |
| O_λ(w) | — | (λ/2)‖w‖² + (1/n) Σ ℓ(m_i) | scalar |
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid

_BLOCK_ELEMENTS = 2**17  # one megabyte of rows: a block stays in the processor's cache between its passes


INITIAL_LOSS = {"logistic": math.log(2.0), "hinge": 1.0}  # ℓ₀ of log(1 + e^(−m)) and of max(0, 1 − m)


def initial_loss(name: str) -> float:
    """The loss ℓ₀ of a record at w = 0 under the loss named "logistic" or "hinge"; any other name is refused.

    Raises:
        StudyInvalid: any other name.
    """
    if name not in INITIAL_LOSS:
        raise StudyInvalid(f"there is no loss named {name!r}", remedy='write "logistic" or "hinge"')
    return INITIAL_LOSS[name]


def logistic(margins: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """ℓ(m) = log(1 + e^(−m)), ℓ′ in [−1, 0] and ℓ″ in [0, ¼] of each margin; none overflows."""
    e = np.exp(-np.abs(margins))
    share = 1.0 / (1.0 + e)
    slopes = np.where(margins > 0.0, -e, -1.0) * share
    return np.log1p(e) + np.maximum(-margins, 0.0), slopes, e * share * share


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
