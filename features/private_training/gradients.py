"""Sums of clipped per-example gradients of linear models, as vectors of integers of known sensitivity.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x_i | `X` | rows; the zero row where a record is broken | (n, d) |
| W | `weights` | one column (logistic) or one a class (softmax) | (d, K) |
| r_i | — | slope of the loss in the scores: p − 1[y], or −yσ(−y·wᵀx) | (K,) |
| v_i | — | a record's gradient x_i r_iᵀ, scaled to ‖v_i‖ ≤ C | (d, K) |
| C | `clipping_norm` | clipping norm | scalar > 0 |
| h | — | the grid, C·2⁻²⁰ | scalar |

Closed form: ‖x_i r_iᵀ‖ = ‖x_i‖‖r_i‖, so clipping scales r_i and the sum is one matrix product.

Sensitivity of the rounded sum, in steps of h. Replacing a record moves the exact sum by at most 2C, adding or
removing one by C. The product is computed in doubles: every entry is off by at most γ_n·nC, in any order of
summation, γ_n = nu/(1−nu). Rounding both sums to integers moves a coordinate by at most 1 more than the exact
difference. Together, over d·K coordinates in ℓ₂: 2·2²⁰ + √(dK)·(1 + 2γ_n·n·2²⁰).
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpbo.features.private_training.base import PrivateModel
from dpbo_core.data import Encoded
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel

STEPS = 2**20
_U = 2.0**-53
_SLACK = 1e-9  # ‖v_i‖ aims this much below C, far more than its own rounding


def sum_sensitivity(*, moves: int, n_records: int, size: int) -> float:
    """Return the ℓ₂ sensitivity of `clipped_sum` in grid steps; `moves`: 2 for replace-one, 1 for add-or-remove."""
    gamma = (n_records + 4) * _U / (1.0 - (n_records + 4) * _U)
    return (moves * STEPS + math.sqrt(size) * (1.0 + 2.0 * gamma * n_records * STEPS)) * (1.0 + 1e-12)


def clipped_sum(
    records: Encoded, weights: NDArray[np.float64], clipping_norm: float, rows: NDArray[np.bool_] | None = None
) -> NDArray[np.int64]:
    """The sum of clipped gradients in whole grid steps, (d·K,), over all records or those of a mask, `rows`."""
    X = records.X
    with np.errstate(all="ignore"):
        slopes = _loss_derivatives(records, X @ weights)
        lengths = np.sqrt(np.einsum("ij,ij->i", X, X) * np.einsum("ij,ij->i", slopes, slopes))
        factors = np.minimum(1.0, clipping_norm * (1.0 - _SLACK) / lengths)
    factors = np.where(lengths > 0.0, factors, 0.0)
    if rows is not None:
        factors = np.where(rows, factors, 0.0)
    total = X.T @ (slopes * factors[:, None])
    return np.rint(total.ravel() * (STEPS / clipping_norm)).astype(np.int64)


def bounded(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weights after a step, cut to ±10⁶ and NaN to 0, so that they are finite whatever the learning rate did."""
    return np.nan_to_num(np.clip(weights, -1e6, 1e6))


def model_of(weights: NDArray[np.float64]) -> PrivateModel:
    """Return the linear model of weights (d, K): logistic for one column, softmax for more."""
    return LinearModel(weights[:, 0], 0.0, math.inf) if weights.shape[1] == 1 else SoftmaxModel(weights)


def _loss_derivatives(records: Encoded, scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the loss's derivative with respect to each record's scores, (n, K)."""
    if scores.shape[1] == 1:
        signs = records.signs[:, None]
        e = np.exp(-np.abs(scores))
        return -signs * np.where(signs * scores > 0.0, e, 1.0) / (1.0 + e)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    labelled = np.flatnonzero(records.labels >= 0)
    p[labelled, records.labels[labelled]] -= 1.0
    return np.asarray(p, dtype=np.float64)
