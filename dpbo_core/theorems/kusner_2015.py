"""Kusner, Gardner, Garnett, Weinberger: Differentially Private Bayesian Optimization. ICML 2015.

Section 5, "Without the GP assumption": Algorithm 3 and what is proved about it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| m | `n_validation` | records in the validation set V | scalar ≥ 1 |
| λ_min, λ_max | `lambda_min`, `lambda_max` | ends of the regularisation path | scalar > 0 |
| L | `lipschitz` | Lipschitz constant of one record's score in w, ‖x‖₂ ≤ 1 | scalar > 0 |
| g* | `score_range` | range of one record's score (G elsewhere in this project) | scalar > 0 |
| τ | `solver_tolerance` | ‖ŵ − w_λ‖ ≤ τ for every trained model; the paper takes τ = 0 | scalar ≥ 0 |
| k | `max_records_per_person` | records that one unit owns; the paper takes k = 1 | scalar ≥ 1 |
| ℓ₀ | `initial_loss` | mean loss at w = 0: 1 for the hinge, log 2 for the logistic loss | scalar > 0 |
| ε | `epsilon` | pure differential privacy of the release | scalar > 0 |
| a | −log(`failure_probability`) | the tail parameter of Theorem 8 | scalar |
"""

import math
from typing import Literal

Calibration = Literal["published", "corrected"]


def theorem_7_sensitivity(
    *,
    n_validation: int,
    lambda_min: float,
    lambda_max: float,
    lipschitz: float,
    score_range: float,
    solver_tolerance: float,
    calibration: Calibration,
    max_records_per_person: int = 1,
    initial_loss: float = 1.0,
) -> float:
    """The most by which max_t f_V(w_{λ_t}) can move between neighbouring validation sets.

    Published: Δ = k·min(g*/m, L/(m λ_min)) + L(1/λ_min − 1/λ_max).
    Corrected: Δ = min{g*, k·R/m + L·D}, R = min(g*, 2L(B + τ)), D = min(1/λ_min − 1/λ_max, 2B) + 2τ,
    B = min(1/λ_min, √(2ℓ₀/λ_min)) ≥ ‖w_λ‖.

    Holds when: the loss is convex and 1-Lipschitz in w, O_λ is λ-strongly convex, rows satisfy ‖x‖₂ ≤ 1 and
        training never sees V (all verified by code); Assumption 2 of the paper.
    Neighbours: replace one validation record (k records of one person).
    Source: Theorem 7; the published form prints k = 1 and τ = 0.
    Erratum: the published second argument of the minimum is too small by a factor of 2, since
        |g(w; z) − g(w; z′)| can reach 2L‖w‖, and no solver returns w_λ itself.
        `tests/theorems/test_kusner_2015.py` finds the violation.

    Returns:
        Δ in units of the score.
    """
    m, k, L, G, tau = n_validation, max_records_per_person, lipschitz, score_range, solver_tolerance
    if calibration == "published":
        return k * min(G / m, L / (m * lambda_min)) + L * (1.0 / lambda_min - 1.0 / lambda_max)
    B = weight_norm_bound(lambda_min=lambda_min, initial_loss=initial_loss)
    R = min(G, 2.0 * L * (B + tau))
    D = path_length_bound(
        lambda_min=lambda_min, lambda_max=lambda_max, solver_tolerance=tau, initial_loss=initial_loss
    )
    return min(G, k * R / m + L * D)


def weight_norm_bound(*, lambda_min: float, initial_loss: float) -> float:
    """B = min(1/λ_min, √(2ℓ₀/λ_min)) ≥ ‖w_λ‖ for every λ ≥ λ_min, rounded up.

    Holds when: the loss is nonnegative and 1-Lipschitz in w. Source: λ‖w_λ‖ ≤ 1 from the gradient at the optimum;
    (λ/2)‖w_λ‖² ≤ O_λ(0) = ℓ₀ from its value.
    """
    up = 1.0 + 2.0**-50  # past the rounding of the quotients and the root
    return min(1.0 / lambda_min, math.sqrt(2.0 * initial_loss / lambda_min)) * up


def path_length_bound(
    *, lambda_min: float, lambda_max: float, solver_tolerance: float, initial_loss: float
) -> float:
    """D = min(1/λ_min − 1/λ_max, 2B) + 2τ ≥ ‖ŵ_λ − ŵ_λ′‖ for all λ, λ′ in [λ_min, λ_max].

    Holds when: as for `weight_norm_bound`, and ‖ŵ_λ − w_λ‖ ≤ τ (verified by the solver's certificate).
    Source: the proof of Theorem 7 (Chaudhuri and Vinterbo 2013, Theorem 4), with the solver's tolerance added.
    """
    B = weight_norm_bound(lambda_min=lambda_min, initial_loss=initial_loss)
    return min(1.0 / lambda_min - 1.0 / lambda_max, 2.0 * B) + 2.0 * solver_tolerance


def theorem_7_integer_sensitivity(
    *,
    n_validation: int,
    lipschitz: float,
    score_range: float,
    path_length: float,
    record_range: float,
    grid: int,
    max_records_per_person: int = 1,
) -> int:
    """Theorem 7 on exact integer sums: Δ_int = min{m·g, m(⌈g L D/G⌉ + 1) + k(⌈g R/G⌉ + 1)}, g = `grid`.

    The models of the two search paths differ, so every record's rounding counts: one step each.
    Holds when: D and R bound what they name (`path_length_bound`; R = the range of one record's score).
    Neighbours: those of Theorem 7. Source: Theorem 7, derived again for rounded scores; quotients round up.
    """
    m, k, g = n_validation, min(max_records_per_person, n_validation), grid
    up = 1.0 + 1e-12
    drift = g * lipschitz * path_length / score_range * up
    if drift >= g:
        return m * g
    moved = m * (math.ceil(drift) + 1) + k * (math.ceil(min(g, g * record_range / score_range * up)) + 1)
    return min(m * g, moved)


def corollary_4_scale(*, sensitivity: float, epsilon: float) -> float:
    """Laplace scale b = Δ/ε: f̃_L = f_BO + Lap(b) is ε-differentially private.

    Holds when: `sensitivity` bounds the query, as Theorem 7 does. Neighbours: those of Theorem 7.
    Source: Corollary 4 and Algorithm 3, line 5.
    """
    return sensitivity / epsilon


def theorem_8_error_bound(*, sensitivity: float, epsilon: float, failure_probability: float) -> float:
    """|f̃_L − f_BO| ≤ a·Δ/ε with probability at least 1 − e^{−a}, where e^{−a} = `failure_probability`.

    Holds when: the noise is Laplace at scale Δ/ε (verified by code). Neighbours: not a privacy statement.
    Source: Theorem 8.
    """
    return -math.log(failure_probability) * corollary_4_scale(sensitivity=sensitivity, epsilon=epsilon)
