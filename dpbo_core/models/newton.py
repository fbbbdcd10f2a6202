"""The logistic model: a damped Newton method from w = 0.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Z | `Z` | signed rows z_i = y_i x_i | (n, d) |
| λ | `regularization` | strength of the penalty | scalar > 0 |
| g | `gradient` | ∇O_λ(w) | (d,) |
| H | `hessian(...)` | ∇²O_λ(w), possibly of an earlier w | (d, d) |
| p | `step` | −H⁻¹g, a descent direction whatever w the H is of | (d,) |
| t | `length` | step length, 1, ½, ¼, … | scalar in (0, 1] |
| τ | `tolerance` | asked bound on ‖ŵ − w_λ‖ | scalar > 0 |

A factor of H is kept while the gradient falls tenfold a step: forming H costs about d/4 gradients.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.certificates import gradient_certificate, row_norm
from dpbo_core.models.losses import Logistic, hessian, row_blocks

_STEPS = 200
_HALVINGS = 40


@dataclass(frozen=True)
class _Place:
    """What one pass over the rows finds at w."""

    w: NDArray[np.float64]
    value: float
    gradient: NDArray[np.float64]
    curvatures: NDArray[np.float64]
    mean_slope: float

    @property
    def steepness(self) -> float:
        return float(np.linalg.norm(self.gradient))


def minimise_logistic(
    Z: NDArray[np.float64], regularization: float, tolerance: float
) -> tuple[NDArray[np.float64], float]:
    """Weights (d,) and their certificate τ_λ; the certificate is above `tolerance` where that was not reached."""
    from scipy.linalg import cho_factor, cho_solve

    n, d = Z.shape
    blocks = row_blocks(n, d)
    r, summands = row_norm(Z), blocks[0].stop + len(blocks)
    place = _visit(Z, np.zeros(d), regularization, blocks)
    factor = None
    best, best_certificate = place.w, math.inf
    for _ in range(_STEPS):
        certificate = gradient_certificate(
            place.gradient,
            place.w,
            regularization=regularization,
            row_norm=r,
            mean_slope=place.mean_slope,
            summands=summands,
        )
        if certificate < best_certificate:
            best, best_certificate = place.w, certificate
        if certificate <= tolerance:
            break
        fresh = factor is None
        if factor is None:
            try:
                factor = cho_factor(hessian(Z, place.curvatures, regularization))
            except (np.linalg.LinAlgError, ValueError):
                break
        following = _line_search(Z, place, -cho_solve(factor, place.gradient), regularization, blocks)
        if following is None or following.steepness > 0.1 * place.steepness:
            factor = None
        if following is not None:
            place = following
        elif fresh:
            break  # rounding hides every further step
    return best, best_certificate


def _visit(Z: NDArray[np.float64], w: NDArray[np.float64], regularization: float, blocks: list[slice]) -> _Place:
    """O_λ, its gradient and ℓ″ at w, in one pass over memory."""
    n, d = Z.shape
    total, slope_total, pull, curvatures = 0.0, 0.0, np.zeros(d), np.empty(n)
    for rows in blocks:
        block = Z[rows]
        values, slopes, curvatures[rows] = Logistic().derivatives(block @ w)
        pull += block.T @ slopes
        total += float(values.sum())
        slope_total -= float(slopes.sum())
    value = 0.5 * regularization * float(w @ w) + total / n
    return _Place(w, value, regularization * w + pull / n, curvatures, slope_total / n)


def _line_search(
    Z: NDArray[np.float64], place: _Place, step: NDArray[np.float64], regularization: float, blocks: list[slice]
) -> _Place | None:
    """The first w + t·p that Armijo's rule accepts, or that halves the gradient where values only show rounding."""
    fall = float(place.gradient @ step)
    rounding = 1e-14 * (1.0 + abs(place.value))
    length = 1.0
    for _ in range(_HALVINGS):
        tried = _visit(Z, place.w + length * step, regularization, blocks)
        if tried.value <= place.value + 1e-4 * length * fall - rounding:
            return tried
        if tried.value <= place.value + rounding and tried.steepness <= 0.5 * place.steepness:
            return tried
        length *= 0.5
    return None
