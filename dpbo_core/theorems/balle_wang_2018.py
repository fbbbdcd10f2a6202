"""Balle, Wang: Improving the Gaussian Mechanism for Differential Privacy. ICML 2018.

Numbers as in arXiv 1805.06530v2.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε, δ | `epsilon`, `delta` | approximate differential privacy | scalar ≥ 0, in (0, 1) |
| Δ | `sensitivity` | ℓ₂ sensitivity of the query | scalar > 0 |
| σ | `sigma` | standard deviation of the CONTINUOUS Gaussian noise | scalar > 0 |
| Φ | — | distribution of the standard normal | — |

The curve is exact for continuous noise. What this project draws is discrete and claims zCDP; these functions
compare, they price nothing.
"""

import math

from scipy.special import log_ndtr

_ROUNDING = 4e-15  # a few units in the last place, times the size of a logarithm; always applied towards privacy


def theorem_8_delta(*, sigma: float, epsilon: float, sensitivity: float) -> float:
    """δ(ε) = Φ(Δ/2σ − εσ/Δ) − e^ε Φ(−Δ/2σ − εσ/Δ), rounded up: the least δ at ε.

    Holds when: the noise is continuous Gaussian, independent in each coordinate. Neighbours: those of Δ.
    Source: Theorem 8. Erratum: none. In logarithms, so that a δ of 1e-300 has its digits.
    """
    t = sensitivity / sigma
    first, second = float(log_ndtr(t / 2.0 - epsilon / t)), float(log_ndtr(-t / 2.0 - epsilon / t))
    error = _ROUNDING * (2.0 + abs(first) + abs(second) + epsilon)  # of either logarithm, both arguments included
    ratio = min(0.0, epsilon + second - first) - error  # the first term is ≤ 0 in exact arithmetic
    return min(1.0, math.exp(first + error) * -math.expm1(ratio) + 1e-300)


def gaussian_sigma(*, epsilon: float, delta: float, sensitivity: float) -> float:
    """The smallest σ for which Gaussian noise is (ε, δ), rounded up.

    Source: Algorithm 1, by bisection on Theorem 8, which decreases in σ. The returned σ satisfies
    theorem_8_delta(sigma=σ) ≤ δ.

    Raises:
        ValueError: ε, δ or Δ out of range.
    """
    _check(delta=delta, epsilon=epsilon, sensitivity=sensitivity)
    low = high = 1.0  # in units of Δ
    while theorem_8_delta(sigma=high, epsilon=epsilon, sensitivity=1.0) > delta:
        high *= 2.0
    while theorem_8_delta(sigma=low, epsilon=epsilon, sensitivity=1.0) <= delta:
        low /= 2.0
    while high - low > 1e-15 * high:
        middle = 0.5 * (low + high)
        if theorem_8_delta(sigma=middle, epsilon=epsilon, sensitivity=1.0) <= delta:
            high = middle
        else:
            low = middle
    return high * sensitivity * (1.0 + 1e-15)


def gaussian_epsilon(*, sigma: float, delta: float, sensitivity: float) -> float:
    """The smallest ε for which Gaussian noise of standard deviation σ is (ε, δ), rounded up.

    Source: the other inverse of Theorem 8, by bisection; δ(ε) decreases in ε.

    Raises:
        ValueError: σ, δ or Δ out of range.
    """
    _check(delta=delta, epsilon=1.0, sensitivity=sensitivity)
    if not 0.0 < sigma < math.inf:
        raise ValueError("sigma must be positive and finite")
    low, high = 0.0, 1.0
    if theorem_8_delta(sigma=sigma, epsilon=0.0, sensitivity=sensitivity) <= delta:
        return 0.0
    while theorem_8_delta(sigma=sigma, epsilon=high, sensitivity=sensitivity) > delta:
        high *= 2.0
    while high - low > 1e-15 * high:
        middle = 0.5 * (low + high)
        if theorem_8_delta(sigma=sigma, epsilon=middle, sensitivity=sensitivity) <= delta:
            high = middle
        else:
            low = middle
    return high


def _check(*, delta: float, epsilon: float, sensitivity: float) -> None:
    if not (0.0 < delta < 1.0 and 0.0 <= epsilon < math.inf and 0.0 < sensitivity < math.inf):
        raise ValueError("δ must lie in (0, 1), ε be at least 0 and finite, Δ positive and finite")
