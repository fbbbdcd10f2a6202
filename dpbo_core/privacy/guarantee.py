"""A promise, its unit and its assumptions: (ε, δ), whom it protects, what it rests on and how well it is proved."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from dpbo_core.privacy.amounts import amount_of, list_of, text_of


class PrivacyUnit(StrEnum):
    """Whose data a guarantee protects: that by which two neighbouring data sets differ."""

    VALIDATION_RECORD = "validation_record"
    PERSON = "person"
    TRAINING_RECORD = "training_record"
    CANDIDATE_ROW = "candidate_row"


class NeighboringRelation(StrEnum):
    """Which data sets are neighbours. Guarantees under different relations never share a budget.

    REPLACE_ONE replaces records in their places, so neighbours have equally many. REPLACE_ONE_PERSON replaces all
    records of one person by any number of records of one person not otherwise present, or by none.
    ADD_OR_REMOVE_ONE adds or removes a record, at a stated number of records that is public. ZERO_OUT replaces a
    record by one that adds nothing.
    """

    REPLACE_ONE = "replace_one"
    REPLACE_ONE_PERSON = "replace_one_person"
    ADD_OR_REMOVE_ONE = "add_or_remove_one"
    ROW_MOVES_BY_ONE = "row_moves_by_one"
    ZERO_OUT = "zero_out"

    @classmethod
    def _missing_(cls, value: object) -> "NeighboringRelation | None":
        """Return the relation that a study file calls "add_or_remove"."""
        return cls.ADD_OR_REMOVE_ONE if value == "add_or_remove" else None


def unit_in_words(unit: PrivacyUnit) -> str:
    """Whom the guarantee protects, in plain words: "each person in the validation set"."""
    return {
        PrivacyUnit.VALIDATION_RECORD: "each record of the validation set",
        PrivacyUnit.PERSON: "each person in the validation set",
        PrivacyUnit.TRAINING_RECORD: "each record of the training set and of the validation set",
        PrivacyUnit.CANDIDATE_ROW: "each row of the candidate table",
    }[unit]


@dataclass(frozen=True)
class Assumption:
    """A theorem's hypothesis: the name that a study writes under `accepts`, and one sentence that states it."""

    name: str
    statement: str


GP_PRIOR = Assumption(
    "gp_prior",
    "The validation score, as a function of the hyperparameters and of the data set, is a draw from the "
    "stated multi-task Gaussian process, whose kernels and scale were chosen without looking at the data.",
)
DE_FREITAS_CONSTANTS = Assumption(
    "de_freitas_constants",
    "The constants A and τ of de Freitas, Smola and Zoghi (2012), stated without looking at the data, hold for "
    "this validation score and for that of every neighbouring data set.",
)
ANSWERS_PUBLIC = Assumption(
    "answers_public", "The answers given to the modeller hold nothing that needs protection."
)
ROWWISE_PREDICTIONS = Assumption(
    "rowwise_predictions",
    "The estimator or the score, which dpbo does not vouch for, judges each record by that record alone; or, of "
    "predictions made elsewhere, each was computed from its record and public data alone, by a public model.",
)
ROWWISE_REMEDY = (
    "use classes on the list alone, where a FunctionTransformer may hold a NumPy function such as np.log1p"
)

PUBLIC_PRIOR = Assumption(
    "public_prior",
    "The scores that the study's prior was made from were measured on public data, or were released privately; no "
    "record that the study protects moved them otherwise.",
)

PUBLISHED_RECORDS = Assumption(
    "published_records",
    "The records of the files that the data set's owner published (dpbo budget publish) are public: they are not "
    "among those that this guarantee protects.",
)

PUBLIC_QUESTIONS = Assumption(
    "public_questions",
    "Whoever asked for the scores of a private objective made each question from public knowledge and from what "
    "was released before it alone.",
)
PUBLIC_MODELS = Assumption(
    "public_models",
    "Every fitted model that was handed in was made from public data, or from what was released, alone.",
)
ROWS_IN_ONE_TABLE = Assumption(
    "rows_in_one_table", "No person has records in more than one of the tables that a pooled watch reads as one."
)
DISJOINT_PEOPLE = Assumption(
    "disjoint_people",
    "No person has a record in the training set and one in the validation set, and nothing in a record decides "
    "which of the two it is in.",
)
PUBLIC_VALIDATION = Assumption(
    "public_validation",
    "The records that models are scored on are public: they are not among those that this guarantee protects.",
)
STEP_TIMES_HIDDEN = Assumption(
    "step_times_hidden",
    "Nobody but whoever runs the study sees how long its steps take, neither as they run nor in a record of them: "
    "a step trains the model that exact scores led it to, and some models train longer than others.",
)
DECLARED_COST = Assumption(
    "declared_cost",
    "The declared price is true of the training code as it runs, also where it fails or is late, under the stated "
    "neighbours and sampling. Its noise is fresh in every trial, by the seed that it is handed; what it "
    "reports and seeds with depends on no record. It uses nothing of an earlier trial, sends nothing elsewhere, "
    "and its model scores a record by that record alone.",
)
CONTAINED_ELSEWHERE = Assumption(
    "contained_elsewhere",
    "What a trial writes, sends or leaves running outside its own folder stays hidden from everybody else: this "
    "system gives a trial no namespaces of its own.",
)
CHARGE_FIXED_BEFOREHAND = Assumption(
    "charge_fixed_beforehand",
    "The price and the form of each spend that was declared for work outside dpbo were fixed by a rule before its "
    "outcome was seen.",
)
STATED_BY_CALLING = frozenset({PUBLIC_QUESTIONS.name})  # who calls takes it on; no study and no cap names it

