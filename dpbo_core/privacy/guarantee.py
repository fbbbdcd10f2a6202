"""The guarantee. A bare ε is not a type we have."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from dpbo_core.privacy.json_values import amount_of, list_of, text_of
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit, whom

OPERATING_SYSTEM = "operating_system"  # where a release's noise came from, as the ledger and the release write it
INJECTED = "injected"  # by a test, or to reproduce a paper: it guarantees nothing


class Standing(StrEnum):
    """STANDARD: textbook or library. PRINTED: as the paper has it, and pays that. CORRECTED: a paper's statement,
    corrected or tightened by us. REFUTED: known false.
    """

    STANDARD = "standard"
    PRINTED = "printed"
    CORRECTED = "corrected"
    REFUTED = "refuted"


@dataclass(frozen=True)
class Evidence:
    """How well the proof stands, and a note that says where it is or what is wrong with it."""

    standing: Standing
    note: str

    @property
    def refuted(self) -> bool:
        """Whether the guarantee's proof is known to be wrong, so that its ε is ∞."""
        return self.standing is Standing.REFUTED


NOT_PRIVATE = Evidence(Standing.REFUTED, "the noise was injected, not drawn from the operating system")


@dataclass(frozen=True)
class PrivacyGuarantee:
    """(ε, δ)-differential privacy of everything a study releases.

    Attributes:
        epsilon: ε > 0; infinite exactly when the evidence is refuted.
        delta: δ in [0, 1); 0 is pure differential privacy.
        unit: whom it protects.
        relation: which data sets are neighbours.
        assumptions: names of CALLER assumptions; empty for an unconditional guarantee.
        evidence: the standing of the proof.
        person: for the unit `person`, the column that says whose record it is; it is about those persons
            alone, so a budget holds guarantees of one column.
    """

    epsilon: float
    delta: float
    unit: PrivacyUnit
    relation: NeighboringRelation
    assumptions: tuple[str, ...]
    evidence: Evidence
    person: str | None = None

    def in_words(self) -> str:
        """The guarantee in one sentence that a reader of the release can quote; that there is none, if refuted."""
        if self.evidence.refuted:
            return f"No privacy guarantee: {self.evidence.note}."
        kind = f"ε = {self.epsilon:g}" if self.delta == 0 else f"(ε, δ) = ({self.epsilon:g}, {self.delta:g})"
        under = f" under the assumptions {', '.join(self.assumptions)}" if self.assumptions else ""
        private = "holds" if self.assumptions else "differentially private"
        person_clause = "" if self.person is None else f", as column {self.person!r} tells them apart"
        return (
            f"{kind}, {private}{under}, for {whom(self.unit)}{person_clause} ({self.relation.replace('_', ' ')})."
        )

    def as_drawn(self, standing: str) -> "PrivacyGuarantee":
        """This guarantee, or none (ε = ∞) where `standing` says that the noise was not the system's."""
        if standing == OPERATING_SYSTEM:
            return self
        return replace(self, epsilon=float("inf"), evidence=NOT_PRIVATE)

    def to_json(self) -> dict[str, Any]:
        """The guarantee as plain JSON, with null for an infinite ε."""
        return {
            "epsilon": self.epsilon if self.epsilon < float("inf") else None,
            "delta": self.delta,
            "unit": self.unit.value,
            "relation": self.relation.value,
            "assumptions": list(self.assumptions),
            "evidence": self.evidence.standing.value,
            "evidence_note": self.evidence.note,
        } | ({} if self.person is None else {"person": self.person})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "PrivacyGuarantee":
        """The guarantee that `to_json` wrote.

        Raises:
            ValueError, TypeError, LookupError: it is none.
        """
        return cls(
            epsilon=float("inf") if data["epsilon"] is None else amount_of(data["epsilon"]),
            delta=amount_of(data["delta"]),
            unit=PrivacyUnit(data["unit"]),
            relation=NeighboringRelation(data["relation"]),
            assumptions=tuple(map(text_of, list_of(data["assumptions"]))),
            evidence=Evidence(Standing(data["evidence"]), text_of(data["evidence_note"])),
            person=None if data.get("person") is None else text_of(data["person"]),
        )
