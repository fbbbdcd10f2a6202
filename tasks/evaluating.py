"""A private evaluation: what is public of it in one task, then the spend, the count and the draw in another."""

from collections.abc import Callable
from pathlib import Path

from prefect import task

from dpbo.tasks import policies
from dpbo.tasks.reporting.mlflow_lookup import CheckedLedger
from dpbo_core.errors import BudgetRefused
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.queries.evaluation.run import EvaluationResult, OpenEvaluation, open_evaluation
from dpbo_core.scoring.partitioned import Workers
from dpbo_core.study_file import StudySpec


@task(name="prepare evaluation", **policies.SENSITIVE_TASK)
def prepare(
    study: StudySpec, folder: str | Path, ledger_url: str, model: str | None, epsilon: float | None
) -> OpenEvaluation | EvaluationResult:
    """Train or read the model, choose the bins, price; or find the report that was recorded. Charges nothing."""
    return open_evaluation(study, ledger=PrivacyLedger(ledger_url), model=model, epsilon=epsilon, folder=folder)


@task(name="evaluate", **policies.SENSITIVE_TASK)
def evaluate(
    opened: OpenEvaluation,
    ledger_url: str,
    pad: float,
    ready: Callable[[], None],
    *,
    owner: bool,
    workers: Workers | None = None,
) -> EvaluationResult | BudgetRefused:
    """Reserve durably, count the records once, noise once, record; or the ledger's refusal, which is an answer.

    `ready` is asked before a first charge, and may refuse by raising. `workers` count the parts of a partitioned
    validation set.
    """
    return policies.or_refused(
        lambda: opened.finish(CheckedLedger(ledger_url, ready), pad=pad, owner=owner, workers=workers)
    )
