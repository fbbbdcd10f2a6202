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

Certificates: bounds τ_λ on ‖ŵ − w_λ‖, where ŵ is what a solver returned and w_λ the exact minimiser.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Z | `Z` | signed rows z_i = y_i x_i | (n, d) |
| ŵ | `w` | the returned weights | (d,) |
| α | `alpha` | dual point of the hinge problem, clipped into its box [0, 1] | (n,) |
| w_α | `dual_weights` | Zᵀα/(nλ), the weights the dual point stands for | (d,) |
| r | `row_norm` | max ‖z_i‖ | scalar |
| c̄ | `mean_slope` | mean of −ℓ′(m_i), every ℓ′ ≤ 0 | scalar |
| u | `_U` | 2⁻⁵³, half the distance from 1 to the next float | scalar |
| γ_k | `_gamma(k)` | k·u/(1 − k·u): a sum of k products, in any order, errs by ≤ γ_k Σ of their sizes | scalar |
| e_m | `margin_error(...)` | bound on the rounding of one margin: γ_d·r·‖w‖ | scalar |
| τ_λ | the returned float | the certificate | scalar ≥ 0 |

O_λ is λ-strongly convex, so τ = ‖∇O_λ(ŵ)‖/λ for a smooth loss and τ = √(2·gap/λ) from a duality gap. Both are
evaluated at the returned ŵ, with the worst rounding of every sum added, and rounded up. For n, d ≤ 10⁶.
Source of γ: Higham, Accuracy and Stability of Numerical Algorithms (2002), §3.1.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid

_BLOCK_ELEMENTS = 2**17  # one megabyte of rows: a block stays in the processor's cache between its passes


INITIAL_LOSS = {"logistic": math.log(2.0), "hinge": 1.0}  # ℓ₀ of log(1 + e^(−m)) and of max(0, 1 − m)


def initial_loss(name: str) -> float:
    """Return ℓ₀, a record's loss at w = 0, for the loss named "logistic" or "hinge"; refuse any other name."""
    if name not in INITIAL_LOSS:
        raise StudyInvalid(f"there is no loss named {name!r}", remedy='write "logistic" or "hinge"')
    return INITIAL_LOSS[name]


