"""What the same answer for every record scores on the PUBLIC training set: for advice, in no price."""

from pathlib import Path

from dpbo_core.errors import StudyInvalid
from dpbo_core.spec import SensitiveData, StudySpec
from dpbo_core.study.data_split import public_half


def public_baseline(spec: StudySpec, folder: str | Path) -> float | None:
    """From the public training file; None where it is not there to be read, or the score has no such answer.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.
    """
    if isinstance(spec.data, SensitiveData) or spec.model.own_score:  # of a function there is none
        return None
    try:
        return public_half(spec, folder).problem.baseline
    except StudyInvalid:  # whoever runs the study says so
        return None
