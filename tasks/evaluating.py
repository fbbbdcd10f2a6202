"""A private evaluation: what is public of it in one task, then the spend, the count and the draw in another."""

from prefect import task

from dpbo.tasks import policies
from dpbo_core.errors import BudgetRefused
from dpbo_core.preparation.run import Run
from dpbo_core.queries.evaluation.run import EvaluationResult, OpenEvaluation, open_evaluation
from dpbo_core.study_file import StudySpec


@task(name="prepare evaluation", **policies.SENSITIVE_TASK)
def prepare(
    study: StudySpec, run: Run, model: str | None, epsilon: float | None
) -> OpenEvaluation | EvaluationResult:
    """Prepare an evaluation of the saved `model`, or (None) the released one, uncharged; or its recorded report."""
    return open_evaluation(study, run, model=model, epsilon=epsilon)


@task(name="evaluate", **policies.SENSITIVE_TASK)
def evaluate(opened: OpenEvaluation, run: Run) -> EvaluationResult | BudgetRefused:
    """Charge, count the records, noise and record the report; a refusal of the ledger is returned, not raised."""
    return policies.or_refused(lambda: opened.finish(run))
