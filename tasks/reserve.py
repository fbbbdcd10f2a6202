"""Reserve a study's whole price and open its two halves."""

from pathlib import Path

from prefect import task

from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.errors import BudgetRefused
from dpbo_core.study import StudyRun, StudySpec, open_study
from tasks import policies


@task(name="reserve", **policies.SENSITIVE_TASK)
def reserve(study: StudySpec, folder: str | Path, ledger_url: str) -> StudyRun | BudgetRefused:
    """Plan, reserve durably, then open the sensitive half; a handle that says nothing, or the ledger's refusal.

    A refusal is an answer and not a failure: the flow decides what it means, and no trace is logged.
    """
    return reserved_or_refused(study, folder, ledger_url)


def reserved_or_refused(study: StudySpec, folder: str | Path, ledger_url: str) -> StudyRun | BudgetRefused:
    """The study opened, or the letter that says why the ledger would not pay for it."""
    try:
        return open_study(study, ledger=PrivacyLedger(ledger_url), folder=folder)
    except BudgetRefused as refused:
        return refused.with_traceback(None)
