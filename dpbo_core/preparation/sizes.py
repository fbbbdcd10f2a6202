"""How many records a study has: from the study alone, but for n."""

from pathlib import Path

from dpbo_core import data
from dpbo_core.data import bundled, check_record_count
from dpbo_core.data.addresses import files_of
from dpbo_core.data.read_mode import PUBLIC_FILE
from dpbo_core.study_file import (
    BundledData,
    PersonFiles,
    PredictionTable,
    PublicFiles,
    SensitiveBundled,
    SensitiveFiles,
    SensitiveTraining,
    StudySpec,
)


def n_validation(spec: StudySpec) -> int | None:
    """The stated number m of records that are scored; None where persons are averaged: then m is private."""
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
    """The number n of PUBLIC training records, by their header; None if sensitive, absent or in many files."""
    match spec.data:
        case BundledData(source, share):
            return bundled.n_records(source) - bundled.validation_size(source, share)
        case PublicFiles(training=public) | PersonFiles(training=public) | PredictionTable(public=str(public)):
            if files_of(Path(folder) / public):  # they are counted when they are read
                return None
            return data.read_header(Path(folder) / public, mode=PUBLIC_FILE, shown_as=public).n_records
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
