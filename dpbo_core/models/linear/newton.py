"""The logistic model: a damped Newton method from w = 0, or from a start that a path of models gives.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Z | `rows.Z` | signed rows z_i = y_i x_i | (n, d) |
| m | `margins` | Zw | (n,) |
| λ | `regularization` | strength of the penalty | scalar > 0 |
| g | `gradient` | ∇O_λ(w) | (d,) |
| S | `curvature` | (1/n) Zᵀ diag(ℓ″) Z, of w or of a place near it | (d, d) |
| H | — | S + λI, which is ∇²O_λ where S is of w itself | (d, d) |
| p | `step` | −H⁻¹g, a descent direction whatever w the S is of | (d,) |
| t | `length` | step length, 1, ½, ¼, … | scalar in (0, 1] |
| τ | `tolerance` | asked bound on ‖ŵ − w_λ‖ | scalar > 0 |

A factor of H is kept while what is left, at the rate just seen, takes less time than a new one: forming S costs
about 2 + d/16 gradients. A step that halves the gradient is taken as it is (‖g‖ = 0 only at w_λ); any other must
pass Armijo's rule on the values.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.linear.certificates import gradient_certificate
from dpbo_core.models.linear.losses import hessian, logistic
from dpbo_core.models.linear.signed_rows import SignedRows

Factor = NDArray[np.float64]  # upper triangular, its square the factored matrix

_STEPS = 200
_HALVINGS = 40


@dataclass(frozen=True)
class Start:
    """Where to begin at one λ, and the factor of a matrix near the Hessian there."""

    w: NDArray[np.float64]
    factor: Factor


@dataclass(frozen=True)
class Place:
    """What one pass over the rows finds at w. The value is left until it is asked for."""

    w: NDArray[np.float64]
    regularization: float
    margins: NDArray[np.float64]
    gradient: NDArray[np.float64]
    mean_slope: float

    @cached_property
    def steepness(self) -> float:
        """The norm ‖g‖₂ of the objective's gradient at w."""
        return math.sqrt(float(self.gradient @ self.gradient))

    @cached_property
    def value(self) -> float:
        """The regularised objective O_λ(w) at w."""
        return 0.5 * self.regularization * float(self.w @ self.w) + float(np.mean(logistic(self.margins)[0]))


def descend(
    rows: SignedRows, regularization: float, tolerance: float, start: Start | None = None
) -> tuple[Place, float]:
    """Newton's descent: the point where it ends, with margins and gradient, and its certificate."""
    d = rows.Z.shape[1]
    place = visit(rows, np.zeros(d) if start is None else start.w, regularization)
    factor = None if start is None else start.factor
    fresh = False
    best, best_certificate = place, math.inf
    for _ in range(_STEPS):
        certificate = gradient_certificate(
            place.gradient,
            place.w,
            regularization=regularization,
            row_norm=rows.norm,
            mean_slope=place.mean_slope,
            summands=rows.summands,
        )
        if certificate < best_certificate:
            best, best_certificate = place, certificate
        if certificate <= tolerance:
            break
        if factor is None:
            factor, fresh = factored(curvature(rows, place), regularization), True
            if factor is None:
                break
        following = _line_search(rows, place, -solved(factor, place.gradient))
        if following is None and fresh:
            break  # rounding hides every further step
        if following is None or _needs_new_factor(following, place, certificate, tolerance):
            factor = None
        if following is not None:
            place, fresh = following, False
    return best, best_certificate


def visit(rows: SignedRows, w: NDArray[np.float64], regularization: float) -> Place:
    """The point w with the margins and ∇O_λ there, in one pass over memory."""
    n, d = rows.Z.shape
    margins, slope_total, pull = np.empty(n), 0.0, np.zeros(d)
    for block in rows.blocks:
        part = rows.Z[block]
        m = np.matmul(part, w, out=margins[block])
        shares = np.exp(m)  # −ℓ′ = 1/(1 + e^m); e^m = ∞ gives 0, which is off by less than 1e-308
        shares += 1.0
        np.divide(1.0, shares, out=shares)
        pull += shares @ part
        slope_total += float(shares.sum())
    return Place(w, regularization, margins, regularization * w - pull / n, slope_total / n)


def curvature(rows: SignedRows, place: Place) -> NDArray[np.float64]:
    """The unregularised Hessian S = (1/n) Zᵀ diag(ℓ″) Z at a point, (d, d)."""
    return hessian(rows.Z, logistic(place.margins)[2], 0.0)


def factored(S: NDArray[np.float64], regularization: float) -> Factor | None:
    """The Cholesky factor of S + λI; None where rounding has cost it its definiteness.

    LAPACK itself: for the few features of most studies scipy's checks would take longer than the work.
    """
    from scipy.linalg import lapack

    H = S.copy(order="F")
    H.flat[:: len(H) + 1] += regularization
    upper, info = lapack.dpotrf(H, lower=0, overwrite_a=1)
    return upper if info == 0 else None


def solved(factor: Factor, b: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solution (S + λI)⁻¹ b of a factored system, (d,)."""
    from scipy.linalg import lapack

    x: NDArray[np.float64] = lapack.dpotrs(factor, b)[0]
    return x


def _needs_new_factor(following: Place, place: Place, certificate: float, tolerance: float) -> bool:
    """Whether a new factor and two steps with it end sooner than going on at the rate of the step just made."""
    rate = following.steepness / max(place.steepness, 1e-300)
    if not rate < 0.5:
        return True
    left = rate * certificate / max(tolerance, 1e-300)
    return math.log(max(left, 1.0)) / -math.log(max(rate, 1e-300)) > 4.0 + len(place.w) / 16


def _line_search(rows: SignedRows, place: Place, step: NDArray[np.float64]) -> Place | None:
    """The first w + t·p that halves the gradient, or that Armijo's rule accepts by more than rounding."""
    length = 1.0
    for _ in range(_HALVINGS):
        tried = visit(rows, place.w + length * step, place.regularization)
        if tried.steepness < 0.5 * place.steepness:
            return tried
        rounding = 1e-14 * (1.0 + abs(place.value))
        fall = float(place.gradient @ step)
        if tried.value <= place.value + 1e-4 * length * fall - rounding:
            return tried
        length *= 0.5
    return None
