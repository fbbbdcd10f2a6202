"""The PUBLIC share of the second class, which says how far a count of pairs reaches: for advice, in no price."""

from pathlib import Path

from dpbo_core.data import Table
from dpbo_core.data.features import class_values
from dpbo_core.data.values import positions
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.spec import LinearSection, SensitiveData, StudySpec
from dpbo_core.spec.named_score import score_of, score_on
from dpbo_core.study.data_split import training_table
from dpbo_core.study.training_set import training_parts


def public_share(spec: StudySpec, folder: str | Path) -> float | None:
    """From the public training file, where the study's score counts pairs; None where it is not there to be read.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.

    Raises:
        StudyInvalid: the file's target has other than two classes.
    """
    if isinstance(spec.data, SensitiveData) or not isinstance(score_of(spec.model), PairScore):
        return None
    try:
        parts = training_parts(spec, folder)
        table, target = training_table(spec, folder) if parts is None else (parts[0].only(parts[1]), parts[1])
        classes = class_values(target, table)
    except StudyInvalid:  # whoever runs the study says so
        return None
    return share_of_positives(spec, table, target, classes)


def share_of_positives(
    spec: StudySpec, table: Table, target: str, classes: tuple[float | str, ...]
) -> float | None:
    """The share of the second class in a PUBLIC table; None where the study counts no pairs.

    Raises:
        StudyInvalid: there are other than two classes.
    """
    if not isinstance(score_of(spec.model), PairScore):
        return None
    if not isinstance(spec.model, LinearSection):
        score_on(spec.model, classes)
    return float((positions(table.columns[target], classes) == 1).mean())