CALLER_ASSUMPTIONS = {
    a.name: a
    for a in (
        GP_PRIOR,
        DE_FREITAS_CONSTANTS,
        ANSWERS_PUBLIC,
        ROWWISE_PREDICTIONS,
        PUBLIC_PRIOR,
        PUBLISHED_RECORDS,
        PUBLIC_QUESTIONS,
        PUBLIC_MODELS,
        ROWS_IN_ONE_TABLE,
        DISJOINT_PEOPLE,
        PUBLIC_VALIDATION,
        STEP_TIMES_HIDDEN,
        DECLARED_COST,
        CONTAINED_ELSEWHERE,
        CHARGE_FIXED_BEFOREHAND,
    )
}


OPERATING_SYSTEM = "operating_system"  # where a release's noise came from, as the ledger and the release write it
OTHER_TOOLS_NOISE = "elsewhere"  # by another tool, whose spend was declared
INJECTED_NOISE = "injected"  # by a test, or to reproduce a paper: it guarantees nothing


class Standing(StrEnum):
    """STANDARD: textbook or library. PRINTED: as the paper has it, and pays that. CORRECTED: a paper's statement,
    corrected or tightened by us. DECLARED: as the caller declared it, not checked. REFUTED: known false.
    """

    STANDARD = "standard"
    PRINTED = "printed"
    CORRECTED = "corrected"
    DECLARED = "declared"
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


NOT_PRIVATE_EVIDENCE = Evidence(Standing.REFUTED, "the noise was injected, not drawn from the operating system")


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

    @property
    def protected(self) -> str:
        """Whom the guarantee protects, in plain words: "each person in the validation set"."""
        if PUBLIC_VALIDATION.name in self.assumptions:
            return "each record of the training set"
        if self.unit is PrivacyUnit.TRAINING_RECORD and self.person is not None:
            return "each person in the training set"
        return unit_in_words(self.unit)

    @property
    def one_protected(self) -> str:
        """One of those whom the guarantee protects, in plain words: "any one person in the validation set"."""
        return self.protected.replace("each ", "any one ").replace(" and of ", " or of ")

    def in_words(self) -> str:
        """The guarantee in one sentence that a reader of the release can quote; that there is none, if refuted."""
        if self.evidence.refuted:
            return f"No privacy guarantee: {self.evidence.note}."
        kind = f"ε = {self.epsilon:g}" if self.delta == 0 else f"(ε, δ) = ({self.epsilon:g}, {self.delta:g})"
        under = f" under the assumptions {', '.join(self.assumptions)}" if self.assumptions else ""
        private = "holds" if self.assumptions else "differentially private"
        if self.evidence.standing is Standing.DECLARED:
            private = self.evidence.note
        person_clause = "" if self.person is None else f", as column {self.person!r} tells them apart"
        return f"{kind}, {private}{under}, for {self.protected}{person_clause} ({self.relation.replace('_', ' ')})."

    def as_drawn(self, standing: str) -> "PrivacyGuarantee":
        """Return this guarantee, or one with ε = ∞ if `standing` says that the noise was injected by a test."""
        if standing == OPERATING_SYSTEM:
            return self
        return replace(self, epsilon=float("inf"), evidence=NOT_PRIVATE_EVIDENCE)

    def to_json(self) -> dict[str, Any]:
        """Return the guarantee as plain JSON, with null for an infinite ε."""
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
        """Return the guarantee that `to_json` wrote."""
        return cls(
            epsilon=float("inf") if data["epsilon"] is None else amount_of(data["epsilon"]),
            delta=amount_of(data["delta"]),
            unit=PrivacyUnit(data["unit"]),
            relation=NeighboringRelation(data["relation"]),
            assumptions=tuple(map(text_of, list_of(data["assumptions"]))),
            evidence=Evidence(Standing(data["evidence"]), text_of(data["evidence_note"])),
            person=None if data.get("person") is None else text_of(data["person"]),
        )
