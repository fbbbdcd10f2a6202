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

Starts for the logistic models of one training set: near every w_λ, and a function of λ and the rows alone.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Z | `rows.Z` | signed rows | (n, d) |
| λ | `regularization` | where a start is wanted | scalar > 0 |
| s | — | log λ, in which the path w_λ is smooth at every scale | scalar |
| λ_j | `penalty` | λ_0·κ^−j, λ_0 = (1/4n) Σ‖z_i‖² ≥ the largest eigenvalue of S at w = 0 | scalar |
| κ | `ratio` | 4, or 8 where there are many features | scalar |
| w_j, ẇ_j | `w`, `tangent` | the model at λ_j, nearly, and dw/ds there: −λ_j (S_j + λ_j I)⁻¹ w_j | (d,) |
| S_j | `curvature` | (1/n) Zᵀ diag(ℓ″) Z at w_j | (d, d) |
| θ | `theta` | where s lies between two anchors, from 0 to 1 | scalar |
| u | — | (S + λI) w: constant along the path of a quadratic loss, so it varies slowly along this one | (d,) |

The anchors λ_0 > λ_1 > … are fixed by the rows, and anchor j is reached from anchor j − 1 alone. Between two of
them S is interpolated linearly in s and u by the cubic of Hermite; the start solves (S + λI) w = u. So the model
of λ is a function of (λ, training set): whichever λ were trained before, in whichever order, by whichever process.
That is why no start is taken from the nearest model trained so far, though it would save the anchors: a search that
is killed and run again would then score other models than those whose scores it released.
The anchors are starts, not models: nothing is certified of them, and the certificate of a model that begins at one
is computed where that model ends.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.linear.fast_exact_scores import SignedRows
from dpbo_core.models.linear.losses import gradient_certificate, hessian, logistic

Factor = NDArray[np.float64]  # upper triangular, its square the factored matrix

_MAX_STEPS = 200
_MAX_HALVINGS = 40


@dataclass(frozen=True)
class Start:
    """Where to begin at one λ, and the factor of a matrix near the Hessian there."""

    w: NDArray[np.float64]
    factor: Factor


@dataclass(frozen=True)
class Place:
    """Weights w with the margins, the gradient and −mean ℓ′ there. The objective is computed on first use."""

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
    """Return the end of Newton's descent from `start` (None: w = 0), and its certificate, maybe above `tolerance`.

    The factor of the Hessian is reused over steps while that converges fast enough (`_needs_new_factor`).
    """
    d = rows.Z.shape[1]
    place = visit(rows, np.zeros(d) if start is None else start.w, regularization)
    factor = None if start is None else start.factor
    fresh = False
    best, best_certificate = place, math.inf
    for _ in range(_MAX_STEPS):
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
    """Return the point w with the margins and ∇O_λ there, in one pass over memory."""
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
    """Return the unregularised Hessian S = (1/n) Zᵀ diag(ℓ″) Z at a point, (d, d)."""
    return hessian(rows.Z, logistic(place.margins)[2], 0.0)


def factored(S: NDArray[np.float64], regularization: float) -> Factor | None:
    """Return the Cholesky factor of S + λI; None if rounding has cost it its definiteness.

    LAPACK itself: for the few features of most studies scipy's checks would take longer than the work.
    """
    from scipy.linalg import lapack

    H = S.copy(order="F")
    H.flat[:: len(H) + 1] += regularization
    upper, info = lapack.dpotrf(H, lower=0, overwrite_a=1)
    return upper if info == 0 else None


