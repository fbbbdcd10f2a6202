"""Mironov, Talwar, Zhang: Rényi Differential Privacy of the Sampled Gaussian Mechanism. 2019.

Numbers as in arXiv 1908.10530. Each record joins a step with probability q, and Gaussian noise hides the sum.

| symbol | name here | meaning | shape |
|---|---|---|---|
| q | `rate` | probability that a record joins, independently | scalar in [0, 1] |
| σ | `noise_multiplier` | noise over the most one record adds (ℓ₂) | scalar > 0 |
| α | `alpha` | Rényi order, an INTEGER here | integer ≥ 2 |

For integer orders the same numbers hold for the discrete Gaussian on ℤ^d and integer queries. The proof needs
E[(p(x−Δ)/p(x))^k] = e^{(k²−k)‖Δ‖²/2σ²} for k = 0 … α, and kΔ is an integer vector, so the sum over ℤ^d that is left
does not depend on it; and it needs the involution x → Δ − x, which maps ℤ^d onto itself (their Theorem 5).
"""

import math


def section_3_3_renyi(*, alpha: int, rate: float, noise_multiplier: float) -> float:
    """Rényi cost at α of one step under add-or-remove-one, rounded up.

    ε(α) = log Σ_k C(α, k) (1−q)^{α−k} q^k e^{(k²−k)/2σ²} / (α−1).

    Source: Section 3.3, with Theorem 5 (the other direction costs no more).
    """
    if rate == 0.0:
        return 0.0
    if rate == 1.0:
        return alpha / (2.0 * noise_multiplier**2) * (1.0 + 1e-12)
    terms = [
        math.lgamma(alpha + 1)
        - math.lgamma(k + 1)
        - math.lgamma(alpha - k + 1)
        + (alpha - k) * math.log1p(-rate)
        + k * math.log(rate)
        + (k * k - k) / (2.0 * noise_multiplier**2)
        for k in range(alpha + 1)
    ]
    largest = max(terms)
    total = largest + math.log(math.fsum(math.exp(term - largest) for term in terms))
    # lgamma of a few hundred carries an error of about 1e-13
    return max(0.0, total + 1e-12 * (1.0 + abs(largest))) / (alpha - 1)


def replace_one_renyi(*, at_double: float, at_double_less_one: float, alpha: float) -> float:
    """D_α under replace-one from an add-or-remove-one curve: (α−½)/(α−1)·ε(2α) + ε(2α−1).

    Source: Mironov (2017), Proposition 11 with p = q = 2: from D over D without the record to D′.
    """
    return (alpha - 0.5) / (alpha - 1.0) * at_double + at_double_less_one
