"""Starts for the logistic models of one training set: near every w_λ, and a function of λ and the rows alone.

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

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.linear.newton import Start, curvature, descend, factored, solved, visit
from dpbo_core.models.linear.signed_rows import SignedRows

_FEW = 128  # features up to which anchors stand closer: a curvature costs about d/16 visits to the rows
_SMALLEST = 1e-24  # of λ_0: no smaller λ has an anchor of its own
_NEAR = 1e-5  # gradient of an anchor, as a share of the gradient at w = 0
LARGEST = 1024  # features beyond which the anchors' matrices would take more memory than they save time


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
        self._ratio = 4.0 if d <= _FEW else 8.0
        self._last = math.ceil(-math.log(_SMALLEST, self._ratio))
        self._anchors: list[_Anchor] = []

    def start(self, regularization: float) -> Start | None:
        """The starting point of Newton's descent at λ > 0; None where rounding leaves none."""
        with np.errstate(all="ignore"):
            largest = float(np.trace(self._flat))
            if regularization >= largest:
                return self._first(regularization)
            place = math.log(largest / regularization, self._ratio)
            j = min(int(place), self._last - 1)
            above, below = self._anchor(j), self._anchor(j + 1)
            if above is None or below is None:
                return None
            return _between(above, below, min(place - j, 1.0), regularization)

    def _first(self, regularization: float) -> Start | None:
        """The Newton step from w = 0, the model of λ = ∞."""
        return _start(self._flat, regularization, self._pull)

    def _anchor(self, j: int) -> _Anchor | None:
        """Anchor j of the regularisation path, made from the one before; None if rounding stops the chain."""
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
        enough = _NEAR * float(np.linalg.norm(self._pull)) / penalty
        place, _ = descend(self._rows, penalty, enough, start)
        S = curvature(self._rows, place)
        towards = _start(S, penalty, -penalty * place.w)
        return None if towards is None else _Anchor(penalty, place.w, towards.w, S)


def _between(above: _Anchor, below: _Anchor, theta: float, regularization: float) -> Start | None:
    """The starting point at λ, a share θ of the way down from one anchor to the next."""
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
    """The starting point w with (S + λI) w = u; None where it is not finite."""
    factor = factored(S, regularization)
    if factor is None:
        return None
    w = solved(factor, u)
    return Start(w, factor) if np.isfinite(w).all() else None
