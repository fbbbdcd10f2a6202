"""Discrete Laplace noise on the weights of a linear model, for the algorithms that are pure.

| symbol | name here | meaning | shape |
|---|---|---|---|
| w | `w` | weights | (d,) |
| Δ₂ | `sensitivity` | most they move in ℓ₂ between neighbours | scalar > 0 |
| h | — | the grid they are rounded to, a power of two near Δ₂·2⁻²⁰ | scalar |
"""

import math

import numpy as np
from numpy.typing import NDArray

from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.vectors import DiscreteLaplaceVector


def noise_of(sensitivity: float, epsilon: float, size: int) -> tuple[DiscreteLaplaceVector, float]:
    """The noise on weights that move by at most `sensitivity` in ℓ₂; its grid h, a power of two: w/h is exact."""
    h = 2.0 ** (math.floor(math.log2(sensitivity)) - 20)
    steps = math.ceil(math.sqrt(size) * sensitivity / h * (1.0 + 1e-12)) + size
    return DiscreteLaplaceVector(steps, epsilon, size), h


def noised(
    w: NDArray[np.float64], *, sensitivity: float, epsilon: float, source: NoiseSource
) -> NDArray[np.float64]:
    """Weights that move by at most `sensitivity` in ℓ₂, rounded to a grid, with discrete Laplace noise: ε-DP."""
    noise, h = noise_of(sensitivity, epsilon, len(w))
    rounded = np.clip(np.rint(w / h), -(2.0**61), 2.0**61).astype(np.int64)
    return np.asarray((rounded + noise.draw(source)).astype(np.float64) * h, dtype=np.float64)
