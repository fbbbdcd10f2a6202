"""The discrete Laplace mechanism on every cell of a histogram.

| symbol | name here | meaning | shape |
|---|---|---|---|
| C | `size` | cells, public | scalar ≥ 1 |
| n | `value` | records in each cell, exact | (C,) int64 |
| Δ | `sensitivity` | most that the whole table moves between neighbours, in ℓ₁ | integer ≥ 1 |
| ε | `epsilon_units` | pure differential privacy of all cells together, in 10⁻¹² | integer ≥ 1 |
| b | `scale` | Pr[noise = z] ∝ exp(−|z|/b) in each cell, b = Δ/ε | scalar |
| h | `unit` | records or persons per whole step, so that the price can be said in them | scalar |

The whole table costs ε once, however many cells it has: its noise is priced in ℓ₁.
Source: Dwork, McSherry, Nissim, Smith (2006), Example 1; sampled by OpenDP (Canonne, Kamath, Steinke 2020).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.mechanisms.drawing import MAX_NOISE, check_price, check_scale, check_table, rounded
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.opendp_library import discrete_laplace
from dpbo_core.privacy.certified import Worth, ratio
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Sensitive

Cells = NDArray[np.int64]


@dataclass(frozen=True)
class LaplaceHistogram:
    """ε-DP release of a table (C,) of counts. Noise of scale b = Δ/ε in each cell, rounded up."""

    WORTH: ClassVar = {"discrete Laplace histogram": Worth(lambda spend: (ratio(spend), ratio(spend) ** 2 / 2.0))}

    sensitivity: int
    epsilon_units: int
    size: int
    unit: float = 1.0

    def __post_init__(self) -> None:
        check_scale(self.scale, self.sensitivity)

    @property
    def scale(self) -> float:
        """The noise's Laplace scale b in whole steps, rounded up past the error of the division."""
        return self._laplace_of_one_count.scale

    def spend(self, what: str) -> Spend:
        """Return the price of all counts of the histogram together, named `what`, at their ℓ₁ sensitivity."""
        return replace(self._laplace_of_one_count.spend(what), mechanism="discrete Laplace histogram")

    @property
    def _laplace_of_one_count(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.sensitivity, self.epsilon_units, self.unit)

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[Cells]], list[int]]:
        """Draw noise for all C counts, refused above the price: a function, for one call, that adds it."""
        measurement = discrete_laplace(self.scale)
        check_price(measurement.map(self.sensitivity), spend.epsilon_units)
        noise = source.draw_many(
            measurement, self.size, rounded(lambda rng, size: rng.laplace(scale=self.scale, size=size))
        )
        drawn = Sensitive(np.clip(noise, -MAX_NOISE, MAX_NOISE))
        return lambda value: np.clip(
            check_table(value.expose(), (self.size,)) + drawn.expose(), -MAX_NOISE, MAX_NOISE
        ).tolist()
