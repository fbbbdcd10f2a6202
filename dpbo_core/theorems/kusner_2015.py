"""Kusner, Gardner, Garnett, Weinberger: Differentially Private Bayesian Optimization. ICML 2015.

Sections 3 and 4: what Algorithms 1 and 2 guarantee if f_V and f_V′ are draws of one multi-task Gaussian process.
Section 5: Algorithm 3, which needs no such prior.

Erratum: Definition 1 (and the authors' slides) compares the probabilities of single outcomes. Differential privacy
compares those of sets of outcomes: publishing V beside 20 random bits meets the definition as printed at (0, 2⁻²⁰),
and so does, at (0, 0), any score with continuous noise, however little (Corollary 2). In this file "(ε, δ)-private"
is said of sets.

| symbol | name here | meaning | shape |
|---|---|---|---|
| |Λ|, N | `n_candidates` | the finite candidate set's size | scalar ≥ 1 |
| T | `n_steps` | evaluations, fixed in advance | scalar ≥ 1 |
| δ | `delta` | failure probability, over the DRAW OF f: not the δ of differential privacy | scalar in (0, 1) |
| k₁(V, V′) | `dataset_similarity` | prior correlation of f_V and f_V′ for neighbours | scalar in [0, 1] |
| σ² | `noise_variance` | variance of the noise drawn onto each observation | scalar > 0 |
| γ_T | `information_gain` | an upper bound on the maximum information gain | scalar ≥ 0 |
| c | `similarity_bound` | |f_V(λ) − f_V′(λ)| ≤ c at every λ | scalar |
| — | `score_change` | a bound on the same difference that needs no prior: k·G/m, mapped | scalar, ∞ for none |
| A, τ, d | `rate_constant`, `decay_constant`, `dimension` | of de Freitas et al. (2012), Theorem 2 | scalar > 0 |
| m | `n_validation` | records in the validation set V | scalar ≥ 1 |
| λ_min, λ_max | `lambda_min`, `lambda_max` | ends of the regularisation path | scalar > 0 |
| L | `lipschitz` | Lipschitz constant of one record's score in w, ‖x‖₂ ≤ 1 | scalar > 0 |
| r₀ | `range_at_zero` | range of g(0; ·) over all records: 0 for a score of the margin | scalar in [0, g*] |
| g* | `score_range` | range of one record's score (G elsewhere in this project) | scalar > 0 |
| τ | `solver_tolerance` | ‖ŵ − w_λ‖ ≤ τ for every trained model; the paper takes τ = 0 | scalar ≥ 0 |
| k | `max_records_per_person` | records that one unit owns; the paper takes k = 1 | scalar ≥ 1 |
| ℓ₀ | `initial_loss` | mean loss at w = 0: 1 for the hinge, log 2 for the logistic loss | scalar > 0 |
| ε | `epsilon` | pure differential privacy of the release | scalar > 0 |
| a | −log(`failure_probability`) | the tail parameter of Theorem 8 | scalar |
"""

import math
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.theorems import srinivas_2010

Calibration = Literal["published", "corrected"]
_SUMMED = 2_000  # times whose tails are summed one by one
_ROUND_UP = 1.0 + 2.0**-44  # past the rounding of the sums and roots below: a sensitivity is never rounded down


def similarity_bound(
    *, n_events: float, delta: float, dataset_similarity: float, score_change: float = math.inf
) -> float:
    """The bound min(2√((1−k₁) log(n/δ)), `score_change`) on |f_V − f_V′|, but for a chance Nδ/n; n = `n_events`.

    The difference is N(0, 2(1 − k₁)), so one λ exceeds 2√((1 − k₁)x) with probability at most 2·½e^{−x}; `n_events`
    is N times the number of parts that δ is divided into.
    Holds when: Assumption 1 with known k₁ (taken on by the caller); `score_change` holds without it.
    Source: the proof of Theorem 1; Algorithm 1, line 9.
    """
    return min(2.0 * math.sqrt((1.0 - dataset_similarity) * math.log(n_events / delta)) * _ROUND_UP, score_change)


