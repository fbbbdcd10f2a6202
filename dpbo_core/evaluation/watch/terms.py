"""What a watch is opened with, and what the ledger knows it by.

The terms are fixed when the threshold's noise is recorded, and stay: a later version, or a changed study file,
looks on with them or is refused. So nothing but the edition, the model and whose people they are makes another
watch.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpbo_core.accounting.ledger import StudyKey
from dpbo_core.errors import StudyInvalid
from dpbo_core.evaluation.watch import KIND, LOOK
from dpbo_core.evaluation.watch.measure import MeanMeasure, PairMeasure
from dpbo_core.evaluation.watch.power import Noise
from dpbo_core.mechanisms.above_threshold import AboveThreshold
from dpbo_core.privacy.amounts import allowed_units
from dpbo_core.spec import StudySpec, WatchSection

LOOKS = "looks"  # the one priced draw
THRESHOLD = "noise of the threshold"


def noise_of(name: str) -> str:
    """Under which the ledger knows that a look began."""
    return f"noise of {look_of(name)}"


def look_of(name: str) -> str:
    """Under which the ledger keeps a look's bit."""
    return f"{LOOK}{name}"


@dataclass(frozen=True)
class Terms:
    """Everything that is fixed for all looks of one watch.

    Attributes:
        drop: the fall that is to be seen, in units of the score.
        epsilon: of all looks together.
        least_records: the fewest records, or persons, of a table.
        reference: in units of the score, greater is better.
        threshold: θ in steps; None until it is chosen.
    """

    drop: float
    epsilon: float
    least_records: int
    reference: float
    threshold: int | None = None

    def mechanism(self, measure: MeanMeasure | PairMeasure) -> AboveThreshold:
        """The comparisons at their price."""
        return AboveThreshold(measure.sensitivity(self.least_records), allowed_units(self.epsilon), measure.unit)

    def noise(self, measure: MeanMeasure | PairMeasure, n: int, spread: float) -> Noise:
        """What is added to a fall, of tables of n whose records' scores spread so far."""
        made, h = self.mechanism(measure), measure.unit
        sampling = measure.sampling(n, spread, self.reference)
        return Noise(made.of_threshold.scale * h, made.of_comparison.scale * h, sampling)

    def to_json(self) -> dict[str, Any]:
        """As it is recorded with the threshold."""
        return {
            "drop": self.drop,
            "epsilon": self.epsilon,
            "least_records": self.least_records,
            "reference": self.reference,
            "theta": self.threshold,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> "Terms":
        """The inverse of `to_json`, which may stand among other things."""
        return cls(told["drop"], told["epsilon"], told["least_records"], told["reference"], told["theta"])


def asked_terms(wanted: WatchSection, *, least_records: int, reference: float) -> Terms:
    """The terms of a watch that is not open yet.

    Args:
        wanted: what the study or the command asks for.
        least_records: where they do not say.
        reference: in units of the score.

    Raises:
        StudyInvalid: no drop or no ε is stated.
    """
    for name, value in (("drop", wanted.drop), ("epsilon", wanted.epsilon)):
        if value is None:
            raise StudyInvalid(
                f"the watch states no {name}",
                cause="how far the score may fall, and what all looks cost together, is yours to say",
                remedy="give --drop 0.02 --epsilon 1, or the same under [watch]",
            )
    drop, epsilon = float(wanted.drop or 0.0), float(wanted.epsilon or 0.0)
    return Terms(drop, epsilon, wanted.least_records or least_records, reference)


def check_terms(wanted: WatchSection, open_: Terms, reference: float | None) -> None:
    """What is asked for, where it is said at all, is what the watch was opened with.

    Args:
        wanted: what the study or the command asks for now.
        open_: what was fixed.
        reference: the reference that is asked for, in units of the score; None where it is not said.

    Raises:
        StudyInvalid: it is something else. Nothing was drawn.
    """
    for name, asked, fixed in (
        ("drop", wanted.drop, open_.drop),
        ("epsilon", wanted.epsilon, open_.epsilon),
        ("least_records", wanted.least_records, open_.least_records),
        ("reference", reference, open_.reference),
    ):
        if asked is not None and asked != fixed:
            raise StudyInvalid(
                f"this watch was opened with {name} = {fixed:g}, and {asked:g} is asked for",
                cause="its terms were fixed with its secret threshold, before its first look",
                remedy="leave it as it was, or open another watch: a new edition in [watch], which is a new spend",
            )


def watch_key(spec: StudySpec, model: str, counted: str, edition: str) -> StudyKey:
    """What the ledger knows a watch by.

    Args:
        spec: the study.
        model: which model is watched (`digest_of_released`).
        counted: whose records count, and how many of each.
        edition: of the watch.
    """
    asked = {"dataset": spec.privacy.dataset, "model": model, "edition": edition, "counted": counted}
    text = json.dumps([KIND, asked], sort_keys=True, ensure_ascii=False, allow_nan=False)
    fingerprint = hashlib.sha256(text.encode()).hexdigest()
    shown = spec.edition if edition == "1" else f"{spec.edition}.{edition}"
    return StudyKey(fingerprint, spec.privacy.dataset, f"{spec.name}/{KIND}", shown, KIND)
