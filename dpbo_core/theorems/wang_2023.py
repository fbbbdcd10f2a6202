"""Wang, Gao, Zhang, Su, Shen: DP-HyPO, An Adaptive Private Hyperparameter Optimization Framework. NeurIPS 2023.

Numbers as in arXiv 2306.05734v2. K trials (the paper's T), K hidden; trial j draws λ from an adaptive density
π_j with c ≤ π_j/π₀ ≤ C and runs the private M_λ, which gives (x, q); the best (x, q) alone leaves.

| symbol | name here | meaning | shape |
|---|---|---|---|
| θ (η) | `shape` | shape of K's truncated negative binomial | scalar > −1 |
| γ | `gamma` | its other parameter | scalar in (0, 1) |
| c, C | `lower`, `upper` | bounds on π_j/π₀ | scalars, 0 < c ≤ 1 ≤ C |
| α, α̂ | `alpha`, `alpha_hat` | Rényi orders, the second one free | scalars > 1, ≥ 1 |
| ε, ε̂ | `base_epsilon`, `base_epsilon_hat` | sup over λ of a trial's cost, (x, q) together, at α, α̂ | scalars ≥ 0 |
| ε′ | result | Rényi cost of the whole at α | scalar |

The tightened form (`calibration="corrected"`). Write M = π₀·M_λ(D) and M′ = π₀·M_λ(D′). Whatever the adaptive
densities, Pr[trial = y | past] ≤ C·M(y) on D and ≥ c·M′(y) on D′. With P₊, P′₋ the pointwise bounds, a = P₊(<y),
b = P₊(≤y): A(y) ≤ P₊(y)·Σ_k p_k Σ_i aⁱ⁻¹bᵏ⁻ⁱ = P₊(y)·E[f′(X)], X uniform on [a, b]; likewise
A′(y) ≥ P′₋(y)·E[f′(X′)]. (Step A.12, b − a = P₊(y), is an inequality and is not needed.) Then
Σ P₊^α P′₋^{1−α} ≤ C^α c^{1−α} e^{(α−1)ε}, which costs α/(α−1) log C + log(1/c); and in
f′(X)^α f′(X′)^{1−α} one has 1−X ≥ c·r, 1−X′ ≤ C·r′ for one event of probability r under M, r′ under M′, which
costs (1+θ)(log C + (1−1/α̂) log(1/c)).

Erratum: section 4.2.1 compares the two samplers "under the same total privacy budget". By Theorem 1 as printed, at
the noise multipliers of Appendix E, the Gaussian process is given more at every γ of Table 1 (10.31 and 9.44 at
γ = 0.03), and the ε = 12 stated for CIFAR-10 is exceeded at every one of them, by both.
"""

import math
from collections.abc import Callable, Iterable
from typing import Literal

from dpbo_core.theorems.papernot_steinke_2022 import negative_binomial_mean

Calibration = Literal["published", "corrected"]


def theorem_1_renyi(
    *,
    alpha: float,
    base_epsilon: float,
    alpha_hat: float,
    base_epsilon_hat: float,
    shape: float,
    gamma: float,
    lower: float,
    upper: float,
    calibration: Calibration,
) -> float:
    """Return the Rényi cost ε′ at α of adaptive selection among K ~ NegBin(θ, γ) trials, as published or tightened.

    Published: ε′ = ε + (1+θ)(1−1/α̂)ε̂ + (α/(α−1) + 1+θ) log(C/c) + (1+θ) log(1/γ)/α̂ + log E[K]/(α−1).
    Corrected (tightened): α/(α−1) log(C/c) becomes α/(α−1) log C + log(1/c), and (1+θ) log(C/c) becomes
    (1+θ)(log C + (1−1/α̂) log(1/c)).

    Holds when: every M_λ is (α, ε)- and (α̂, ε̂)-RDP, K is independent of the data and stays hidden.
    Neighbours: those of M_λ. Source: Theorem 1. `terms_in_alpha` and `terms_in_alpha_hat` are its two halves.
    """
    _check_bounds(lower, upper)
    log_mean = math.log(negative_binomial_mean(shape=shape, gamma=gamma))
    bounds = (lower, upper)
    return terms_in_alpha(
        alpha=alpha, base_epsilon=base_epsilon, log_mean=log_mean, bounds=bounds, calibration=calibration
    ) + terms_in_alpha_hat(
        alpha_hat=alpha_hat,
        base_epsilon_hat=base_epsilon_hat,
        shape=shape,
        gamma=gamma,
        bounds=bounds,
        calibration=calibration,
    )


def terms_in_alpha(
    *, alpha: float, base_epsilon: float, log_mean: float, bounds: tuple[float, float], calibration: Calibration
) -> float:
    """Terms in α of Theorem 1's ε′: ε + α/(α−1) log(C/c) (corrected: α/(α−1) log C − log c) + log E[K]/(α−1).

    Source: `theorem_1_renyi`; `bounds` are (c, C).
    """
    log_c, log_C = math.log(1.0 / bounds[0]), math.log(bounds[1])
    each = alpha / (alpha - 1.0)
    ratio = each * (log_C + log_c) if calibration == "published" else each * log_C + log_c
    return base_epsilon + ratio + log_mean / (alpha - 1.0)


def terms_in_alpha_hat(
    *,
    alpha_hat: float,
    base_epsilon_hat: float,
    shape: float,
    gamma: float,
    bounds: tuple[float, float],
    calibration: Calibration,
) -> float:
    """Terms in α̂ of Theorem 1's ε′: (1+θ)((1−1/α̂)ε̂ + log(C/c) − log γ/α̂); corrected: log C − (1−1/α̂) log c.

    α and α̂ can be optimised one by one; `bounds` are (c, C).
    """
    log_c, log_C = math.log(1.0 / bounds[0]), math.log(bounds[1])
    rest = 1.0 - 1.0 / alpha_hat
    ratio = log_C + log_c if calibration == "published" else log_C + rest * log_c
    return (1.0 + shape) * (rest * base_epsilon_hat + ratio - math.log(gamma) / alpha_hat)


def theorem_2_epsilon(*, base_epsilon: float, shape: float, lower: float, upper: float) -> float:
    """The pure ε of the whole selection when every trial is ε-DP: ε′ = (2+θ)(ε + log(C/c)). Source: Theorem 2."""
    _check_bounds(lower, upper)
    return (2.0 + shape) * (base_epsilon + math.log(upper / lower))


def best_epsilon(renyi: Callable[[float], float], orders: Iterable[float], *, delta: float) -> float:
    """The least ε at δ > 0 over orders α: renyi(α) + log(1−1/α) − log(δα)/(α−1), at least 0; ∞ if none is finite.

    Source: Canonne, Kamath, Steinke (2020), Proposition 12. Any order is valid, so a coarse grid costs accuracy and
    never privacy. Rounded up past the error of the arithmetic.
    """
    best = min(
        (renyi(alpha) + math.log1p(-1.0 / alpha) - math.log(delta * alpha) / (alpha - 1.0) for alpha in orders),
        default=math.inf,
    )
    return max(0.0, best + 1e-12 * (1.0 + abs(best))) if math.isfinite(best) else math.inf


def _check_bounds(lower: float, upper: float) -> None:
    if not (0.0 < lower <= 1.0 <= upper < math.inf):
        raise ValueError("0 < c ≤ 1 ≤ C")