def theorem_1_sensitivity(
    *,
    n_candidates: int,
    n_steps: int,
    delta: float,
    dataset_similarity: float,
    calibration: Calibration,
    score_change: float = math.inf,
) -> float:
    """Sensitivity Δ, published or corrected, of the posterior mean: |μ_T − μ′_T| ≤ Δ on Λ with probability 1 − δ.

    Published: Δ = 2√β_{T+1} + c, β_t = 2 log(N t² π²/(3δ)), c = 2√((1 − k₁) log(3N/δ)).
    Corrected (tightened): Δ = 2√(2 log(3N/δ)) + c: the posterior at time T alone is released, so no union over t is
    due, and δ/3 pays for each of V, V′ and c.

    Holds when: f_V, f_V′ are draws of the multi-task prior of Assumption 1, k₂(λ, λ) = 1 (taken on by the caller).
    Neighbours: those whose prior correlation is k₁. Source: Theorem 1. Erratum: the printed proof spends δ/2 + δ/2
    + δ/3 = 4δ/3, since its β is Lemma 5.1's at δ/2 and not δ/3; the statement is true, and larger than needed,
    because one time costs little of what that lemma spends on all of them.

    Returns:
        Δ in prior standard deviations.
    """
    N, c = (
        n_candidates,
        similarity_bound(
            n_events=3.0 * n_candidates,
            delta=delta,
            dataset_similarity=dataset_similarity,
            score_change=math.inf if calibration == "published" else score_change,
        ),
    )
    if calibration == "published":
        return (
            2.0 * math.sqrt(srinivas_2010.beta(n_candidates=N, step=n_steps + 1, delta=delta / 2.0)) + c
        ) * _ROUND_UP
    return (2.0 * math.sqrt(2.0 * math.log(3.0 * N / delta)) + c) * _ROUND_UP


def corollary_1_weights(
    *, utilities: NDArray[np.float64], sensitivity: float, epsilon: float
) -> NDArray[np.float64]:
    """Return the probabilities of an (ε, δ)-private choice, Pr[λ̃ = λ] ∝ exp(ε μ_T(λ)/(2Δ)), shape (N,).

    Holds when: `sensitivity` bounds every utility's move, as Theorem 1 does. Source: Corollary 1, Algorithm 1, line
    12.
    """
    exponents = epsilon * (utilities - utilities.max()) / (2.0 * sensitivity)
    weights = np.exp(exponents)
    return np.asarray(weights / weights.sum())


def theorem_2_utility_bound(
    *, n_candidates: int, sensitivity: float, epsilon: float, failure_probability: float
) -> float:
    """The choice's loss: max μ_T − μ_T(λ̃) ≤ (2Δ/ε)(log N + a), but for a chance e^{−a} = `failure_probability`.

    Holds when: λ̃ is drawn by `corollary_1_weights` (verified by code). Source: Theorem 2, equation (5), whose
    further δ is that of Theorem 1 and is not needed for utility.
    """
    a = -math.log(failure_probability)
    return 2.0 * sensitivity / epsilon * (math.log(n_candidates) + a)


def theorem_3_sensitivity(
    *,
    n_candidates: int,
    n_steps: int,
    delta: float,
    dataset_similarity: float,
    noise_variance: float,
    information_gain: float,
    calibration: Calibration,
    score_change: float = math.inf,
) -> float:
    """The sensitivity Δ of the best observation max_t v_t, as published or, with probability 1 − δ, as corrected.

    Δ = √(C₁ β_T γ_T/T) + c + q, C₁ = 8/log(1 + σ⁻²).
    Published: β_t = 2 log(N t² π²/(3δ)), c = 2√((1 − k₁) log(3N/δ)), q = σ√(8 log(3/δ)).
    Corrected: β_t = 2 log(5N t² π²/(6δ)), c = 2√((1 − k₁) log(5N/δ)), q = √2·σ·Φ̄⁻¹(δ/(5T)).

    Holds when: Assumption 1 (taken on by the caller); the acquisition is UCB with at least this β_t, and noise
        N(0, σ²) is drawn onto every observation (verified by code).
    Neighbours: those whose prior correlation is k₁. Source: Theorem 3.
    Erratum: of the proof. It counts δ/3 for each of three events "with appropriate choice of β_T"; with Algorithm
        1's β_t it spends δ/2 + δ/2 (regret on V and V′) + δ/3 (c) + δ/3 (q) = 5δ/3. Its q bounds the noise at an
        index CHOSEN BY THE DATA by one Gaussian tail, where a union over T is due. The statement as printed is true
        for T ≤ `theorem_3_longest_search`; beyond that it is unproved.

    Returns:
        Δ in prior standard deviations.
    """
    omega_over_t = average_regret(
        n_candidates=n_candidates,
        n_steps=n_steps,
        delta=delta,
        noise_variance=noise_variance,
        information_gain=information_gain,
        calibration=calibration,
    )
    c = similarity_bound(
        n_events=(3.0 if calibration == "published" else 5.0) * n_candidates,
        delta=delta,
        dataset_similarity=dataset_similarity,
        score_change=math.inf if calibration == "published" else score_change,
    )
    q = noise_bound(n_steps=n_steps, delta=delta, noise_variance=noise_variance, calibration=calibration)
    return (omega_over_t + c + q) * _ROUND_UP