def solved(factor: Factor, b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the solution (S + λI)⁻¹ b of a factored system, (d,)."""
    from scipy.linalg import lapack

    x: NDArray[np.float64] = lapack.dpotrs(factor, b)[0]
    return x


def _needs_new_factor(following: Place, place: Place, certificate: float, tolerance: float) -> bool:
    """Return whether a new Cholesky factor reaches the tolerance sooner than steps with the present one."""
    rate = following.steepness / max(place.steepness, 1e-300)
    if not rate < 0.5:
        return True
    left = rate * certificate / max(tolerance, 1e-300)
    return math.log(max(left, 1.0)) / -math.log(max(rate, 1e-300)) > 4.0 + len(place.w) / 16


def _line_search(rows: SignedRows, place: Place, step: NDArray[np.float64]) -> Place | None:
    """Return the first w + t·p, t = 1, ½, …, that halves the gradient or meets Armijo's rule; None if none does."""
    length = 1.0
    for _ in range(_MAX_HALVINGS):
        tried = visit(rows, place.w + length * step, place.regularization)
        if tried.steepness < 0.5 * place.steepness:
            return tried
        rounding = 1e-14 * (1.0 + abs(place.value))
        fall = float(place.gradient @ step)
        if tried.value <= place.value + 1e-4 * length * fall - rounding:
            return tried
        length *= 0.5
    return None


_MAX_DENSE_ANCHOR_FEATURES = 128  # up to which anchors stand closer: a curvature costs about d/16 visits
_MIN_ANCHOR_LAMBDA = 1e-24  # of λ_0: no smaller λ has an anchor of its own
_ANCHOR_GRADIENT_SHARE = 1e-5  # gradient of an anchor, as a share of the gradient at w = 0
MAX_ANCHOR_FEATURES = 1024  # features beyond which the anchors' matrices would take more memory than they save time


@dataclass(frozen=True)
class _Anchor:
    penalty: float
    w: NDArray[np.float64]
    tangent: NDArray[np.float64]
    curvature: NDArray[np.float64]


class LogisticPath:
    """Starts along the regularisation path, its anchors made when they are first needed."""

    def __init__(self, rows: SignedRows) -> None:
        self._rows = rows
        d = rows.Z.shape[1]
        at_zero = visit(rows, np.zeros(d), 0.0)
        self._pull = -at_zero.gradient
        self._flat = curvature(rows, at_zero)
        self._ratio = 4.0 if d <= _MAX_DENSE_ANCHOR_FEATURES else 8.0
        self._last = math.ceil(-math.log(_MIN_ANCHOR_LAMBDA, self._ratio))
        self._anchors: list[_Anchor] = []

    def start(self, regularization: float) -> Start | None:
        """Return the starting point of Newton's descent at λ > 0; None if rounding leaves none."""
        with np.errstate(all="ignore"):
            largest = float(np.trace(self._flat))
            if regularization >= largest:
                return self._first(regularization)
            place = math.log(largest / regularization, self._ratio)
            j = min(int(place), self._last - 1)
            above, below = self._anchor(j), self._anchor(j + 1)
            if above is None or below is None:
                return None
            return _interpolated_start(above, below, min(place - j, 1.0), regularization)

    def _first(self, regularization: float) -> Start | None:
        """Return the starting point for a large λ, by one Newton step from w = 0; None if rounding leaves none."""
        return _start(self._flat, regularization, self._pull)

    def _anchor(self, j: int) -> _Anchor | None:
        """Return anchor j, the model of a fixed λ_j, made from anchor j − 1; None if rounding prevents it."""
        while len(self._anchors) <= j:
            penalty = float(np.trace(self._flat)) * self._ratio ** -len(self._anchors)
            if self._anchors:
                last = self._anchors[-1]
                u = last.curvature @ last.w + last.penalty * last.w
                start = _start(last.curvature, penalty, u)
            else:
                start = self._first(penalty)
            made = self._new_anchor(penalty, start)
            if made is None:
                return None
            self._anchors.append(made)
        return self._anchors[j]

    def _new_anchor(self, penalty: float, start: Start | None) -> _Anchor | None:
        """Return the anchor at `penalty`, a rough minimiser and its Hessian; None if rounding prevents it."""
        enough = _ANCHOR_GRADIENT_SHARE * float(np.linalg.norm(self._pull)) / penalty
        place, _ = descend(self._rows, penalty, enough, start)
        S = curvature(self._rows, place)
        towards = _start(S, penalty, -penalty * place.w)
        return None if towards is None else _Anchor(penalty, place.w, towards.w, S)


def _interpolated_start(above: _Anchor, below: _Anchor, theta: float, regularization: float) -> Start | None:
    """Return the start at λ, a share `theta` (in log λ) of the way between two anchors; None if it is not finite.

    S is interpolated linearly, and u = (S + λI)w by the cubic of Hermite from its values and slopes at the anchors.
    """
    S = (1.0 - theta) * above.curvature + theta * below.curvature
    width = math.log(below.penalty / above.penalty)
    u, slopes = [], []
    for anchor in (above, below):
        u.append(S @ anchor.w + anchor.penalty * anchor.w)
        slopes.append(width * (S @ anchor.tangent + anchor.penalty * (anchor.tangent + anchor.w)))
    rest = 1.0 - theta
    value = rest**2 * ((1.0 + 2.0 * theta) * u[0] + theta * slopes[0])
    value += theta**2 * ((1.0 + 2.0 * rest) * u[1] - rest * slopes[1])
    return _start(S, regularization, value)


def _start(S: NDArray[np.float64], regularization: float, u: NDArray[np.float64]) -> Start | None:
    """Return the starting point w with (S + λI) w = u; None if it is not finite."""
    factor = factored(S, regularization)
    if factor is None:
        return None
    w = solved(factor, u)
    return Start(w, factor) if np.isfinite(w).all() else None
