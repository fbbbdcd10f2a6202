"""What a command may read of a study file: the study of one run, one that has released, files that are public."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from dpbo.flows.cli.running import is_there, ledger_here
from dpbo.flows.private_flow import refuse_fields
from dpbo.flows.stores import Stores
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.sources import Source
from dpbo_core.privacy.named_parts import NamedParts
from dpbo_core.study import StudySpec
from dpbo_core.study.preconditions import check_public_sources
from dpbo_core.study.sections import PrivacySection
from dpbo_core.study.spec import read_study, study_tables


class FeatureStudy(Protocol):
    """A study file that a feature answers whole, since it has a section that the core does not know."""

    @property
    def name(self) -> str:
        """The study's name in the ledger."""

    @property
    def edition(self) -> str:
        """The study's edition, a text."""

    @property
    def privacy(self) -> PrivacySection:
        """[privacy]: the dataset, and the price."""

    def plan(self, *, rehearse: bool) -> None:
        """Print what to expect of it."""

    def tune(self, *, anyway: bool) -> None:
        """Charge, run and print it."""


FEATURE_SECTIONS: Mapping[str, Callable[[Mapping[str, Any], Path], FeatureStudy]] = NamedParts(
    __name__, {}, group="dpbo.sections"
)


def feature_study(path: Path) -> FeatureStudy | None:
    """Return the study in `path` where an installed feature declares one of its sections; None for all others."""
    tables = study_tables(path)
    section = next((name for name in tables if name in FEATURE_SECTIONS), None)
    return None if section is None else FEATURE_SECTIONS[section](tables, path.parent)


def check_public_here(sources: Iterable[Source]) -> None:
    """Refuse to read as public a sensitive file of this folder's ledger; nothing is refused without a ledger."""
    ledger = ledger_here()
    if ledger is not None:
        check_public_sources(sources, ledger)


def study_of_one_run(path: Path, *, anyway: bool = False, read: StudySpec | None = None) -> StudySpec:
    """Return the study in `path`, spent on anyway if this command says `anyway`; refused if it has fields ({date}).

    `read` is that study where it was read already.
    """
    study = read or read_study(path)
    refuse_fields(study)
    return study.replace(privacy=study.privacy.replace(anyway=True)) if anyway else study


def released_study(
    path: Path,
    *,
    remedy: str = "run dpbo tune first, or change to the folder that holds mlruns",
    anyway: bool = False,
) -> StudySpec:
    """The study in `path`, refused where there is no ledger here; whether it released anything is not looked up."""
    study = study_of_one_run(path, anyway=anyway)
    if not is_there(Stores().ledger):
        raise StudyInvalid(
            f"there is no ledger here, so the study {study.name!r} has released no model yet",
            cause="it is not tuned, or another folder's ledger was meant",
            remedy=remedy,
        )
    return study
