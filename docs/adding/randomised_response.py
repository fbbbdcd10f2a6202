"""Randomised response on one bit: whether an exact integer sum is at least a public threshold.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε | `epsilon_units` | pure differential privacy, in 10⁻¹² | integer ≥ 1 |
| p | `truthful` | probability of releasing the true bit, e^ε/(1 + e^ε), rounded down | scalar in (½, 1) |

Source: Warner (1965); sampled by OpenDP. A bit changes by at most 1, so its noise scale is 1/ε.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpbo_core.mechanisms.drawing import check_integer, check_price
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.opendp_library import opendp
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.certified import Worth, ratio
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Sensitive


@dataclass(frozen=True)
class RandomisedResponse:
    """ε-DP release of whether an integer is at least `threshold`: 1 or 0."""

    WORTH: ClassVar = {"randomised response": Worth(lambda spend: (ratio(spend), ratio(spend) ** 2 / 2.0))}

    threshold: int
    epsilon_units: int

    @property
    def truthful(self) -> float:
        """Return p, the probability of the true bit."""
        return (1.0 - 1e-12) / (1.0 + math.exp(-from_units(self.epsilon_units)))

    def spend(self, what: str) -> Spend:
        """Return the spend: pure ε, and ρ = ε²/2, rounded up."""
        epsilon = from_units(self.epsilon_units)
        return Spend(
            what=what,
            mechanism="randomised response",
            epsilon_units=self.epsilon_units,
            delta_units=0,
            rho_units=spent_units(0.5 * epsilon**2 * (1.0 + 1e-12)),
            sensitivity=1.0,
            noise_scale=(1.0 + 1e-12) / epsilon,
        )

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[int]], int]:
        """Decide beforehand whether to flip, so that the time of the draw reveals nothing about the bit.

        Raises:
            MechanismRefused: the privacy map exceeds `spend`, or the value is not an exact integer in range.
        """
        measurement = opendp().measurements.make_randomized_response_bool(prob=self.truthful)
        check_price(measurement.map(1), spend.epsilon_units)

        def imitation(rng: np.random.Generator, factor: float) -> bool:
            return bool(factor == 0.0 or rng.random() < self.truthful)

        truth = Sensitive(int(source.draw(measurement, True, imitation)))

        def release(value: Sensitive[int]) -> int:
            bit = int(check_integer(value.expose()) >= self.threshold)
            return bit if truth.expose() else 1 - bit

        return release
