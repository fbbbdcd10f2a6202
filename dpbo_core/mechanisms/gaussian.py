"""The discrete Gaussian mechanism on exact integer sums.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Δ | `sensitivity` | most the integer query moves between neighbours | integer ≥ 1 |
| ρ | `rho_units` | zero-concentrated differential privacy, in 10⁻¹² | integer ≥ 1 |
| σ | `scale` | Pr[noise = z] ∝ exp(−z²/2σ²), σ = Δ/√(2ρ) | scalar |
| h | `unit` | score per integer step | scalar |

Source: Canonne, Kamath, Steinke (2020), Theorem 4 and Algorithm 3, sampled by OpenDP. The claim is zCDP: the
exact (ε, δ) curve of the continuous Gaussian is never used for this draw.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dpbo_core.mechanisms.additive import draw_each
from dpbo_core.mechanisms.checks import check_scale
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.opendp_library import discrete_gaussian
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.certified import Worth, ratio
from dpbo_core.privacy.plan import Spend
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems.canonne_kamath_steinke_2020 import theorem_14_sigma


@dataclass(frozen=True)
class DiscreteGaussian:
    """ρ-zCDP release of one integer. Noise of scale σ = Δ/√(2ρ), rounded up."""

    WORTH: ClassVar = {"discrete Gaussian": Worth(lambda spend: (None, ratio(spend) ** 2 / 2.0))}

    sensitivity: int
    rho_units: int
    unit: float

    def __post_init__(self) -> None:
        check_scale(self.scale, self.sensitivity)

    @property
    def scale(self) -> float:
        """σ in integer steps, rounded up (more noise)."""
        return theorem_14_sigma(rho=from_units(self.rho_units), sensitivity=float(self.sensitivity))

    def spend(self, what: str) -> Spend:
        """ρ alone: a Gaussian has no pure ε."""
        return Spend(
            what=what,
            mechanism="discrete Gaussian",
            epsilon_units=None,
            delta_units=0,
            rho_units=self.rho_units,
            sensitivity=self.sensitivity * self.unit,
            noise_scale=self.scale * self.unit,
        )

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[int]], int]:
        """One draw, and how to add it to a value."""
        return self.prepare_each((spend,), source)[0]

    def prepare_each(self, spends: Sequence[Spend], source: NoiseSource) -> list[Callable[[Sensitive[int]], int]]:
        """An independent draw for each spend, and how to add it to a value.

        Raises:
            MechanismRefused: a privacy map above one of `spends`, and nothing was drawn; or, when a draw is
                applied, a value that is not an exact integer in range.
        """
        return draw_each(
            discrete_gaussian(self.scale, moves="i64"),
            sensitivity=self.sensitivity,
            planned=[spend.rho_units for spend in spends],
            imitated=lambda rng, size: rng.normal(scale=self.scale, size=size),
            source=source,
        )
