"""How many records a study has, and what is public of a sensitive training set: from the study alone, but for n."""

from pathlib import Path

from dpbo_core.data import bundled, check_record_count, read_header
from dpbo_core.data.read_mode import PUBLIC_FILE
from dpbo_core.problem.problem import TrainingFacts
from dpbo_core.scoring.partitioned import CACHE_GIGABYTES, files_of
from dpbo_core.study_file import (
    BundledData,
    PersonFiles,
    PredictionTable,
    PublicFiles,
    SensitiveBundled,
    SensitiveData,
    SensitiveFiles,
    SensitiveTraining,
    StudySpec,
)


def n_validation(spec: StudySpec) -> int | None:
    """The stated number m of validation records; None where persons are averaged: then m is private."""
    match spec.data:
        case PersonFiles():
            return None
        case BundledData(source, share) | SensitiveBundled(source, share):
            return bundled.validation_size(source, share)
        case PublicFiles(n_validation=m) | SensitiveFiles(n_validation=m) | PredictionTable(n_validation=m):
            return m
        case SensitiveTraining(n_training=n):
            return n


def n_public(spec: StudySpec, folder: str | Path) -> int | None:
    """The number n of PUBLIC training records; None where they are sensitive or cannot be counted.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.
    """
    match spec.data:
        case BundledData(source, share):
            return bundled.n_records(source) - bundled.validation_size(source, share)
        case PublicFiles(training=public) | PersonFiles(training=public) | PredictionTable(public=str(public)):
            if files_of(Path(folder) / public):  # they are counted when they are read
                return None
            return read_header(Path(folder) / public, mode=PUBLIC_FILE, shown_as=public).n_records
        case _:
            return None


def check_n_validation(spec: StudySpec, n_records: int, *, shown_as: str = "the validation file") -> None:
    """Refuse another number of validation records than the study states, unless m is private.

    Raises:
        StudyInvalid: there are not; says the two numbers.
    """
    stated = n_validation(spec)
    if stated is not None:
        check_record_count(n_records, stated, shown_as=shown_as)


def training_facts(spec: StudySpec) -> TrainingFacts | None:
    """The declared facts of a sensitive training set; None where the training set is public."""
    return facts_of(spec.data) if isinstance(spec.data, SensitiveData) else None


def facts_of(data: SensitiveData) -> TrainingFacts:
    """The declared facts of a sensitive training set."""
    match data:
        case SensitiveFiles(n_training=n, labels=labels) | SensitiveTraining(n_training=n, labels=labels):
            return TrainingFacts(n, labels, scored=isinstance(data, SensitiveTraining))
        case SensitiveBundled(source, share, labels=classes):
            n = bundled.n_records(source) - bundled.validation_size(source, share)
            return TrainingFacts(n, classes or bundled.public_facts(source)[0], bundled.FEATURES[source])


def memory_limit(spec: StudySpec) -> int:
    """The bytes of each kind that may be in memory: encoded records, public rows, models."""
    section = spec.data
    stated = section.memory_limit if isinstance(section, PublicFiles | PersonFiles) else None
    return int((CACHE_GIGABYTES if stated is None else stated) * 1e9)
