"""What the mechanisms that add noise to one integer share: many draws made at once, each for a spend of its own.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Δ | `sensitivity` | most the integer query moves between neighbours | integer ≥ 1 |
| — | `planned` | what each draw may cost, in 10⁻¹² | integers |
"""

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.mechanisms.checks import MAX_NOISE, check_integer, check_price
from dpbo_core.mechanisms.noise import Imitation, NoiseSource
from dpbo_core.privacy.sensitive import Sensitive

Sampler = Callable[[np.random.Generator, int], NDArray[np.float64]]


def draw_each(
    measurement: Any, *, sensitivity: int, planned: Collection[int | None], imitated: Sampler, source: NoiseSource
) -> list[Callable[[Sensitive[int]], int]]:
    """Draw integer noise once for each planned price; return one function for each draw.

    Each function adds its noise to a sensitive integer, and may be called once only.

    Args:
        measurement: OpenDP's, on vectors of integers.
        sensitivity: Δ, the most by which one entry of such a vector moves.
        planned: ε or ρ of each draw in 10⁻¹²; if `measurement` costs more than one of them, nothing is drawn.
        imitated: draws the same noise for tests.
        source: the operating system, or a test's generator.
    """
    price = measurement.map(sensitivity)
    for units in set(planned):
        check_price(price, units)
    noises = source.draw_many(measurement, len(planned), rounded(imitated))
    return [partial(_noisy_sum, Sensitive(noise)) for noise in noises.tolist()]


def rounded(imitated: Sampler) -> Imitation:
    """Return a sampler of integer noise for tests: that of real noise `imitated`, times a factor, rounded."""

    def imitation(rng: np.random.Generator, factor: float, size: int) -> NDArray[np.int64]:
        drawn: NDArray[np.int64] = np.rint(factor * imitated(rng, size)).astype(np.int64)
        return drawn

    return imitation


def _noisy_sum(noise: Sensitive[int], value: Sensitive[int]) -> int:
    """Return the exact integer plus the noise, clamped to ±2⁶²: an overflow would depend on the exact value."""
    return max(-MAX_NOISE, min(MAX_NOISE, check_integer(value.expose()) + noise.expose()))
