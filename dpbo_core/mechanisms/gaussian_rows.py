"""The discrete Gaussian mechanism on every entry of a table of integers, one row a person.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n, r | — | rows and columns | scalars |
| Q | `value` | the exact table, in grid steps | (n, r) int64 |
| Δ | `sensitivity` | most that ONE row moves between neighbours, in ℓ₂ norm and grid steps | scalar > 0 |
| ρ | `rho_units` | zero-concentrated differential privacy, in 10⁻¹² | integer ≥ 1 |
| σ | `scale` | Pr[noise = z] ∝ exp(−z²/2σ²) in each entry, σ = Δ/√(2ρ) | scalar |
| h | `unit` | length of one grid step | scalar |

Neighbours differ in one row, so the whole table costs what one row does. Source: Canonne, Kamath, Steinke (2020),
Theorem 14, the multivariate discrete Gaussian; sampled by OpenDP at about 11 µs an entry.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.mechanisms.drawing import MAX_NOISE, check_price, check_scale, check_table, rounded
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.opendp_library import discrete_gaussian
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.certified import Worth, ratio
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems.canonne_kamath_steinke_2020 import theorem_14_sigma

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class GaussianRows:
    """ρ-zCDP release of a table (n, r). Noise of scale σ = Δ/√(2ρ) in each entry, rounded up."""

    WORTH: ClassVar = {"discrete Gaussian rows": Worth(lambda spend: (None, ratio(spend) ** 2 / 2.0))}

    sensitivity: float
    rho_units: int
    unit: float
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        check_scale(self.scale, 1)

    @property
    def scale(self) -> float:
        """The noise's standard deviation σ in grid steps, rounded up (more noise)."""
        return theorem_14_sigma(rho=from_units(self.rho_units), sensitivity=self.sensitivity)

    def spend(self, what: str) -> Spend:
        """Return the price of a noised table, named `what`: ρ alone, as a Gaussian has no pure ε."""
        return Spend(
            what=what,
            mechanism="discrete Gaussian rows",
            epsilon_units=None,
            delta_units=0,
            rho_units=self.rho_units,
            sensitivity=self.sensitivity * self.unit,
            noise_scale=self.scale * self.unit,
        )

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[Rows]], Rows]:
        """Draw noise for all n·r entries, refused above the price: a function, for one call, that adds it."""
        measurement = discrete_gaussian(self.scale, moves="f64")
        check_price(measurement.map(self.sensitivity), spend.rho_units)
        imitation = rounded(lambda rng, size: rng.normal(scale=self.scale, size=size))
        noise = source.draw_many(measurement, self.shape[0] * self.shape[1], imitation)
        np.clip(noise, -MAX_NOISE, MAX_NOISE, out=noise)
        return lambda value: check_table(value.expose(), self.shape) + noise.reshape(self.shape)


@dataclass(frozen=True)
class StoredRows:
    """The Gaussian rows of a table too large for the ledger: a file keeps them, and their digest is recorded."""

    rows: GaussianRows
    # writes the noised rows durably, inside the recording transaction, where the curator alone looks; their digest
    keep: Callable[[Rows], str]

    def spend(self, what: str) -> Spend:
        """Return the price of the noised table, named `what`: ρ alone."""
        return self.rows.spend(what)

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[Rows]], str]:
        """Draw noise for all rows: a function that adds it to a table, stores that and returns its digest."""
        apply = self.rows.prepare(spend, source)
        return lambda value: self.keep(apply(value))
