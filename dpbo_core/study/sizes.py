"""How many records a study has, and what is public of a sensitive training set: from the study alone."""

from dpbo_core.data import bundled
from dpbo_core.problem import TrainingFacts
from dpbo_core.spec import (
    BundledData,
    PublicFiles,
    SensitiveBundled,
    SensitiveData,
    SensitiveFiles,
    SensitiveTraining,
    StudySpec,
)


def n_validation(spec: StudySpec) -> int:
    """m, from the study alone: no file is opened."""
    match spec.data:
        case BundledData(source, share) | SensitiveBundled(source, share):
            return bundled.validation_size(source, share)
        case PublicFiles(n_validation=m) | SensitiveFiles(n_validation=m):
            return m
        case SensitiveTraining(n_training=n):
            return n


def training_facts(spec: StudySpec) -> TrainingFacts | None:
    """What is public of a sensitive training set, from the study alone; None where the set is public."""
    return facts_of(spec.data) if isinstance(spec.data, SensitiveData) else None


def facts_of(data: SensitiveData) -> TrainingFacts:
    """What is public of a sensitive training set."""
    match data:
        case SensitiveFiles(n_training=n, labels=labels) | SensitiveTraining(n_training=n, labels=labels):
            return TrainingFacts(n, labels)
        case SensitiveBundled(source, share, labels=given):
            n = bundled.n_records(source) - bundled.validation_size(source, share)
            return TrainingFacts(n, given or bundled.public_facts(source)[0])
