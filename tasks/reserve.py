"""Reserve a study's whole price and open its two halves."""

from pathlib import Path
from typing import Any

from prefect import task

from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.ahead import Ahead
from dpbo_core.errors import BudgetRefused
from dpbo_core.partitions import Workers
from dpbo_core.study import StudyRun, StudySpec, open_study
from tasks import policies


@task(name="reserve", **policies.SENSITIVE_TASK)
def reserve(
    study: StudySpec,
    folder: str | Path,
    ledger_url: str,
    pad: float,
    workers: Workers | None,
    ahead: Ahead | None,
    *,
    owner: bool,
) -> StudyRun | BudgetRefused:
    """Plan, reserve durably, then open the sensitive half; a handle that says nothing, or the ledger's refusal.

    A refusal is an answer and not a failure: the flow decides what it means, and no trace is logged.
    """
    return opened_or_refused(study, folder, ledger_url, pad=pad, workers=workers, ahead=ahead, owner=owner)


def opened_or_refused(
    study: StudySpec, folder: str | Path, ledger_url: str, **options: Any
) -> StudyRun | BudgetRefused:
    """The study opened, or the letter that says why the ledger would not pay for it."""
    try:
        return open_study(study, ledger=PrivacyLedger(ledger_url), folder=folder, **options)
    except BudgetRefused as refused:
        return refused.with_traceback(None)
