"""How many records a study has, and what is public of a sensitive training set: from the study alone."""

from dpbo_core.data import bundled
from dpbo_core.problem import TrainingFacts
from dpbo_core.spec import StudySpec


def n_validation(spec: StudySpec) -> int:
    """m, from the study alone: no file is opened."""
    if spec.data.source is not None:
        return bundled.validation_size(spec.data.source, spec.data.validation_share)
    records = spec.data.n_training if spec.data.validation is None else spec.data.n_validation
    assert records is not None  # noqa: S101  the section was checked when it was made
    return records


def training_facts(spec: StudySpec) -> TrainingFacts | None:
    """What is public of a sensitive training set, from the study alone; None where the set is public."""
    if not spec.data.trains_privately:
        return None
    if spec.data.source is None:
        assert spec.data.n_training is not None  # noqa: S101  the section was checked when it was made
        assert spec.data.labels is not None  # noqa: S101
        return TrainingFacts(spec.data.n_training, spec.data.labels)
    n = bundled.n_records(spec.data.source) - n_validation(spec)
    return TrainingFacts(n, spec.data.labels or bundled.public_facts(spec.data.source)[0])
