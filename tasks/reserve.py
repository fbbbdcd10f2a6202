"""Reserve a study's whole price and open its two halves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prefect import task

from dpbo_core.ahead import Ahead
from dpbo_core.errors import BudgetRefused
from dpbo_core.partitions import Workers
from dpbo_core.study import StudyRun, StudySpec, open_study
from tasks import policies
from tasks.tracking.targets import CheckedLedger


@task(name="reserve", **policies.SENSITIVE_TASK)
def reserve(
    study: StudySpec,
    folder: str | Path,
    ledger_url: str,
    pad: float,
    workers: Workers | None,
    ahead: Ahead | None,
    ready: Callable[[], None],
    *,
    owner: bool,
) -> StudyRun | BudgetRefused:
    """Plan, reserve durably, then open the sensitive half; a handle that says nothing, or the ledger's refusal.

    `ready` is asked before a first charge, and may refuse by raising.

    A refusal is an answer and not a failure: the flow decides what it means, and no trace is logged.
    """
    return opened_or_refused(
        study, folder, CheckedLedger(ledger_url, ready), pad=pad, workers=workers, ahead=ahead, owner=owner
    )


def opened_or_refused(
    study: StudySpec, folder: str | Path, ledger: CheckedLedger, **options: Any
) -> StudyRun | BudgetRefused:
    """The study opened, or the letter that says why the ledger would not pay for it."""
    try:
        return open_study(study, ledger=ledger, folder=folder, **options)
    except BudgetRefused as refused:
        return refused.with_traceback(None)
