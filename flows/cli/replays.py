"""A study or an evaluation that was released and is shown already: the ledger is read, and nothing is run.

Neither Prefect nor MLflow is loaded, no sensitive file is opened, nothing drawn or spent. Whatever is not known to
be shown whole is no replay: then the flow runs as ever, and publishes what is missing.
"""

from collections.abc import Iterable
from pathlib import Path

from dpbo.flows.cli.show import is_there
from dpbo.flows.evaluated import Evaluated
from dpbo.flows.prefect_runtime.settings import Stores
from dpbo.flows.tuned import Tuned
from dpbo.tasks.reporting.mlflow_lookup import Tracked, seen_in_file
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.accounting.sources import Source
from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.release import Release
from dpbo_core.spec import StudySpec
from dpbo_core.study.replay import StudyResult, recorded_release


def replayed(study: StudySpec, folder: str) -> tuple[Tuned, Account] | None:
    """The release that `study` has, where MLflow shows it already, and its dataset's account; None if not.

    Where its [evaluation] states a price, with the report of its last step, or not at all.

    Raises:
        StudyInvalid: the study's public data cannot be read.
        LedgerDamaged: the ledger cannot be read.
    """
    ledger = _ledger_here()
    if ledger is None:
        return None
    release = recorded_release(study, ledger=ledger, folder=folder)
    shown = _shown(release)
    if release is None or shown is None:
        return None
    tuned = Tuned(StudyResult(release, replayed=True), shown)
    if study.evaluation is not None and study.evaluation.epsilon is not None:
        try:
            last = reported(study, folder)
        except StudyInvalid:  # beside a release that stands the flow tells it as a warning
            last = None
        if last is None:
            return None
        tuned = Tuned(tuned.result, shown, (), last[0].result, last[0].tracked)
    (account,) = ledger.accounts(study.privacy.dataset)
    return tuned, account


def reported(
    study: StudySpec, folder: str, *, epsilon: float | None = None, model: Path | None = None
) -> tuple[Evaluated, Account] | None:
    """The report that an evaluation has, where MLflow shows it already, and its dataset's account; None if not.

    Raises:
        StudyInvalid: it cannot be asked so, or public data cannot be read.
        LedgerDamaged: the ledger cannot be read.
    """
    ledger = _ledger_here()
    if ledger is None:
        return None
    from dpbo_core.evaluation.run import recorded_report

    result = recorded_report(study, ledger=ledger, model=model, epsilon=epsilon, folder=folder)
    shown = None if result is None else _shown(result.release)
    if result is None or shown is None:
        return None
    (account,) = ledger.accounts(study.privacy.dataset)
    return Evaluated(result, shown), account


def check_public_here(sources: Iterable[Source]) -> None:
    """Nothing that a command reads as public is a sensitive file of this folder's ledger, if there is one.

    Raises:
        PolicyRefused: it is one.
    """
    from dpbo_core.study.consent import check_public_sources

    ledger = _ledger_here()
    if ledger is not None:
        check_public_sources(sources, ledger)


def _ledger_here() -> PrivacyLedger | None:
    """The ledger of this folder; None where there is none, which opening it would make."""
    stores = Stores()
    if not is_there(stores.ledger):
        return None
    stores.make_folder()
    return PrivacyLedger(stores.ledger)


def _shown(release: Release | None) -> Tracked | None:
    return None if release is None else seen_in_file(release, Stores().tracking)