def theorem_3_longest_search(*, n_candidates: int, delta: float) -> int:
    """The largest T at which Theorem 3 is proved as printed: 333 for N = 64 and δ = 0.1; 6.7 million at δ = 1e-5.

    On V's regret event the first t₀ with f* − f(λ_{t₀}) ≤ Ω/T exists, and {t₀ = t} is determined by f and the
    observations before t: the noise Z at t₀ is one plain N(0, σ²). So max v′ − max v ≤ c + Ω/T + (M′ − Z), M′ the
    largest of T normals, and M′ − Z exceeds q with probability T·Φ̄(q/(√2σ)) at most. Both directions are within δ
    if 2T·Φ̄(2√log(3/δ)) + 2R_T + c_δ ≤ δ, by exact normal tails: R_T = Σ_t 2N·Φ̄(√β_t), c_δ = 2N·Φ̄(√(2 log(3N/δ))).
    Both tails of every candidate are counted. The regret needs the upper tails and that of the chosen candidate, so
    T may be larger: for N = 1 and δ = 0.9 this gives 16, one tail a candidate 22, and the exact law more.

    Holds when: as for `theorem_3_sensitivity` as published. Source: ours, for Theorem 3.

    Returns:
        T ≥ 0.
    """
    N, noise = n_candidates, 2.0 * _tail(2.0 * math.sqrt(math.log(3.0 / delta)))
    left = delta - 2.0 * N * _tail(math.sqrt(2.0 * math.log(3.0 * N / delta)))
    for t in range(1, _SUMMED + 1):
        left -= 4.0 * N * _tail(math.sqrt(_printed_beta(N, t, delta)))
        if t * noise > left:
            return t - 1
    # of all later times: Φ̄(x) ≤ e^{−x²/2}/(x√(2π)), and e^{−β_t/2} = 3δ/(N t² π²), which sums to less than 1/t
    x = math.sqrt(_printed_beta(N, _SUMMED, delta))
    left -= 4.0 * N * 3.0 * delta / (N * math.pi**2) / (x * math.sqrt(2.0 * math.pi)) / _SUMMED
    return max(_SUMMED, math.floor(left / noise))


