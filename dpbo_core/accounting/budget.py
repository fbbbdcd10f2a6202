"""The ceiling on a dataset, and the one rule of admission.

| symbol | name here | meaning |
|---|---|---|
| ε, δ | `epsilon_units`, `delta_units` | the cap, in 10⁻¹², as people typed it |
| δ_x | `delta_only_units` | the part kept for spends that are only (ε, δ); 0 unless an assumption needs them |
| δ_z | `delta_conversion` | the part at which zCDP is converted, fixed at opening |
| ρ* | `rho_units` | the largest ρ whose conversion at δ_z is at most ε, rounded down |

Admit iff Σδ_i ≤ δ_x and (Σρ_i ≤ ρ* or Σε_i ≤ ε). On a path admitted by pure ε the loss never exceeds ε; the rest is
bounded by δ_z at one fixed order, so the rule is sound for spends chosen adaptively.
"""

from dataclasses import dataclass
from functools import cached_property

from dpbo_core.accounting.composition import Total, largest_rho
from dpbo_core.privacy.amounts import allowed_units, from_units
from dpbo_core.privacy.unit import NeighboringRelation

NEEDS_ONLY_DELTA = frozenset({"gp_prior", "de_freitas_constants"})


@dataclass(frozen=True)
class PrivacyBudget:
    """One dataset's cap. It never changes; `public` means there is nothing to protect and no limit."""

    dataset: str
    epsilon_units: int
    delta_units: int
    relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE
    accepts: tuple[str, ...] = ()
    public: bool = False

    @classmethod
    def of(
        cls,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE,
        accepts: tuple[str, ...] = (),
    ) -> "PrivacyBudget":
        """A finite cap from the numbers a person typed, rounded down to 10⁻¹²."""
        return cls(dataset, allowed_units(epsilon), allowed_units(delta), relation, tuple(sorted(set(accepts))))

    @classmethod
    def without_limit(cls, dataset: str) -> "PrivacyBudget":
        """A dataset declared public."""
        return cls(dataset, 0, 0, public=True)

    @property
    def delta_only_units(self) -> int:
        """δ_x in 10⁻¹²."""
        return self.delta_units // 2 if NEEDS_ONLY_DELTA & set(self.accepts) else 0

    @property
    def delta_conversion(self) -> float:
        """δ_z."""
        return from_units(self.delta_units - self.delta_only_units)

    @cached_property
    def rho_units(self) -> int:
        """ρ* in 10⁻¹²."""
        return largest_rho(from_units(self.epsilon_units), self.delta_conversion)

    def admits(self, total: Total) -> bool:
        """Whether everything spent so far together with what is asked stays under the cap."""
        if self.public:
            return True
        if total.delta_units > self.delta_only_units:
            return False
        pure = total.epsilon_units is not None and total.epsilon_units <= self.epsilon_units
        return pure or total.rho_units <= self.rho_units
