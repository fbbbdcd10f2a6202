"""Canonne, Kamath, Steinke: The Discrete Gaussian for Differential Privacy. NeurIPS 2020.

Numbers as in arXiv 2004.00010v5.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ρ | `rho` | zero-concentrated differential privacy | scalar ≥ 0 |
| — | `cost` | a Rényi divergence at order α | scalar ≥ 0 |
| ε, δ | `epsilon`, `delta` | approximate differential privacy | scalar > 0, in (0, 1) |
| α | `alpha` | Rényi order, free: every α > 1 gives a valid bound | scalar > 1 |
| Δ | `sensitivity` | most the integer query moves | scalar > 0 |
| σ | — | parameter of the discrete Gaussian N_ℤ(0, σ²) | scalar > 0 |
"""

import math
from collections.abc import Callable

_ROUNDING = 1e-12  # far above the error of a dozen double operations; always applied towards privacy


def proposition_12_epsilon(*, rho: float, delta: float) -> float:
    """Return the smallest ε for which ρ-zCDP implies (ε, δ)-DP by Proposition 12, rounded up; ∞ at δ = 0 < ρ.

    ε = inf_{α>1} αρ + log(1 − 1/α) − log(αδ)/(α − 1), at least 0.

    Holds when: the mechanism is ρ-zCDP. Neighbours: those of ρ. Source: Proposition 12 with τ = αρ
    (Corollary 13). Any α is valid, so an inexact minimum costs accuracy and never privacy.
    """
    return proposition_12_converted(lambda alpha: alpha * rho, delta=delta)[0] if rho > 0.0 else 0.0


def proposition_12_converted(cost: Callable[[float], float], *, delta: float) -> tuple[float, float]:
    """Return the smallest ε at δ of a mechanism with this Rényi cost, rounded up, and the order that gives it.

    ε = inf_{α>1} cost(α) + log(1 − 1/α) − log(αδ)/(α − 1), at least 0; infinite, at α = ∞, where δ = 0.

    Args:
        cost: the Rényi divergence at order α is at most cost(α), for every α > 1.
        delta: δ in [0, 1).

    Source: Proposition 12. Any α is valid, so an inexact minimum costs accuracy and never privacy.
    """
    if delta == 0.0:
        return math.inf, math.inf
    at, least = _golden_section_minimum(
        lambda x: _converted(math.exp(x), cost(1.0 + math.exp(x)), delta), -20.0, 45.0
    )
    return max(0.0, least + _ROUNDING * (1.0 + abs(least))), 1.0 + math.exp(at)


def proposition_12_cost(*, alpha: float, epsilon: float, delta: float) -> float:
    """The largest Rényi cost at the one order α that gives (ε, δ) by Proposition 12, rounded down; at least 0."""
    most = epsilon - _converted(alpha - 1.0, 0.0, delta)
    return max(0.0, most - _ROUNDING * (1.0 + abs(epsilon) + abs(most)))


def proposition_12_worth(*, alpha: float, cost: float, delta: float) -> float:
    """Return the ε at δ of a Rényi cost at the one order α, by Proposition 12, rounded up; at least 0."""
    epsilon = _converted(alpha - 1.0, cost, delta)
    return max(0.0, epsilon + _ROUNDING * (1.0 + abs(cost) + abs(epsilon)))


def _converted(excess: float, cost: float, delta: float) -> float:
    """Return the ε of a Rényi `cost` at order α = 1 + `excess`: cost + log(1 − 1/α) − log(αδ)/(α − 1)."""
    alpha = 1.0 + excess
    return cost + math.log(excess / alpha) - math.log(alpha * delta) / excess


def proposition_12_rho(*, epsilon: float, delta: float) -> float:
    """Return the largest ρ whose `proposition_12_epsilon` at δ is at most ε, rounded down; 0 at δ = 0 or ε = 0.

    Source: the inverse of Proposition 12, by bisection. The returned ρ always satisfies
    proposition_12_epsilon(rho=ρ, delta=δ) ≤ ε.
    """
    if delta == 0.0 or epsilon <= 0.0:
        return 0.0
    low, high = 0.0, epsilon  # ρ-zCDP at ρ = ε already costs more than ε at every δ < 1 that is of use
    while proposition_12_epsilon(rho=high, delta=delta) <= epsilon:
        high *= 2.0
    while True:
        middle = 0.5 * (low + high)
        if middle in (low, high):
            return low
        if proposition_12_epsilon(rho=middle, delta=delta) <= epsilon:
            low = middle
        else:
            high = middle


def theorem_14_sigma(*, rho: float, sensitivity: float) -> float:
    """Return the σ = Δ/√(2ρ), rounded up, at which adding N_ℤ(0, σ²) to an integer query is ρ-zCDP.

    Source: Theorem 14 (multivariate; here one coordinate, Theorem 4).
    """
    return sensitivity / math.sqrt(2.0 * rho) * (1.0 + _ROUNDING)


def _golden_section_minimum(function: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return where a unimodal function on [low, high] is least, and its value there, as (place, value)."""
    ratio = (math.sqrt(5.0) - 1.0) / 2.0
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    fa, fb = function(a), function(b)
    least = min((fa, a), (fb, b))
    for _ in range(100):
        if fa <= fb:
            high, b, fb = b, a, fa
            a = high - ratio * (high - low)
            fa = function(a)
        else:
            low, a, fa = a, b, fb
            b = low + ratio * (high - low)
            fb = function(b)
        least = min(least, (fa, a), (fb, b))
    return float(least[1]), float(least[0])
