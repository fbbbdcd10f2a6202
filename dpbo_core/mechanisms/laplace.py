"""The discrete Laplace mechanism on exact integer sums.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Δ | `sensitivity` | most the integer query moves between neighbours | integer ≥ 1 |
| ε | `epsilon_units` | pure differential privacy, in 10⁻¹² | integer ≥ 1 |
| b | `scale` | Pr[noise = z] ∝ exp(−|z|/b), b = Δ/ε | scalar |
| h | `unit` | score per integer step, so that results and scales can be said in scores | scalar |

Source: Ghosh, Roughgarden, Sundararajan (2009); sampled by OpenDP (Canonne, Kamath, Steinke 2020, Algorithm 2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dpbo_core.mechanisms.drawing import check_scale, draw_each
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.opendp_library import discrete_laplace
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.certified import Worth, ratio
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Sensitive


@dataclass(frozen=True)
class DiscreteLaplace:
    """ε-DP release of one integer. Noise of scale b = Δ/ε, rounded up."""

    WORTH: ClassVar = {"discrete Laplace": Worth(lambda spend: (ratio(spend), ratio(spend) ** 2 / 2.0))}

    sensitivity: int
    epsilon_units: int
    unit: float

    def __post_init__(self) -> None:
        check_scale(self.scale, self.sensitivity)

    @property
    def scale(self) -> float:
        """The noise's Laplace scale b in integer steps, rounded up past the error of the division."""
        return self.sensitivity / from_units(self.epsilon_units) * (1.0 + 1e-12)

    def spend(self, what: str) -> Spend:
        """Return the price of one noise draw, named `what`: pure ε; ρ = ε²/2, rounded up."""
        return Spend(
            what=what,
            mechanism="discrete Laplace",
            epsilon_units=self.epsilon_units,
            delta_units=0,
            rho_units=spent_units(0.5 * from_units(self.epsilon_units) ** 2 * (1.0 + 1e-12)),
            sensitivity=self.sensitivity * self.unit,
            noise_scale=self.scale * self.unit,
        )

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[int]], int]:
        """Draw noise, refused above the price: a function, for one call, that adds it to a sensitive integer."""
        return self.prepare_each((spend,), source)[0]

    def prepare_each(self, spends: Sequence[Spend], source: NoiseSource) -> list[Callable[[Sensitive[int]], int]]:
        """Draw noise for each price, refused above it: functions that add theirs, once, to a sensitive integer."""
        return draw_each(
            discrete_laplace(self.scale),
            sensitivity=self.sensitivity,
            planned=[spend.epsilon_units for spend in spends],
            imitated=lambda rng, size: rng.laplace(scale=self.scale, size=size),
            source=source,
        )
