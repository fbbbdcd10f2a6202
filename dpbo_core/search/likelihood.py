"""Lengthscale, signal variance and mean from the observations, by maximum marginal likelihood.

| symbol | name here | meaning | shape |
|---|---|---|---|
| t, d | — | observations, dimensions | scalars ≥ 1 |
| X, y | `points`, `values` | where and what was observed, on the prior's scale | (t, d), (t,) |
| σ² | `noise_variance` | variance of the noise, KNOWN | scalar ≥ 0 |
| ℓ, s² | `lengthscale`, `variance` | of the kernel s²R_ℓ, fitted | scalars > 0 |
| m | `mean` | prior mean, fitted | scalar |
| A | — | s²R_ℓ + σ²I | (t, t) |
| ω | `omega` | eigenvalues of R_ℓ = Q diag(ω) Qᵀ, at least 0: one decomposition serves every s² | (t,) |
| Qᵀ1, Qᵀy | `one`, `rotated` | ones and values in its basis | (t,) |
| W | `weights` | eigenvalues of A⁻¹ for k choices of s² and σ², up to a factor a choice | (k, t) |

What is maximised: log N(y; m1, A) plus three mild public priors, so that two observations cannot send ℓ or s² to
an extreme: log ℓ ~ N(log 0.3√d, 1) (distances in the cube grow like √d), log s² ~ N(0, 1.5²), m ~ N(0, 2²). The
best m at given ℓ and s² is generalised least squares with that prior: m = 1ᵀA⁻¹y / (1ᵀA⁻¹1 + 1/4).
Source: Rasmussen and Williams (2006), equations 2.30 and 2.43. Deterministic: a grid, refined about its best point.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.gp import JITTER, TYPICAL_LENGTHSCALE, kernel_named


@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvalues ω of a correlation matrix R = QΩQᵀ, with Qᵀ1 and Qᵀy."""

    omega: NDArray[np.float64]
    one: NDArray[np.float64]
    rotated: NDArray[np.float64]

    def means(self, weights: NDArray[np.float64], precision: float = 0.0) -> NDArray[np.float64]:
        """Return the most probable mean m, of prior N(0, 1/precision), by weights of A⁻¹: (k, t) → (k,)."""
        return np.asarray((weights @ (self.one * self.rotated)) / (weights @ self.one**2 + precision))

    def residuals(self, means: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the residuals Qᵀ(y − m1) in the eigenvectors' basis, for each of k means m, (k, t)."""
        return self.rotated - means[:, None] * self.one


def spectrum(correlations: NDArray[np.float64], values: NDArray[np.float64]) -> Spectrum:
    """Return the eigenvalues of a correlation matrix R = QΩQᵀ, (t, t), with Qᵀ1 and Qᵀy of values y, in O(t³)."""
    omega, Q = np.linalg.eigh(correlations)
    return Spectrum(np.maximum(omega, 0.0), Q.sum(axis=0), values @ Q)


_LOG_VARIANCE_SPREAD = 1.5
_MEAN_VARIANCE = 4.0
_LENGTHSCALE_RANGE = (0.02, 5.0)  # searched, as multiples of √d
_VARIANCE_RANGE = (1e-3, 1e2)
_REFINEMENTS, _FINER = 4, 5  # each refinement tries 2·5 − 1 values between the best one's neighbours


@dataclass(frozen=True)
class Fitted:
    """The kernel's lengthscale and variance, and the prior mean, that explain the observations best."""

    lengthscale: float
    variance: float
    mean: float


def fit(
    points: NDArray[np.float64], values: NDArray[np.float64], noise_variance: float, kernel_name: str
) -> Fitted:
    """Return the most probable lengthscale ℓ, variance s² and mean m given y. O(t³); about 25 ms at t = 50."""
    X, y = np.asarray(points, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if X.ndim != 2 or y.shape != X.shape[:1] or len(y) == 0:
        raise ValueError("points must have shape (t, d) and values shape (t,), with t at least 1")
    if not (np.isfinite(X).all() and np.isfinite(y).all() and 0.0 <= noise_variance < math.inf):
        raise ValueError("an observation is not finite, or noise_variance is not finite and at least 0")
    sigma2, root_d, best = max(noise_variance, JITTER), math.sqrt(max(1, X.shape[1])), 0
    log_l = np.log(np.geomspace(*_LENGTHSCALE_RANGE, 12) * root_d)
    for refinement in range(_REFINEMENTS + 1):
        if refinement:
            log_l = _finer_grid(log_l, best)
        profiles = [_profile(X, y, sigma2, kernel_name, float(log_at), root_d) for log_at in log_l]
        best = int(np.argmax([objective for objective, _ in profiles]))
    return profiles[best][1]


def _profile(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    sigma2: float,
    kernel_name: str,
    log_lengthscale: float,
    root_d: float,
) -> tuple[float, Fitted]:
    """Return the largest log posterior (up to a constant) at one log lengthscale, and the parameters that reach it.

    The variance s² is found by a grid that is refined about its best point; the best mean m follows from it.
    """
    spectral = spectrum(kernel_named(kernel_name, math.exp(log_lengthscale)).matrix(X, X), y)
    log_v, best = np.log(np.geomspace(*_VARIANCE_RANGE, 12)), 0
    for refinement in range(_REFINEMENTS + 1):
        if refinement:
            log_v = _finer_grid(log_v, best)
        weights = 1.0 / (np.exp(log_v)[:, None] * spectral.omega + sigma2)  # eigenvalues of A⁻¹
        mean = spectral.means(weights, 1.0 / _MEAN_VARIANCE)
        objective = 0.5 * (np.log(weights) - weights * spectral.residuals(mean) ** 2).sum(axis=1)
        objective -= 0.5 * mean**2 / _MEAN_VARIANCE + 0.5 * (log_v / _LOG_VARIANCE_SPREAD) ** 2
        best = int(np.argmax(objective))
    prior = -0.5 * (log_lengthscale - math.log(TYPICAL_LENGTHSCALE * root_d)) ** 2
    fitted = Fitted(math.exp(log_lengthscale), math.exp(log_v[best]), float(mean[best]))
    return float(objective[best]) + prior, fitted


def _finer_grid(values: NDArray[np.float64], best: int) -> NDArray[np.float64]:
    low, high = values[max(0, best - 1)], values[min(len(values) - 1, best + 1)]
    return np.linspace(low, high, 2 * _FINER - 1)
