"""The hinge model: a primal–dual interior-point method (Mehrotra's predictor and corrector).

minimise (λ/2)‖w‖² + (1/n) Σ ξ_i  subject to  s = Zw + ξ − 1 ≥ 0, ξ ≥ 0.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Z | `Z` | signed rows z_i = y_i x_i | (n, d) |
| w | `w` | weights | (d,) |
| ξ, s | `xi`, `s` | hinge of each row, and slack of its constraint | (n,), > 0 |
| α, β | `alpha`, `beta` | n times the multipliers of s and of ξ; α + β = 1 | (n,), > 0 |
| μ | `mu` | mean of α·s and β·ξ, which go to 0 | scalar |
| Θ | `theta` | ξ/β + s/α | (n,) |
| ρ | `rho` | right-hand side of the rows once s and ξ are eliminated | (n,) |
| τ | `tolerance` | asked bound on ‖ŵ − w_λ‖ | scalar > 0 |

At the optimum α·s = β·ξ = 0 and λw = Zᵀα/n. Each iteration factors the d×d matrix λI + (1/n) Zᵀ Θ⁻¹ Z once and
solves with it twice.
Source: Mehrotra, SIAM J. Optim. 2 (1992); the elimination, Ferris and Munson, SIAM J. Optim. 13 (2002).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.linear.fast_exact_scores import SignedRows
from dpbo_core.models.linear.losses import gap_certificate, hessian

_MAX_STEPS = 200
_CENTRING_SHARE = 1e-3  # share of μ below which a row's product asks for a step towards the centre
_JITTERS = (0.0, 1e-15, 1e-13, 1e-11)  # of the matrix's trace, where rounding has cost it its definiteness


@dataclass(frozen=True)
class _Point:
    w: NDArray[np.float64]
    xi: NDArray[np.float64]
    s: NDArray[np.float64]
    alpha: NDArray[np.float64]
    beta: NDArray[np.float64]

    @property
    def mu(self) -> float:
        """The duality measure μ: the mean complementarity product of slacks and multipliers."""
        return float(self.alpha @ self.s + self.beta @ self.xi) / (2 * len(self.s))

    def moved(self, by: "_Point", length: float) -> "_Point":
        """Return the point reached by going `length` times the step `by` from this one."""
        return _Point(**{name: value + length * vars(by)[name] for name, value in vars(self).items()})

    def room(self, by: "_Point") -> float:
        """Return the largest multiple of the step `by` that keeps ξ, s, α, β ≥ 0; ∞ if unbounded."""
        pairs = ((self.xi, by.xi), (self.s, by.s), (self.alpha, by.alpha), (self.beta, by.beta))
        worst = max(float(np.max(-d / v)) for v, d in pairs)
        return 1.0 / worst if worst > 0.0 else math.inf

    @property
    def inside(self) -> bool:
        """Whether all slacks and multipliers are positive and the weights finite."""
        lowest = min(float(v.min()) for v in (self.xi, self.s, self.alpha, self.beta))
        return lowest > 0.0 and bool(np.all(np.isfinite(self.w)))


def minimise_hinge(rows: SignedRows, regularization: float, tolerance: float) -> tuple[NDArray[np.float64], float]:
    """Return the best weights found, (d,), and their certificate τ_λ, which is above `tolerance` if that failed."""
    Z, r = rows.Z, rows.norm
    n, d = Z.shape
    # w = 0 with s = ξ − 1, and αs = βξ on every row: a feasible, perfectly centred start
    at = _Point(np.zeros(d), np.full(n, 2.0), np.full(n, 1.0), np.full(n, 2.0 / 3.0), np.full(n, 1.0 / 3.0))
    best, best_certificate = at.w, math.inf
    for _ in range(_MAX_STEPS):
        certificate = gap_certificate(Z, at.w, at.alpha, regularization=regularization, row_norm=r)
        if certificate < best_certificate:
            best, best_certificate = at.w, certificate
        if certificate <= tolerance:
            break
        following = _iterate(Z, at, regularization)
        if following is None:
            break
        at = following
    return best, best_certificate


def _iterate(Z: NDArray[np.float64], at: _Point, regularization: float) -> _Point | None:
    """Return the point after one predictor and corrector step from `at`; None if rounding leaves no step to take.

    The predictor aims at μ = 0. How far it can go sets the corrector's target for μ (Mehrotra's cube rule).
    """
    n = len(Z)
    theta = at.xi / at.beta + at.s / at.alpha
    solve = _factor(hessian(Z, 1.0 / theta, regularization))
    if solve is None:
        return None
    dual_residual = regularization * at.w - Z.T @ at.alpha / n
    row_residual = Z @ at.w + at.xi - 1.0 - at.s

    def direction(s_target: NDArray[np.float64], xi_target: NDArray[np.float64]) -> _Point:
        """Return the step with α ds + s dα = s_target, β dξ − ξ dα = xi_target and both residuals removed."""
        rho = s_target / at.alpha - xi_target / at.beta - row_residual
        dw = solve(Z.T @ (rho / theta) / n - dual_residual)
        d_alpha = (rho - Z @ dw) / theta
        return _Point(
            dw, (xi_target + at.xi * d_alpha) / at.beta, (s_target - at.s * d_alpha) / at.alpha, d_alpha, -d_alpha
        )

    predictor = direction(-at.alpha * at.s, -at.beta * at.xi)
    reach = min(1.0, at.room(predictor))
    target = at.mu * (at.moved(predictor, reach).mu / at.mu) ** 3
    trust = reach**2  # of the second-order term: in full, Mehrotra's corrector can cycle for ever
    if min(float((at.alpha * at.s).min()), float((at.beta * at.xi).min())) < _CENTRING_SHARE * at.mu:
        target, trust = max(target, 0.5 * at.mu), 0.0
    step = direction(
        target - at.alpha * at.s - trust * predictor.alpha * predictor.s,
        target - at.beta * at.xi - trust * predictor.beta * predictor.xi,
    )
    after = at.moved(step, min(1.0, max(0.995, 1.0 - at.mu) * at.room(step)))
    return after if after.inside else None


def _factor(matrix: NDArray[np.float64]) -> Callable[[NDArray[np.float64]], NDArray[np.float64]] | None:
    """Return a function b (d,) → matrix⁻¹b for a positive definite matrix; None if it is not one, even jittered."""
    from scipy.linalg import cho_factor, cho_solve

    for jitter in _JITTERS:
        try:
            factor = cho_factor(matrix + jitter * np.trace(matrix) * np.eye(len(matrix)))
        except (np.linalg.LinAlgError, ValueError):  # not definite, or not finite
            continue
        return lambda v: np.asarray(cho_solve(factor, v))
    return None
