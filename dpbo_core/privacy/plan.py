"""The price before purchase.

| symbol | here | meaning |
|---|---|---|
| ε_i | `epsilon` | pure cost of one draw; infinite for a Gaussian |
| δ_i | `delta` | 0 unless the draw is only (ε, δ) |
| ρ_i | `rho` | cost in zero-concentrated differential privacy |
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpbo_core.privacy.amounts import UNITS_PER_ONE, from_units
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.json_values import amount_of, text_of


@dataclass(frozen=True)
class Spend:
    """The price of one draw of noise: its ε, δ and ρ, its sensitivity and its scale.

    Attributes:
        what: what the draw releases, unique within a plan.
        mechanism: its name in the literature.
        epsilon_units: pure ε in 10⁻¹², or None where the mechanism has no pure ε (a Gaussian).
        delta_units: δ in 10⁻¹², 0 unless the draw is only (ε, δ).
        rho_units: zCDP cost in 10⁻¹².
        sensitivity: the most one unit can move the query, in units of the score.
        noise_scale: Laplace b, Gaussian σ, or 2Δ/ε for a selection, in units of the score.
    """

    what: str
    mechanism: str
    epsilon_units: int | None
    delta_units: int
    rho_units: int
    sensitivity: float
    noise_scale: float

    @property
    def epsilon(self) -> float:
        """The noise draw's pure ε; infinite where it has none."""
        return math.inf if self.epsilon_units is None else from_units(self.epsilon_units)

    @property
    def delta(self) -> float:
        """The noise draw's own δ, 0 where it has none."""
        return from_units(self.delta_units)

    @property
    def rho(self) -> float:
        """The noise draw's price ρ in zCDP."""
        return from_units(self.rho_units)

    def to_json(self) -> dict[str, Any]:
        """The priced noise draw as plain JSON; an infinite ε is null."""
        return {
            "what": self.what,
            "mechanism": self.mechanism,
            "epsilon": None if self.epsilon_units is None else self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            "sensitivity": self.sensitivity,
            "noise_scale": self.noise_scale,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Spend":
        """The priced noise draw that `to_json` wrote.

        Raises:
            TypeError, LookupError: it is none: a price below 0, say.
        """

        def units(amount: object) -> int:
            return round(amount_of(amount) * UNITS_PER_ONE)

        return cls(
            what=text_of(data["what"]),
            mechanism=text_of(data["mechanism"]),
            epsilon_units=None if data["epsilon"] is None else units(data["epsilon"]),
            delta_units=units(data["delta"]),
            rho_units=units(data["rho"]),
            sensitivity=amount_of(data["sensitivity"]),
            noise_scale=amount_of(data["noise_scale"]),
        )


@dataclass(frozen=True)
class PrivacyPlan:
    """The guarantee that a study will state and every draw it will make, priced without any data."""

    guarantee: PrivacyGuarantee
    spends: tuple[Spend, ...]

    def __post_init__(self) -> None:
        if len({spend.what for spend in self.spends}) != len(self.spends):
            raise ValueError("two spends of a plan share a name")


def step_score(step: int) -> str:
    """Return the name of the spend on the score that step number `step`, from 1, releases."""
    return f"score of step {step}"
