"""The discrete Gaussian mechanism on exact integer sums.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Δ | `sensitivity` | most the integer query moves between neighbours | integer ≥ 1 |
| ρ | `rho_units` | zero-concentrated differential privacy, in 10⁻¹² | integer ≥ 1 |
| σ | `scale` | Pr[noise = z] ∝ exp(−z²/2σ²), σ = Δ/√(2ρ) | scalar |
| h | `unit` | score per integer step | scalar |

Source: Canonne, Kamath, Steinke (2020), Theorem 4 and Algorithm 3, sampled by OpenDP. The claim is zCDP: the
exact (ε, δ) curve of the continuous Gaussian is never used for this draw.

Gaussian noise that a method draws onto what it sees and does not release.

| symbol | name here | meaning | shape |
|---|---|---|---|
| σ | `sigma` | standard deviation, on the prior's scale | scalar > 0 |
| h | `GRID` | draws are whole multiples of 2⁻²⁴ of the prior's scale | scalar |

Kusner et al. (2015), Theorem 3, assumes that N(0, σ²) is really drawn onto each observation. The draws cost
nothing, guarantee nothing by themselves, and stay in the curator's process; all of a run's are made at once, before
the first observation, so that no step's duration holds one of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from dpbo_core.mechanisms.drawing import check_scale, draw_each, rounded
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.opendp_library import discrete_gaussian
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.certified import Worth, ratio
from dpbo_core.privacy.release import Spend
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
        """The noise's standard deviation σ in integer steps, rounded up (more noise)."""
        return theorem_14_sigma(rho=from_units(self.rho_units), sensitivity=float(self.sensitivity))

    def spend(self, what: str) -> Spend:
        """Return the price of one noise draw, named `what`: ρ alone, as a Gaussian has no pure ε."""
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
        """Draw noise, refused above the price: a function, for one call, that adds it to a sensitive integer."""
        return self.prepare_each((spend,), source)[0]

    def prepare_each(self, spends: Sequence[Spend], source: NoiseSource) -> list[Callable[[Sensitive[int]], int]]:
        """Draw noise for each price, refused above it: functions that add theirs, once, to a sensitive integer."""
        return draw_each(
            discrete_gaussian(self.scale, moves="i64"),
            sensitivity=self.sensitivity,
            planned=[spend.rho_units for spend in spends],
            imitated=lambda rng, size: rng.normal(scale=self.scale, size=size),
            source=source,
        )


def observation_noise(sigma: float, n: int, source: NoiseSource) -> Sensitive[tuple[float, ...]]:
    """n draws of N(0, σ²), σ > 0 or refused, by `source`, on a grid of 2⁻²⁴; they cost nothing by themselves."""
    if not 0.0 < sigma < float("inf"):
        raise ValueError("sigma must be positive and finite")
    scale = sigma * GRID
    check_scale(scale, 1)
    measurement = discrete_gaussian(scale, moves="i64")
    drawn = source.draw_many(measurement, n, rounded(lambda rng, size: rng.normal(scale=scale, size=size)))
    return Sensitive(tuple((drawn / GRID).tolist()))