def logistic(margins: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return ℓ(m) = log(1 + e^(−m)), ℓ′ in [−1, 0] and ℓ″ in [0, ¼] of each margin; none overflows."""
    e = np.exp(-np.abs(margins))
    share = 1.0 / (1.0 + e)
    slopes = np.where(margins > 0.0, -e, -1.0) * share
    return np.log1p(e) + np.maximum(-margins, 0.0), slopes, e * share * share


def hessian(Z: NDArray[np.float64], curvatures: NDArray[np.float64], regularization: float) -> NDArray[np.float64]:
    """Return the matrix λI + (1/n) Zᵀ diag(curvatures) Z, (d, d).

    It is the Hessian ∇²O_λ if the curvatures, (n,) and ≥ 0, are ℓ″ of the margins. The interior-point method passes
    others. Rows are processed in blocks, so that the extra memory is bounded; BLAS updates the upper triangle
    alone.
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
    """Return the rows 0 … n−1 in blocks of at most 4096, a function of the shape alone."""
    size = min(4096, max(256, _BLOCK_ELEMENTS // max(1, d)))
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


_U = 2.0**-53
_ROUND_UP = 1.0 + 1e-9  # covers products of rounding terms, and the norms' own rounding, for n, d up to 10⁶
_ELEMENTARY = 8.0 * _U  # relative error of a slope at a given margin: an exponential, a sum, a division
_MIN_NORM = 1e-150  # a norm's squares underflow below it
_GAP_FLOOR = 1e-12  # MATH: gap ← max(gap, 0) + 1e-12(1 + |P|)


def default_tolerance(loss: str, regularization: float) -> float:
    """Return the default tolerance τ_λ on the distance to the exact weights: logistic 1e-6, hinge 1e-5/√λ.

    The hinge's is a duality gap of 5e-11 at every λ. The gap's rounding floor alone (P ≤ 1 at the optimum) makes up
    to 2e-6/√λ of it, so that 1e-6 could not be reached at λ = 1e-4.
    """
    return 1e-6 if loss == "logistic" else 1e-5 / math.sqrt(regularization)


def row_norm(Z: NDArray[np.float64]) -> float:
    """Return the largest row norm r = max ‖z_i‖, rounded up."""
    return math.sqrt(float(np.einsum("ij,ij->i", Z, Z).max())) * _ROUND_UP + _MIN_NORM


def margin_error(d: int, row_norm: float, weight_norm: float) -> float:
    """Return a bound e_m on the rounding error of a computed margin z_iᵀw."""
    return _gamma(d) * row_norm * weight_norm * _ROUND_UP


def gradient_certificate(
    gradient: NDArray[np.float64],
    w: NDArray[np.float64],
    *,
    regularization: float,
    row_norm: float,
    mean_slope: float,
    summands: int,
) -> float:
    """Return the certificate τ_λ = (‖g‖ + E)/λ ≥ ‖w − w_λ‖ from the gradient g of O_λ (logistic), E its rounding.

    |ℓ′| is log-Lipschitz with constant 1, so a margin off by e_m moves a slope by at most a factor e^{e_m}; hence
    E = r·c̄·(e^{e_m} − 1 + 8u + γ_k) + 4u(λ‖w‖ + ‖g‖), k = `summands` the longest chain of additions over rows.
    """
    norm_g, norm_w = float(np.linalg.norm(gradient)), float(np.linalg.norm(w))
    e_m = margin_error(len(w), row_norm, norm_w)
    slope_error = math.expm1(e_m) + _ELEMENTARY + _gamma(summands + 1) if e_m < 1.0 else math.inf
    rounding = row_norm * mean_slope * slope_error + 4.0 * _U * (regularization * norm_w + norm_g)
    return (norm_g + rounding + _MIN_NORM) * _ROUND_UP / regularization


def certifiable(*, n_records: int, n_features: int, regularization: float, tilt_norm: float = 0.0) -> float:
    """Return the least certificate τ_λ (logistic) that doubles surely reach on rows of norm ≤ 1; ∞ if none.

    At the exact minimiser O(w) ≤ O(0) = log 2, so ‖w‖ ≤ (β + √(β² + 2λ log 2))/λ with β = ‖b‖/n of a tilt b, and
    ‖w‖ ≤ (1 + β)/λ. There the certificate's rounding E (c̄ ≤ 1), the rounding that the computed gradient really has
    (at most E) and what w loses by being a double, (¼ + λ)u‖w‖, are all that keeps it from 0. Rounded up.
    """
    beta = tilt_norm / n_records
    reach = min(beta + math.sqrt(beta * beta + 2.0 * regularization * math.log(2.0)), 1.0 + beta) / regularization
    e_m = margin_error(n_features, _ROUND_UP, reach * _ROUND_UP)
    if not e_m < 0.5:
        return math.inf
    slopes = math.expm1(e_m) + _ELEMENTARY + _gamma(n_records + 1)
    E = (slopes + 4.0 * _U * (regularization * reach + 1.0) + 1e-15 * beta + _MIN_NORM) * _ROUND_UP
    return (2.0 * E + (0.25 + regularization) * _U * reach) * _ROUND_UP * (1.0 + 1e-3) / regularization


def gap_certificate(
    Z: NDArray[np.float64],
    w: NDArray[np.float64],
    alpha: NDArray[np.float64],
    *,
    regularization: float,
    row_norm: float,
) -> float:
    """Return the certificate τ_λ = √(2·gap/λ) ≥ ‖w − w_λ‖ for the hinge loss, from any w and dual point α.

    Row i of Z is y_i·x_i, and m_i = (Zw)_i is its margin.
    gap = P(w) − D(α), P = O_λ(w), D(α) = (1/n)Σα_i − (λ/2)‖w_α‖², summed as
    (λ/2)‖w − w_α‖² + (1/n) Σ [(1 − α_i)·max(0, 1 − m_i) + α_i·max(0, m_i − 1)],
    which is the same number with no cancellation: every term is ≥ 0. A margin off by e_m moves a term by e_m times
    its factor.
    """
    n, d = Z.shape
    alpha = np.clip(alpha, 0.0, 1.0)
    norm_w = float(np.linalg.norm(w))
    e_m = margin_error(d, row_norm, norm_w)
    short = 1.0 - Z @ w
    terms = np.where(short > 0.0, (1.0 - alpha) * short, -alpha * short)
    factors = np.where(short > e_m, 1.0 - alpha, np.where(short < -e_m, alpha, 1.0))
    dual_weights = Z.T @ alpha / n / regularization
    off = float(np.linalg.norm(w - dual_weights)) + 4.0 * _U * (norm_w + float(np.linalg.norm(dual_weights)))
    off += _gamma(n + 2) * row_norm * float(np.mean(alpha)) / regularization
    gap = 0.5 * regularization * off**2 + float(np.mean(terms)) + e_m * float(np.mean(factors))
    primal = 0.5 * regularization * norm_w**2 + float(np.mean(np.maximum(short, 0.0)))
    return math.sqrt(2.0 * (max(gap, 0.0) + _GAP_FLOOR * (1.0 + abs(primal))) / regularization) * _ROUND_UP


def _gamma(k: int) -> float:
    """Return the rounding-error factor γ_k = k·u/(1 − k·u) of k floating-point operations."""
    return k * _U / (1.0 - k * _U)
