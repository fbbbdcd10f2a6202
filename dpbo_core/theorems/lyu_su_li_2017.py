"""Lyu, Su, Li: Understanding the Sparse Vector Technique for Differential Privacy. PVLDB 10(6), 2017.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Δ | `sensitivity` | most any one query moves between neighbours, in either direction | scalar > 0 |
| ε₁, ε₂ | — | spent on the threshold, and on the comparisons | scalars > 0 |
| c | — | queries above the threshold before it is over: 1 here | scalar |
| ρ | — | noise of the threshold, scale Δ/ε₁, drawn once | scalar |
| ν_i | — | noise of query i, scale 2cΔ/ε₂, drawn again for each | scalars |

Their proof needs of the noise that Pr[ρ = j] ≤ e^{ε₁} Pr[ρ = j + Δ] and Pr[ν ≥ x] ≤ e^{ε₂} Pr[ν ≥ x + 2cΔ] alone,
which one-sided noise, geometric on 0, 1, …, has at the same scales: that is drawn here, with √2 less deviation.

Algorithms 3 to 6 of the paper are others' variants, not private as they were published; each is planted and caught
in `test_watch_privacy`. Theorem 5 halves the noise ν_i where all queries move in one direction between
neighbours. The records of one person need not be the same in two tables, so theirs may move either way: not used.
"""

COMPARISON_RATIO = 2.0 ** (2.0 / 3.0)  # ε₂/ε₁ at c = 1


def theorem_4_epsilons(*, epsilon_units: int) -> tuple[int, int]:
    """Return the split of ε, in 10⁻¹², into (ε₁, ε₂), of threshold and comparisons, at which Algorithm 7 is ε-DP.

    It stops at the first query above, however many were below before. ε₂/ε₁ = (2c)^(2/3) makes the variance of
    ρ − ν_i least.
    Holds when: the queries may be chosen after seeing earlier answers; every answer is one bit, and after the first
    query above none is given. Source: Theorem 4 and section 4.2.
    """
    comparisons = int(epsilon_units * (COMPARISON_RATIO / (1.0 + COMPARISON_RATIO)))
    return epsilon_units - comparisons, comparisons


def theorem_4_epsilon(*, sensitivity: float, comparison_scale: float) -> float:
    """The whole ε = ε₁ + ε₂ of comparisons whose noise has the scale 2Δ/ε₂, split by `theorem_4_epsilons`."""
    return 2.0 * sensitivity / comparison_scale * (1.0 + 1.0 / COMPARISON_RATIO)
