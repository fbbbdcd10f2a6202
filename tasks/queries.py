"""An evaluation.

What is public of it is one task; the spend, the records and the draw are another.
"""

from dpbo.tasks import policies
from dpbo.tasks.policies import private_task
from dpbo_core.errors import BudgetRefused
from dpbo_core.report.comparison import OpenComparison
from dpbo_core.report.evaluation import EvaluationResult, OpenEvaluation, open_evaluation
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run


@private_task(name="prepare evaluation", **policies.SENSITIVE_TASK_OPTIONS)
def prepare(
    run: Run, model: str | None, epsilon: float | None
) -> OpenEvaluation | OpenComparison | EvaluationResult:
    """Prepare an evaluation of the saved `model`, or (None) the released one, uncharged; or its recorded report."""
    return open_evaluation(run, model=model, epsilon=epsilon)


@private_task(name="evaluate", **policies.SENSITIVE_TASK_OPTIONS)
def evaluate(opened: OpenEvaluation | OpenComparison, context: QueryContext) -> EvaluationResult | BudgetRefused:
    """Charge, count the records, noise and record the report; a refusal of the ledger is returned, not raised."""
    return policies.or_refused(lambda: opened.finish(context))
