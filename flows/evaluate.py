"""The story of an evaluation: what is public first, one draw, show the report."""

from dataclasses import replace
from typing import cast

from dpbo.flows.prefect_runtime.flow_runs import is_alive
from dpbo.flows.private_flow import Evaluated as Evaluated
from dpbo.flows.private_flow import PrivateFlow, local_champion, study_of, workers
from dpbo.flows.run_end import (
    UNNAMED_RUN_WARNING,
    failed_run,
    name_outcome,
    name_run,
    publish_release,
    tags_of,
    wait_until_recorded,
    with_message,
)
from dpbo.flows.terminal import announce_stage
from dpbo.tasks import policies
from dpbo.tasks.queries import evaluate, prepare
from dpbo.tasks.reporting.mlflow_run import log_comparison, log_repaired
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo_core.errors import BudgetRefused, DpboError
from dpbo_core.models.scoring.processes import Processes
from dpbo_core.privacy.release import Release
from dpbo_core.report import COMPARED
from dpbo_core.report.evaluation import EvaluationResult
from dpbo_core.report.request import unsaved_cost
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import validation_parts
from dpbo_core.study.run import Run


@policies.private_flow(name="evaluate privately", **policies.FLOW_OPTIONS)
def evaluate_privately(
    study: StudySpec,
    folder: str = ".",
    epsilon: float | None = None,
    model: str | None = None,
    register: bool = False,
) -> Evaluated:
    """Evaluate the released or a saved model on sensitive records, alone or in your flow; charged once, then free.

    Where [evaluation] names a champion (`against`), the model is compared with it instead.

    Args:
        study: whose [evaluation] says what is asked (from Prefect's form: the same fields as JSON).
        folder: the folder that the study's data paths are relative to.
        epsilon: ε of the report, instead of evaluation.epsilon; charged on top of what the study cost.
        model: the folder of a saved, public model; the model that the study released where None.
        register: register the study's model, under the alias `champion`, if it is better than its champion.

    Returns:
        The report, recorded in the ledger and shown in MLflow. Asked again it is the same, and costs nothing.

    Raises:
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: the study is not tuned yet, or cannot be evaluated, or
            its budget does not pay for it; nothing was charged.
        DpboError: nothing was charged: no report could be shown.
        Sealed: something failed on sensitive data; run it again and it continues.
    """
    try:
        study = study_of(study)
        flow = PrivateFlow.begin(folder, registers=register)
        with local_champion(study) as asked:
            run = Run.of(asked, flow.context, *unsaved_cost(model))
            return evaluate_in(flow, run, epsilon=epsilon, model=model)
    except DpboError as error:
        return cast("Evaluated", failed_run(error, study))


def evaluate_run(run: Run, *, epsilon: float | None, model: str | None, register: bool = False) -> Evaluated:
    """Evaluate the study of a `Run` that this process made already: the flow `evaluate privately`."""

    @policies.private_flow(name="evaluate privately", **policies.FLOW_OPTIONS)
    def evaluate_privately(study: StudySpec, folder: str, epsilon: float | None, model: str | None) -> Evaluated:
        """Return the same as the flow for whoever has a study."""
        try:
            flow = PrivateFlow.begin(folder, registers=register)
            return evaluate_in(flow, run, epsilon=epsilon, model=model)
        except DpboError as error:
            return cast("Evaluated", failed_run(error, study))

    return evaluate_privately(run.spec, str(run.folder), epsilon, model)


def evaluate_in(flow: PrivateFlow, run: Run, *, epsilon: float | None, model: str | None) -> Evaluated:
    """Charge, evaluate and publish, or read the recorded report; inside whatever flow runs it."""
    study, warnings = run.spec, flow.warnings
    tags = tags_of(study, run.folder)
    warnings.tried(UNNAMED_RUN_WARNING, lambda: name_run(study.name, study.edition, "evaluation", **tags))
    with is_alive(flow.stores.running), workers(study, str(run.folder)) as counting:
        run = run.under(replace(flow.context, workers=counting, if_useless=run.context.if_useless))
        if not isinstance(counting, Processes | None):
            counting.wait(validation_parts(study, run.folder))
        result, tracked = report(flow, run, epsilon=epsilon, model=model)
        name_outcome(flow, result.release)
        warnings.tried(
            "Prefect's record of the run may lack tasks", lambda: wait_until_recorded(n_tasks(result, tracked))
        )
        return with_message(Evaluated(result, tracked, tuple(warnings.lines)), result)


def n_tasks(result: EvaluationResult | None, tracked: Tracked | None) -> int:
    """Return how many Prefect tasks `report` ran: one to prepare, one if it drew noise, one if it published."""
    return 1 + (result is not None and not result.replayed) + (tracked is not None)


def report(
    flow: PrivateFlow, run: Run, *, epsilon: float | None = None, model: str | None = None
) -> tuple[EvaluationResult, Tracked | None]:
    """Return the report of an evaluation, charged and made now or read back, and its page in MLflow.

    The page is None if publishing failed. A refusal of the budget is raised.
    """
    study, name = run.spec, run.spec.name
    announce_stage(name, "preparing the model that is evaluated")
    opened = prepare(run, model, epsilon)
    if isinstance(opened, EvaluationResult):
        result = opened
    else:
        announce_stage(name, "counting the sensitive records")
        drawn = evaluate(opened, flow.before_charge(study, run.context, opened.query))
        if isinstance(drawn, BudgetRefused):
            raise drawn
        result = drawn
    announce_stage(name, "the report is recorded; MLflow's page and pictures follow")
    tracked = publish_release(flow, study, result.release)
    if COMPARED in result.release.value and tracked is not None:
        tracked = shown_on_challenger(flow, run, result.release, tracked, model)
    if tracked is not None and result.repair is not None:
        place, mended = (
            (result.release, tracked.run_id, flow.stores.tracking),
            (result.repair, result.repaired_model),
        )
        flow.warnings.tried("MLflow does not show the repaired model", lambda: log_repaired(*place, *mended))
    return result, tracked


def shown_on_challenger(
    flow: PrivateFlow, run: Run, comparison: Release, tracked: Tracked, model: str | None
) -> Tracked:
    """Show a comparison on the challenger's run in MLflow too, and move the alias `champion` if asked.

    Returns where it is shown, with the address of the version that became the champion.
    """
    tuned = run.recorded() if model is None else None
    if tuned is None:
        return tracked
    moved = flow.warnings.tried(
        "MLflow does not show the comparison on the model's own run",
        lambda: log_comparison(comparison, tuned, flow.stores.tracking, registers=flow.registers),
    )
    return replace(tracked, model_uri=moved or "")
