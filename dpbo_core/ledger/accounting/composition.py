"""The cost of several spends together, by two routes that are both always valid.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε_i, δ_i, ρ_i | `Spend` | cost of one draw | T spends |
| ρ* | `largest_rho` | the most ρ that a cap (ε, δ) holds | scalar |

Basic composition adds pure ε. Zero-concentrated composition adds ρ and converts once, at one fixed δ. A Gaussian
has no pure ε and never enters the first sum, not even by its own (ε, δ): that would be unsound.
Source: Dwork, Roth (2014), Theorem 3.16; Bun, Steinke (2016), Lemma 2.3; Canonne, Kamath, Steinke (2020), Prop. 12.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from dpbo_core.privacy.amounts import UNITS_PER_ONE, from_units
from dpbo_core.privacy.plan import Spend
from dpbo_core.theorems.canonne_kamath_steinke_2020 import proposition_12_epsilon, proposition_12_rho


@dataclass(frozen=True)
class Total:
    """Sums of spends in 10⁻¹²; `epsilon_units` is None as soon as one spend has no pure ε."""

    epsilon_units: int | None
    delta_units: int
    rho_units: int

    def __add__(self, other: "Total") -> "Total":
        pure = None
        if self.epsilon_units is not None and other.epsilon_units is not None:
            pure = self.epsilon_units + other.epsilon_units
        return Total(pure, self.delta_units + other.delta_units, self.rho_units + other.rho_units)

    def epsilon(self, delta: float) -> tuple[float, float]:
        """The smaller of two ways to compose draws, as (ε, δ): (Σε, Σδ), or (ε(Σρ, δ), δ + Σδ)."""
        basic = math.inf if self.epsilon_units is None else from_units(self.epsilon_units)
        concentrated = proposition_12_epsilon(rho=from_units(self.rho_units), delta=delta)
        only = from_units(self.delta_units)
        return (basic, only) if basic <= concentrated else (concentrated, delta + only)


NOTHING = Total(0, 0, 0)


def compose(spends: Iterable[Spend]) -> Total:
    """The sums of ε, δ and ρ of priced draws, each perhaps chosen after seeing the earlier ones."""
    total = NOTHING
    for spend in spends:
        total += Total(spend.epsilon_units, spend.delta_units, spend.rho_units)
    return total


@lru_cache(maxsize=256)  # a few milliseconds of bisection, asked for while the ledger is locked
def largest_rho(epsilon: float, delta: float) -> int:
    """The most zCDP that a guarantee of (ε, δ) can hold, ρ*, in 10⁻¹² and rounded down."""
    return math.floor(proposition_12_rho(epsilon=epsilon, delta=delta) * UNITS_PER_ONE)
