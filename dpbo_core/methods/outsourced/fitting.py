"""Lengthscale, variance, mean and answer noise from the answers alone, by maximum marginal likelihood.

| symbol | name here | meaning | shape |
|---|---|---|---|
| t, r | — | answers, columns | scalars ≥ 1 |
| Z | `points` | rows that were asked about, in units of the table's extent | (t, r) |
| y | `values` | the answers | (t,) |
| τ | `blur` | noise of the table, known, in the same units | scalar ≥ 0 |
| σ_n² | `noise_variance` | noise of an answer: known, or fitted as a share of s² | scalar ≥ 0 or None |
| ℓ, s², m | `Fit` | lengthscale, variance and mean | scalars |

At each (ℓ, σ_n²/s²) on a grid, m is generalised least squares and s² the mean square that is left, both in closed
form (Rasmussen and Williams 2006, section 2.7), with a mild prior log ℓ ~ N(log 0.3√r, 1) so that three answers
cannot send ℓ to an end of its grid. Where σ_n² is known, s² is on the grid too.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.gp.kernels import TYPICAL, BlurredSquaredExponential, typical_lengthscale
from dpbo_core.gp.spectrum import spectrum

LENGTHSCALES = np.geomspace(0.03, 3.0, 24)  # times √r
SHARES = (1e-6, 1e-4, 1e-2, 1e-1)  # σ_n²/s² tried where the answers' noise is not known


@dataclass(frozen=True)
class Fit:
    """The prior that explains the answers best."""

    lengthscale: float
    variance: float
    mean: float
    noise_variance: float


def fit(points: NDArray[np.float64], values: NDArray[np.float64], blur: float, noise_variance: float | None) -> Fit:
    """The most probable ℓ, s², m and σ_n² given y. Deterministic; 30 ms at t = 50.

    Args:
        points: Z, (t, r).
        values: y, (t,).
        blur: τ.
        noise_variance: σ_n², or None to fit it.
    """
    t, r = points.shape
    spread = float(np.var(values)) or 1.0
    best, chosen = -math.inf, Fit(typical_lengthscale(r), spread, float(np.mean(values)), noise_variance or 0.0)
    variances = spread * np.geomspace(0.05, 20.0, 9)
    shares = np.array(SHARES) if noise_variance is None else noise_variance / variances
    for multiple in LENGTHSCALES:
        lengthscale = float(multiple * math.sqrt(r))
        known = spectrum(BlurredSquaredExponential(lengthscale, 1.0, blur, r).matrix(points, points), values)
        weights = 1.0 / (known.omega + np.maximum(shares, 1e-10)[:, None])
        means = known.means(weights)
        square = (weights * known.residuals(means) ** 2).sum(axis=1)
        s2 = np.maximum(square / t, 1e-12 * spread) if noise_variance is None else variances
        probable = -0.5 * (square / s2 + t * np.log(s2) - np.log(weights).sum(axis=1))
        probable -= 0.5 * math.log(multiple / TYPICAL) ** 2
        k = int(np.argmax(probable))
        if probable[k] > best:
            best = float(probable[k])
            chosen = Fit(lengthscale, float(s2[k]), float(means[k]), float(shares[k] * s2[k]))
    return chosen
