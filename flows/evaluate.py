"""The story of an evaluation: what is public first, one draw, show the report."""

from typing import cast

from prefect import flow

from dpbo.flows.plain_output import announce_stage
from dpbo.flows.prefect_runtime.liveness import alive
from dpbo.flows.prefect_runtime.prefect_page import name_run, wait_until_recorded, with_message
from dpbo.flows.prefect_runtime.refusals import failed_run
from dpbo.flows.prefect_runtime.requested_study import study_of
from dpbo.flows.prefect_runtime.workers import DaskWorkers, workers
from dpbo.flows.private_flow import PrivateFlow
from dpbo.flows.publishing import UNNAMED, publish_release
from dpbo.flows.results import Evaluated as Evaluated
from dpbo.tasks import policies
from dpbo.tasks.queries import evaluate, prepare
from dpbo.tasks.reporting.champion import champion_after
from dpbo.tasks.reporting.mlflow_lookup import Tracked
from dpbo.tasks.reporting.mlflow_run import log_repaired
from dpbo_core.errors import BudgetRefused, DpboError, StudyInvalid
from dpbo_core.preparation.data_split import validation_parts
from dpbo_core.privacy.release import Release
from dpbo_core.queries.evaluation.run import EvaluationResult
from dpbo_core.scoring.partitioned import Workers
from dpbo_core.study_file import StudySpec


@flow(name="evaluate privately", **policies.FLOW)
def evaluate_privately(
    study: StudySpec,
    folder: str = ".",
    epsilon: float | None = None,
    model: str | None = None,
    pad: float = 0.0,
    register: bool = False,
) -> Evaluated:
    """Evaluate the released or a saved model on sensitive records, alone or in your flow; charged once, then free.

    Args:
        study: whose [evaluation] says what is asked (from Prefect's form: the same fields as JSON).
        folder: the folder that the study's data paths are relative to.
        epsilon: ε of the report, in the place of evaluation.epsilon; charged on top of what the study cost.
        model: the folder of a saved, public model; the model that the study released where None.
        pad: the task on sensitive data takes a whole number of so many seconds; 0 for none.
        register: let the evaluated model be the registered model's champion where what was released says that it is
            better (`reporting.champion`); of the model that the study released alone.

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
        return _evaluated(PrivateFlow.begin(study, folder, pad, model=model), epsilon, model, register=register)
    except DpboError as error:
        return cast("Evaluated", failed_run(error, study))


def _evaluated(flow: PrivateFlow, epsilon: float | None, model: str | None, *, register: bool) -> Evaluated:
    """Evaluate and publish as `evaluate_privately` says."""
    study, folder, warnings = flow.study, str(flow.run.folder), flow.warnings
    warnings.tried(UNNAMED, lambda: name_run(study, "evaluation"))
    with alive(flow.stores.running), workers(study, folder) as counting:
        if isinstance(counting, DaskWorkers):
            counting.wait(validation_parts(study, folder))
        result, tracked = report(flow, epsilon=epsilon, model=model, workers=counting)
        warnings.tried(
            "Prefect's record of the run may lack tasks", lambda: wait_until_recorded(n_tasks(result, tracked))
        )
        champion = None
        if register and model is None and tracked is not None:
            champion = warnings.tried("the champion stays", lambda: _update_champion(flow, result.release))
        return with_message(Evaluated(result, tracked, tuple(warnings.lines), champion or ""), result)


def _update_champion(flow: PrivateFlow, report: Release) -> str:
    """Make the evaluated model MLflow's champion if its report is better; returns a sentence about it."""
    study, dataset = flow.study, flow.study.privacy.dataset
    editions = flow.run.ledger.editions(study.name, edition=study.edition, dataset=dataset)
    chosen = [one.release for one in editions if one.release is not None]
    if len(chosen) != 1:
        raise StudyInvalid(
            f"{len(chosen)} studies of the name and edition {study.name}:{study.edition} were released",
            cause="one was changed and tuned again under the same edition",
            remedy="set the alias yourself, in MLflow; give every change an edition of its own",
        )
    return champion_after(chosen[0], report, flow.stores.tracking)


def n_tasks(result: EvaluationResult | None, tracked: Tracked | None) -> int:
    """How many Prefect tasks `report` ran: one to prepare, one if it drew noise, one if it published."""
    return 1 + (result is not None and not result.replayed) + (tracked is not None)


def report(
    flow: PrivateFlow, *, epsilon: float | None = None, model: str | None = None, workers: Workers | None = None
) -> tuple[EvaluationResult, Tracked | None]:
    """Charge and evaluate, or read the recorded report, and publish it: the report and its page in MLflow (None
    where that failed); raises the refusal of a budget.
    """
    name = flow.study.name
    announce_stage(name, "preparing the model that is evaluated")
    opened = prepare(flow.study, flow.run, model, epsilon)
    if isinstance(opened, EvaluationResult):
        result = opened
    else:
        announce_stage(name, "counting the sensitive records")
        drawn = evaluate(opened, flow.scored_by(workers))
        if isinstance(drawn, BudgetRefused):
            raise drawn
        result = drawn
    announce_stage(name, "the report is recorded; MLflow's page and pictures follow")
    tracked = publish_release(flow, result.release)
    if tracked is not None and result.repair is not None:
        place, mended = (
            (result.release, tracked.run_id, flow.stores.tracking),
            (result.repair, result.repaired_model),
        )
        flow.warnings.tried("MLflow does not show the repaired model", lambda: log_repaired(*place, *mended))
    return result, tracked
