"""Kharkovskii, Dai, Low: Private Outsourced Bayesian Optimization. ICML 2020.

Numbers as in the proceedings (PMLR 119).

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε, δ | `epsilon`, `delta` | the privacy that Theorem 1 claims | scalar > 0, in (0, 1) |
| r | `projection_dim` | columns of the published table | scalar ≥ 1 |
| n | `n_rows` | rows of the table | scalar ≥ 2 |
| ω | `singular_value_floor` | what the singular values are raised to | scalar > 0 |
| σ_min | `singular_value` | smallest singular value of the centred table | scalar ≥ 0 |
| ν, μ | `distortion`, `failure_probability` | of squared distances; of the event | in (0, ½), (0, 1) |
| C′ | — | growth of squared distances by the floor | scalar ≥ 1 |
| d | `scaled_diameter` | diam(X)/l in Theorem 3 alone | scalar > 0 |
| L | `answer_bound` | bound on every answer, in absolute value | scalar > 0 |
| ε_ucb | `approximation` | the regret that no number of steps removes | scalar > 0 |
| C₁, C₂ | `constants` | constants that the paper gives only up to a factor | two scalars > 0 |
| K | `gram` | prior covariance of the rows asked about | (t, t) |

Erratum: Theorem 1 is false (n ≥ d + 2, X of full column rank). Z is a linear image of X's rows under ONE secret
matrix, so whoever knows the other rows solves for that matrix and then for the row. Section 3.1 builds on Blocki et
al. (2012), where the Gaussian matrix mixes users; here it mixes features, so that a column of Z lies in the column
space of X and has no density on Rⁿ. The paper's proof (Appendix B.2) is not in the text at hand. Nothing in this
file is a privacy guarantee.
"""

import math

import numpy as np
from numpy.typing import NDArray


def singular_value_floor(*, epsilon: float, delta: float, projection_dim: int) -> float:
    """Return the floor for singular values that the published transform needs: ω = 16 √(r log(2/δ)) ε⁻¹ log(16r/δ).

    Holds when: never as a privacy statement; see the erratum above. Neighbours: one row moves by at most 1.
    Source: Algorithm 1, line 5. Erratum: the text at hand has √r log(2/δ); its numbers support √(r log(2/δ)).
    """
    r = projection_dim
    return 16.0 * math.sqrt(r * math.log(2.0 / delta)) / epsilon * math.log(16.0 * r / delta)


def largest_projection_dim(*, epsilon: float, delta: float, singular_value: float) -> int:
    """The largest number r of published columns with `singular_value_floor` ≤ σ_min, 0 if none: the paper's rule.

    Source: section 3.4 and section 4. Erratum: on the paper's own grid (σ_min = 1030.88, δ = 1e-5) it gives 11 at
    ε = e^1.1 where the paper has 10, 15 at e^1.3, as in the paper, and 22 at e^1.5 where the paper has 20. Of the
    values that its tables try (…, 10, 15, 20, 30, 50) the printed ones are the largest.
    """

    def passes(r: int) -> bool:
        """Return whether the floor ω for r columns is at most the table's smallest singular value."""
        return singular_value_floor(epsilon=epsilon, delta=delta, projection_dim=r) <= singular_value

    low, high = 0, 1  # low passes, high does not: ω grows with r
    while passes(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)
    return low


def lemma_1_projection_dim(*, n_rows: int, failure_probability: float, distortion: float) -> int:
    """The least whole r ≥ 8 log(n²/μ)/ν²: squared distances keep within 1 ± ν with probability 1 − μ; ν ≥ ½ raises.

    Holds when: ν in (0, ½), μ in (0, 1) (refused otherwise). Source: Lemma 1 (Johnson, Lindenstrauss 1984).

    Raises:
        ValueError: ν or μ out of range.
    """
    if not (0.0 < distortion < 0.5 and 0.0 < failure_probability < 1.0):
        raise ValueError("Lemma 1 needs ν in (0, 1/2) and μ in (0, 1)")
    return math.ceil(8.0 * (2.0 * math.log(n_rows) - math.log(failure_probability)) / distortion**2)


def lemma_1_distortion(*, n_rows: int, failure_probability: float, projection_dim: int) -> float:
    """Return the least distortion ν that r columns give by Lemma 1; ∞ where it says nothing of so few columns.

    Source: Lemma 1, solved for ν.
    """
    nu = math.sqrt(8.0 * (2.0 * math.log(n_rows) - math.log(failure_probability)) / projection_dim)
    return nu if nu < 0.5 else math.inf