def _tail(x: float) -> float:
    """Φ̄(x), the probability that a standard normal exceeds x."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def _printed_beta(n_candidates: int, step: int, delta: float) -> float:
    return theorem_3_beta(n_candidates=n_candidates, step=step, delta=delta, calibration="published")


def theorem_3_beta(*, n_candidates: int, step: int, delta: float, calibration: Calibration) -> float:
    """Return the weight β_t of Algorithm 1's UCB: 2 log(N t² π²/(3δ)) as published, 2 log(5N t² π²/(6δ)) corrected.

    Source: Algorithm 1, line 4: Srinivas et al. (2010) at δ/2, and at δ/5 for each of five events.
    """
    parts = 2.0 if calibration == "published" else 5.0
    return srinivas_2010.beta(n_candidates=n_candidates, step=step, delta=delta / parts)


def noise_bound(*, n_steps: int, delta: float, noise_variance: float, calibration: Calibration) -> float:
    """Bound q on how far apart neighbours' best noises are, as published or, but for a chance 2δ/5, as corrected.

    Published: σ√(8 log(3/δ)). Corrected: √2·σ·Φ̄⁻¹(δ/(5T)): the largest of T noises less one that does not depend
    on them (`theorem_3_longest_search` says why), a union over T, δ/5 for each side.
    Source: the proof of Theorem 3; Algorithm 1, line 10.
    """
    sigma = math.sqrt(noise_variance)
    if calibration == "published":
        return sigma * math.sqrt(8.0 * math.log(3.0 / delta)) * _ROUND_UP
    return -math.sqrt(2.0) * sigma * NormalDist().inv_cdf(delta / (5.0 * n_steps)) * (1.0 + 1e-12)


def average_regret(
    *,
    n_candidates: int,
    n_steps: int,
    delta: float,
    noise_variance: float,
    information_gain: float,
    calibration: Calibration,
) -> float:
    """The bound Ω/T = √(C₁ β_T γ_T/T) on Algorithm 1's average regret, but for a chance δ/5 (published: δ/2).

    Holds when: Assumption 1 (taken on by the caller). Not a privacy statement. Source: the proof of Theorem 3.
    """
    C1 = srinivas_2010.regret_constant(noise_variance=noise_variance)  # Alg. 1, line 11
    beta = theorem_3_beta(n_candidates=n_candidates, step=n_steps, delta=delta, calibration=calibration)
    return math.sqrt(C1 * beta * information_gain / n_steps)


def corollary_2_scale(*, sensitivity: float, epsilon: float) -> float:
    """The Laplace scale b = Δ/ε at which ṽ = max_t v_t + Lap(b) is (ε, δ)-private; ṽ and λ̃ together (2ε, 2δ).

    Holds when: `sensitivity` bounds max_t v_t, as Theorem 3 does. Source: Corollary 2 and Algorithm 1, line 14.
    Erratum: as printed it compares Pr[A(V) = ṽ] with Pr[A(V′) = ṽ], which are both 0.
    """
    return sensitivity / epsilon


def theorem_4_noise_bound(*, n_steps: int, delta: float, noise_variance: float, calibration: Calibration) -> float:
    """The bound q₁ on the noise of the best observation, as published or, but for a chance δ/5, as corrected.

    Published: σ√(8 log(1/δ)). Corrected: σ√(2 log(5T/δ)), the union over T; one noise, not two.
    Source: the proof of Theorem 4.
    Erratum: the published q₁ is a bound on one noise, and the best observation is the data's choice among T; with
        |Λ| = 1, T = 2,000, σ² = 10⁴ and δ = 0.3 the statement fails with probability 0.73.
    """
    sigma = math.sqrt(noise_variance)
    if calibration == "published":
        return sigma * math.sqrt(8.0 * math.log(1.0 / delta))
    return sigma * math.sqrt(2.0 * math.log(5.0 * n_steps / delta))


def theorem_4_error_bound(*, noise: float, regret: float, scale: float, failure_probability: float) -> float:
    """Return the error |ṽ − f(λ*)| ≤ q₁ + Ω/T + a·Δ/ε, but for a chance δ + e^{−a}; e^{−a} = `failure_probability`.

    Holds when: Assumption 1 (taken on by the caller); `noise` is q₁ (`theorem_4_noise_bound`), `regret` is Ω/T
        (`average_regret`) and `scale` is Δ/ε (`corollary_2_scale`), of one δ. Not a privacy statement.
    Source: Theorem 4. Erratum: that of q₁.
    """
    return noise + regret - math.log(failure_probability) * scale


def theorem_5_rate(*, n_steps: int, dimension: int, rate_constant: float, decay_constant: float) -> float:
    """How far the T-th sample of branch and bound is from the maximum: A·e^{−Tτ/(log T)^{d/4}}; unchecked: T ≥ 2.

    Holds when: A and τ are those of this f (they depend on its curvature and gap: taken on by the caller).
    Source: de Freitas, Smola and Zoghi (2012), Theorem 2.
    """
    return rate_constant * math.exp(-n_steps * decay_constant / math.log(n_steps) ** (dimension / 4.0))


def theorem_5_sensitivity(
    *,
    n_candidates: int,
    n_steps: int,
    delta: float,
    dataset_similarity: float,
    dimension: int,
    rate_constant: float,
    decay_constant: float,
    score_change: float = math.inf,
) -> float:
    """Sensitivity Δ = A·e^{−Tτ/(log T)^{d/4}} + c of f(λ_T), c = 2√((1 − k₁) log(2N/δ)), with probability 1 − δ.

    Holds when: Assumption 1, and the constants of de Freitas et al. for BOTH f and f′ (all taken on by the caller,
        who must state them without looking at the data); T ≥ 2.
    Neighbours: those whose prior correlation is k₁. Source: Theorem 5. Erratum: Corollary 3 asks for A and τ of f
        alone, and then the search on f′ may be anywhere; `tests/theorems/test_kusner_2015_errata.py` counts it. And
        nothing can estimate A and τ.

    Returns:
        Δ in prior standard deviations.
    """
    rate = theorem_5_rate(
        n_steps=n_steps, dimension=dimension, rate_constant=rate_constant, decay_constant=decay_constant
    )
    c = similarity_bound(
        n_events=2.0 * n_candidates, delta=delta, dataset_similarity=dataset_similarity, score_change=score_change
    )
    return (rate + c) * _ROUND_UP


def corollary_3_scale(*, sensitivity: float, epsilon: float) -> float:
    """Return the Laplace scale b = Δ/ε at which f̃ = f_V(λ_T) + Lap(b) is (ε, δ)-private.

    Holds when: `sensitivity` bounds the query, as Theorem 5 does. Source: Corollary 3 and Algorithm 2.
    """
    return sensitivity / epsilon


def theorem_6_error_bound(*, rate: float, sensitivity: float, epsilon: float, failure_probability: float) -> float:
    """Return the released score's error: |f̃ − f(λ*)| ≤ Ω + a·Δ/ε, Ω = `rate`, with probability 1 − (δ + e^{−a}).

    Holds when: as for Theorem 5. Not a privacy statement. Source: Theorem 6, Δ = Ω + c.
    """
    return rate - math.log(failure_probability) * corollary_3_scale(sensitivity=sensitivity, epsilon=epsilon)


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
    range_at_zero: float = 0.0,
) -> float:
    """The most that max_t f_V(w_{λ_t}) moves between neighbouring validation sets, as published or as corrected.

    Published: Δ = k·min(g*/m, L/(m λ_min)) + L(1/λ_min − 1/λ_max).
    Corrected: Δ = min{g*, k·R/m + L·D}, R = min(g*, r₀ + 2L(B + τ)), D = min(1/λ_min − 1/λ_max, 2B) + 2τ,
    B = min(1/λ_min, √(2ℓ₀/λ_min)) ≥ ‖w_λ‖.

    Holds when: the loss is convex and 1-Lipschitz in w, O_λ is λ-strongly convex, rows satisfy ‖x‖₂ ≤ 1,
        training never sees V, and `range_at_zero` bounds the range r₀ of g(0; ·): 0 for a score of the margin
        alone (all verified by code); Assumption 2 of the paper.
    Neighbours: replace one validation record (k records of one person).
    Source: Theorem 7; the published form prints k = 1 and τ = 0.
    Erratum: the published second argument of the minimum is too small by any factor: |g(w; z) − g(w; z′)| can reach
        r₀ + 2L‖w‖, and g = 1[y = 1] moves by g* with L as small as one likes. Where g(0; ·) is constant the factor
        is 2. And no solver returns w_λ itself. `tests/theorems/test_kusner_2015.py` finds both violations.

    Returns:
        Δ in units of the score.
    """
    m, k, L, G, tau = n_validation, max_records_per_person, lipschitz, score_range, solver_tolerance
    if calibration == "published":
        return k * min(G / m, L / (m * lambda_min)) + L * (1.0 / lambda_min - 1.0 / lambda_max)
    B = weight_norm_bound(lambda_min=lambda_min, initial_loss=initial_loss)
    R = record_range(score_range=G, lipschitz=L, weight_norm=B + tau, range_at_zero=range_at_zero)
    D = path_length_bound(
        lambda_min=lambda_min, lambda_max=lambda_max, solver_tolerance=tau, initial_loss=initial_loss
    )
    return min(G, k * R / m + L * D)


def record_range(*, score_range: float, lipschitz: float, weight_norm: float, range_at_zero: float) -> float:
    """Return how far apart two records' scores can be at a model of norm ‖w‖ at most: R = min(g*, r₀ + 2L‖w‖).

    Holds when: g is L-Lipschitz in w, and r₀ bounds the range of g(0; ·). Source: the triangle inequality through
    w = 0. The proof of Theorem 7 takes this step from Chaudhuri and Vinterbo (2013), Theorem 4.
    """
    return min(score_range, range_at_zero + 2.0 * lipschitz * weight_norm)


def weight_norm_bound(*, lambda_min: float, initial_loss: float) -> float:
    """Return a bound on trained models' norms, B = min(1/λ_min, √(2ℓ₀/λ_min)) ≥ ‖w_λ‖ for λ ≥ λ_min, rounded up.

    Holds when: the loss is nonnegative and 1-Lipschitz in w. Source: λ‖w_λ‖ ≤ 1 from the gradient at the optimum;
    (λ/2)‖w_λ‖² ≤ O_λ(0) = ℓ₀ from its value.
    """
    up = 1.0 + 2.0**-50  # past the rounding of the quotients and the root
    return min(1.0 / lambda_min, math.sqrt(2.0 * initial_loss / lambda_min)) * up


def path_length_bound(
    *, lambda_min: float, lambda_max: float, solver_tolerance: float, initial_loss: float
) -> float:
    """How far apart models at λ, λ′ in [λ_min, λ_max] are: ‖ŵ_λ − ŵ_λ′‖ ≤ D = min(1/λ_min − 1/λ_max, 2B) + 2τ.

    Holds when: as for `weight_norm_bound`, and ‖ŵ_λ − w_λ‖ ≤ τ (verified by the solver's certificate).
    Source: the proof of Theorem 7, equations (10) to (12), with the solver's tolerance added.
    """
    B = weight_norm_bound(lambda_min=lambda_min, initial_loss=initial_loss)
    return min(1.0 / lambda_min - 1.0 / lambda_max, 2.0 * B) + 2.0 * solver_tolerance


def theorem_7_integer_sensitivity(
    *,
    n_validation: int,
    score_range: float,
    path_change: float,
    record_range: float,
    grid: int,
    max_records_per_person: int = 1,
) -> int:
    """Theorem 7's sensitivity of exact integer sums: min{m·g, m(⌈g L D/G⌉ + 1) + k(⌈g R/G⌉ + 1)}, g = `grid`.

    The models of the two search paths differ, so every record's rounding counts: one step each.
    Holds when: `path_change` is at least L·D (`path_length_bound`) and R the range of one record's score.
    Neighbours: those of Theorem 7. Source: Theorem 7, derived again for rounded scores; quotients round up.
    """
    m, k, g = n_validation, min(max_records_per_person, n_validation), grid
    up = 1.0 + 1e-12
    drift = g * path_change / score_range * up
    if drift >= g:
        return m * g
    moved = m * (math.ceil(drift) + 1) + k * (math.ceil(min(g, g * record_range / score_range * up)) + 1)
    return min(m * g, moved)


def theorem_7_fixed_set_integer_sensitivity(
    *, n_validation: int, score_range: float, record_range: float, grid: int, max_records_per_person: int = 1
) -> int:
    """What k records move max_λ of exact sums over a FIXED set of models by: k·min{g, ⌈g R/G⌉ + 1}, g = `grid`.

    Theorem 7 where all of Λ is scored: both runs score the same models, so its L·D vanishes; a maximum moves by no
    more than the sum that moves most.
    Holds when: every model of Λ is public and scored; R bounds the range of one record's score at any of them.
    Neighbours: those of Theorem 7. Source: the second term of its proof, one model on V and V′; quotients round up.
    """
    k, g = min(max_records_per_person, n_validation), grid
    return k * min(g, math.ceil(g * record_range / score_range * (1.0 + 1e-12)) + 1)


def corollary_4_scale(*, sensitivity: float, epsilon: float) -> float:
    """Return the Laplace scale b = Δ/ε at which f̃_L = f_BO + Lap(b) is ε-differentially private.

    Holds when: `sensitivity` bounds the query, as Theorem 7 does. Neighbours: those of Theorem 7.
    Source: Corollary 4 and Algorithm 3, line 5.
    """
    return sensitivity / epsilon


def theorem_8_error_bound(*, sensitivity: float, epsilon: float, failure_probability: float) -> float:
    """How far noise moves the release: |f̃_L − f_BO| ≤ a·Δ/ε, but for a chance e^{−a} = `failure_probability`.

    Holds when: the noise is Laplace at scale Δ/ε (verified by code). Neighbours: not a privacy statement.
    Source: Theorem 8.
    """
    return -math.log(failure_probability) * corollary_4_scale(sensitivity=sensitivity, epsilon=epsilon)
