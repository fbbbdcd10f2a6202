"""What a search on tables in memory asks of a score of pairs: its public share, and how it was asked before."""

from dataclasses import replace
from typing import Any

from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.data.features import class_values
from dpbo_core.data.frames import Frame
from dpbo_core.models.prototype import Prototype
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.models.scores.union import RECORD_SCORES
from dpbo_core.sklearn_api.public_encoder import target_name
from dpbo_core.sklearn_api.tables_in_memory import FrameSplit, model_section
from dpbo_core.spec import StudySpec
from dpbo_core.spec.named_score import score_of
from dpbo_core.study.public_advice import share_of_positives
from dpbo_core.study.resolve import resolve


def public_positives(spec: StudySpec, training: Frame) -> float | None:
    """The share of the second class in the PUBLIC table; None where no pairs are counted.

    Raises:
        StudyInvalid: there are other than two classes.
    """
    if not isinstance(score_of(spec.model), PairScore):
        return None
    target = target_name(training.names)
    table = training.table(target_name=target, source="X")
    return share_of_positives(spec, table, target, class_values(target, table))


def as_it_began(search: Any, spec: StudySpec, training: Frame, prototype: Prototype, ledger_url: str) -> StudySpec:
    """The study as it was charged before pairs were counted, by public class shares; the study itself where not.

    Args:
        search: the `PrivateSearch`.
        spec: its study.
        training: its public table.
        prototype: its estimator.
        ledger_url: of the ledger, as the search resolved it.
    """
    if not isinstance(score_of(spec.model), PairScore) or spec.model.score_name not in RECORD_SCORES:
        return spec
    before = replace(spec, model=model_section(search, training, weighted=True))
    study = resolve(before, unlisted=prototype.unlisted())
    split = FrameSplit(before, training, training, prototype, target_name(training.names))
    key = study.key(split.public(study.problem).fingerprint)
    return before if PrivacyLedger(ledger_url).reserved(key.fingerprint) else spec
