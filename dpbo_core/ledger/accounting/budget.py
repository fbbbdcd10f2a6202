"""The ceiling on a dataset, in the parts that admission compares with what is spent.

| symbol | name here | meaning |
|---|---|---|
| ε, δ | `epsilon_units`, `delta_units` | the cap, in 10⁻¹², as people typed it |
| δ_x | `delta_only_units` | the part kept for spends that are only (ε, δ); 0 unless an assumption needs them |
| δ_z | `delta_conversion` | the part at which zCDP is converted, fixed at opening |
| ρ* | `largest_rho` | the largest ρ whose conversion at δ_z is at most ε, rounded down |

Admit iff Σδ_i ≤ δ_x and (Σr_i ≤ ρ*, or no draw is Gaussian and Σε_i ≤ ε), with r_i of `renyi_filter`. On a path
admitted by pure ε alone the loss never exceeds ε; the rest is bounded by δ_z at one fixed order, so the rule is
sound for spends chosen adaptively.

Where the guarantees are about training records, δ_x = δ and δ_z = 0: every spend there is pure or only (ε, δ), and
(Σε_i, Σδ_i) is basic composition. A cap holds guarantees of one unit only, and which one its first spend decides
before anything was drawn, so this split too is fixed before there is anything to protect. (A split that changed
later, or lent δ_z to δ_x on some paths, would be unsound: an adversary crosses over where the conversion can no
longer fail.)
"""

from dataclasses import dataclass

from dpbo_core.ledger.accounting.composition import Filter, Total
from dpbo_core.privacy.amounts import allowed_units, from_units
from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyUnit

NEEDS_ONLY_DELTA = frozenset({"gp_prior", "de_freitas_constants", "charge_fixed_beforehand"})


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
        """Return a dataset's budget cap from the ε and δ that a person typed, rounded down to 10⁻¹²."""
        return cls(dataset, allowed_units(epsilon), allowed_units(delta), relation, tuple(sorted(set(accepts))))

    @classmethod
    def without_limit(cls, dataset: str) -> "PrivacyBudget":
        """Return the budget cap of a dataset declared public, which limits nothing."""
        return cls(dataset, 0, 0, public=True)

    @property
    def delta_only_units(self) -> int:
        """Return the part of the cap's δ, in 10⁻¹², that is reserved for draws that are only (ε, δ)-private: half
        of δ if the cap accepts an assumption that needs such draws, else 0.
        """
        return self.delta_units // 2 if NEEDS_ONLY_DELTA & set(self.accepts) else 0

    @property
    def delta_conversion(self) -> float:
        """Return δ_z, the part of the cap's δ at which the summed zCDP costs ρ are converted to an ε."""
        return self.conversion_for(None)

    def conversion_for(self, unit: PrivacyUnit | None) -> float:
        """Return the part of the cap's δ at which Σρ is converted to an ε: δ_z, or 0 for guarantees about training
        records, whose costs are only summed as (ε, δ).
        """
        if unit is PrivacyUnit.TRAINING_RECORD:
            return 0.0
        return from_units(self.delta_units - self.delta_only_units)

    def admits(self, total: Total, unit: PrivacyUnit | None, filtered: Filter) -> bool:
        """Return whether the cap admits a dataset's spends, the new query's among them: `total` is their sum,
        `filtered` their sum of Rényi prices. Always if the dataset is public.

        Args:
            total: its sums.
            unit: whom the guarantees protect.
            filtered: its Σr_i, at the order that was fixed when the cap was opened.
        """
        if self.public:
            return True
        pure = total.epsilon_units is not None and total.epsilon_units <= self.epsilon_units
        if unit is PrivacyUnit.TRAINING_RECORD:
            return pure and total.delta_units <= self.delta_units
        if total.delta_units > self.delta_only_units:
            return False
        return pure or filtered.fits(self.epsilon_units, self.delta_conversion)