def theorem_2_distance_bounds(*, distortion: float, singular_value: float, floor: float) -> tuple[float, float]:
    """Bounds (1 − ν, (1 + ν)C′) on all ‖z − z′‖²/‖x − x′‖²; C′ is 1 or, where σ_min < ω (`floor`), 1 + ω²/σ_min².

    Holds when: r is at least `lemma_1_projection_dim`, with its probability. Source: Theorem 2.
    """
    inflation = 1.0
    if singular_value < floor:
        inflation = math.inf if singular_value == 0.0 else 1.0 + (floor / singular_value) ** 2
    return 1.0 - distortion, (1.0 + distortion) * inflation


def theorem_3_distortion(*, approximation: float, scaled_diameter: float, answer_bound: float) -> float:
    """Return the distortion that Theorem 3 asks of the projection: ν = min(ε_ucb/(2√3 d² L), 2/d², ½).

    Source: Theorem 3. A distortion of exactly ½ is outside Lemma 1; the smaller of this and just below ½ serves.
    """
    d2 = scaled_diameter**2
    return min(approximation / (2.0 * math.sqrt(3.0) * d2 * answer_bound), 2.0 / d2, 0.5)


def remark_2_approximation(
    *, distortion: float, singular_value: float, floor: float, scaled_diameter: float, answer_bound: float
) -> float:
    """Return the regret that no step removes, where σ_min < ω: 2√3 L max(d²ν, 1 − exp(−(d²/2)((1 + ν)C′ − 1))).

    Theorem 3's ε_ucb is 2√3 L times d²ν, a bound on the relative change of every covariance of the squared
    exponential: a = ‖x − x′‖²/2l² ≤ d²/2, and e^{aν} − 1 ≤ 2aν as long as aν ≤ 1. Raised singular values shrink it
    further, to e^{−a(1+ν)C′}; at C′ = 1 this is ε_ucb again, and it is never above 2√3 L unless d²ν > 1.

    Source: Remark 2 says that there is such a constant, Remark 6 (Appendix B.5) which. The appendix is not in the
    text at hand, so the constant here is derived again, by the bound that ε_ucb stands for.
    """
    d2 = scaled_diameter**2
    _, farthest = theorem_2_distance_bounds(distortion=distortion, singular_value=singular_value, floor=floor)
    shrunk = 1.0 - math.exp(-0.5 * d2 * (farthest - 1.0))
    return 2.0 * math.sqrt(3.0) * answer_bound * max(d2 * distortion, shrunk)


def definition_3_diagonally_dominant(gram: NDArray[np.float64]) -> bool:
    """Return whether k_xx ≥ (√(t − 1) + 1) Σ_{x′ ≠ x} k_xx′ for every row of a covariance, as Theorem 3 assumes.

    Args:
        gram: K, (t, t), of the rows asked about. A row asked about twice breaks it.
    """
    diagonal = np.diag(gram)
    others = gram.sum(axis=1) - diagonal
    return bool(np.all(diagonal >= (math.sqrt(max(0, len(gram) - 1)) + 1.0) * others))


def theorem_3_regret_bound(
    *,
    approximation: float,
    beta: float,
    information_gain: float,
    noise_variance: float,
    n_steps: int,
    constants: tuple[float, float],
) -> float:
    """Regret ≤ √(ε_ucb² + 24 (C₂ + C₁√β_T)² log T/T + 24 β_T γ_T/(T log(1 + σ_n⁻²))), with probability 1 − δ_ucb.

    Holds when: the function is a draw of the Gaussian process whose kernel is used, r is at least Lemma 1's for
        `theorem_3_distortion` and μ = δ_ucb/2, σ_min ≥ ω, |y_t| ≤ L, and every K is diagonally dominant
        (`definition_3_diagonally_dominant`).
    Erratum: these never hold together in the paper's own experiment. |y_t| ≤ L is false with a probability that
        δ_ucb leaves no room for, since answers have Gaussian noise; dominance fails once the search has asked about
        a few rows; ν ≤ 2/d² asks for r ≥ 213,248 at l = 6 (and 10⁸ at the printed l), where σ_min ≥ ω allows 11.
    Neighbours: none; not a privacy statement. Source: Theorem 3, for the published transform alone. The paper
        gives C₁ = O(σ_y√(σ_y² + σ_n²)(σ_y²/σ_n² + 1)) and C₂ = O(L σ_y²/σ_n²) without factors: the caller's.
    """
    T, (c1, c2) = n_steps, constants
    searched = 24.0 * beta * information_gain / (T * math.log1p(1.0 / noise_variance))
    distorted = 24.0 * (c2 + c1 * math.sqrt(beta)) ** 2 * math.log(T) / T
    return math.sqrt(approximation**2 + distorted + searched)
