"""Reserve a study's whole price and open its two halves."""

from pathlib import Path

from prefect import task

from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.study import StudyRun, StudySpec, open_study
from tasks import policies


@task(name="reserve", **policies.SENSITIVE_TASK)
def reserve(study: StudySpec, folder: str | Path, ledger_url: str, pad: float) -> StudyRun:
    """Plan, reserve durably, then open the sensitive half; a handle that says nothing."""
    return open_study(study, ledger=PrivacyLedger(ledger_url), folder=folder, pad=pad)
