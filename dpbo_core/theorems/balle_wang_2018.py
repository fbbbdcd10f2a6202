"""Balle, Wang: Improving the Gaussian Mechanism for Differential Privacy. ICML 2018.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε, δ | `epsilon`, `delta` | of the guarantee | scalar ≥ 0, in (0, 1) |
| Δ | `sensitivity` | most that the query moves, in ℓ₂ | scalar > 0 |
| σ | result | deviation of continuous Gaussian noise | scalar |

A reading aid: what dpbo draws is the discrete Gaussian, which is priced by zCDP and never by this curve.
"""

import math

_HALVINGS = 200


def theorem_8_delta(*, sigma: float, epsilon: float, sensitivity: float) -> float:
    """Return the least δ of Gaussian noise: Φ(Δ/2σ − εσ/Δ) − e^ε·Φ(−Δ/2σ − εσ/Δ), exactly.

    Holds when: the noise is continuous. Neighbours: any relation under which Δ bounds the query. Source: Theorem 8.
    """
    half, rest = sensitivity / (2.0 * sigma), epsilon * sigma / sensitivity
    return _below(half - rest) - math.exp(epsilon) * _below(-half - rest)


def gaussian_sigma(*, epsilon: float, delta: float, sensitivity: float) -> float:
    """Return the least σ at which continuous Gaussian noise is (ε, δ)-private, rounded up.

    Holds when: as for `theorem_8_delta`. Source: Algorithm 1, by halving instead of two searches.
    """
    low, high = 0.0, sensitivity
    while theorem_8_delta(sigma=high, epsilon=epsilon, sensitivity=sensitivity) > delta:
        low, high = high, 2.0 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        enough = theorem_8_delta(sigma=middle, epsilon=epsilon, sensitivity=sensitivity) <= delta
        low, high = (low, middle) if enough else (middle, high)
    return high


def _below(x: float) -> float:
    """Φ(x), the standard normal's distribution function."""
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
