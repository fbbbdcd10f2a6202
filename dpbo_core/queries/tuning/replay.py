"""The release that a study has already: a rerun shows it again, and neither draws nor spends."""

from dataclasses import dataclass
from pathlib import Path

from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.preparation.data_split import public_sources
from dpbo_core.preparation.preconditions import check_public_sources
from dpbo_core.preparation.training_set import study_fingerprint, training_digest
from dpbo_core.privacy.release import Release
from dpbo_core.study_file import StudySpec


@dataclass(frozen=True)
class StudyResult:
    """What a study gives back. `replayed` says that it had been released before, and nothing was drawn now."""

    release: Release
    replayed: bool


def recorded_release(spec: StudySpec, *, ledger: PrivacyLedger, folder: str | Path = ".") -> Release | None:
    """The release of this very study, from the ledger; None where it has none.

    Of the data only the PUBLIC training set is read, whose content is part of the study, and only where the ledger
    has a release under the study's name and edition. Nothing is encoded, fitted or trained.

    Args:
        spec: the study.
        ledger: where it was recorded.
        folder: the folder that its data paths are relative to.

    Raises:
        StudyInvalid: the training data cannot be read.
        PolicyRefused: they are a dataset's sensitive records.
        LedgerDamaged: the ledger cannot be read.
    """
    if all(found.release is None for found in ledger.editions(spec.name, edition=spec.edition)):
        return None
    check_public_sources(public_sources(spec, folder), ledger)
    return ledger.release_of(study_fingerprint(spec, training_digest(spec, folder)))
