"""The story of a private tune: public work, reserve, a task a step, finish, train the choice, show the release."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

from prefect import flow

from dpbo.flows.evaluate import n_tasks, report
from dpbo.flows.prefect_runtime.fanning_out import prepared
from dpbo.flows.prefect_runtime.liveness import alive, run_logger
from dpbo.flows.prefect_runtime.prefect_page import (
    StepsDone,
    name_run,
    wait_until_recorded,
    with_message,
)
from dpbo.flows.prefect_runtime.progress import Progress, announce_release, in_short
from dpbo.flows.prefect_runtime.refusals import failed_run
from dpbo.flows.prefect_runtime.requested_study import refuse_fields, scheduled_study, study_of
from dpbo.flows.prefect_runtime.settings import refuse_folder_settings
from dpbo.flows.prefect_runtime.workers import DaskWorkers, workers
from dpbo.flows.private_flow import PrivateFlow
from dpbo.flows.publishing import UNNAMED, publish_release
from dpbo.flows.results import Tuned as Tuned
from dpbo.tasks import policies
from dpbo.tasks.reporting.mlflow_lookup import Tracked
from dpbo.tasks.tuning import finish, reserve, step
from dpbo_core.errors import AssumptionNotAccepted, BudgetRefused, DpboError, StudyInvalid, printable
from dpbo_core.final_model.train import model_is_public
from dpbo_core.preparation.data_split import validation_parts
from dpbo_core.preparation.resolve import ResolvedStudy, resolve
from dpbo_core.privacy.release import StudyResult
from dpbo_core.queries.evaluation.request import asks_for_evaluation, last_step
from dpbo_core.queries.evaluation.run import EvaluationResult
from dpbo_core.queries.tuning.run import StudyRun
from dpbo_core.scoring.partitioned import Workers
from dpbo_core.scoring.processes import Processes
from dpbo_core.study_file import StudySpec


@flow(name="tune privately", **policies.FLOW)
def tune_privately(study: StudySpec, folder: str = ".", pad_steps: float = 0.0, register: bool = False) -> Tuned:
    """Tune a study's model privately, alone or in your flow, charging its dataset's budget; asked again it is free.

    Args:
        study: what to tune (from Prefect's form: the same fields as JSON); its price is its own (ε, δ), charged to
            its dataset's budget before any record is read.
        folder: the folder that the study's data paths are relative to.
        pad_steps: each task on sensitive data takes a whole number of so many seconds, so that its duration tells
            less; 0 for none.
        register: make the final model a version of MLflow's registered model of the study's name.

    Returns:
        The release, recorded in the ledger and shown in MLflow. The same study again gives the same release, and
        publishes what could not be published before.

    Raises:
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: nothing was charged.
        DpboError: nothing was charged: no release could be shown (a deleted experiment, a store out of order).
        Sealed: a step failed; run the study again and it continues.
    """
    try:
        study = study_of(study)
        tuned = tune(replace(PrivateFlow.begin(study, folder, pad_steps), registers=register))
    except DpboError as error:
        return cast("Tuned", failed_run(error, study))
    return with_message(tuned, tuned.result)


@flow(name="tune a study file", **policies.FLOW)
def tune_file(study: str) -> Tuned:
    """Tune the study in the file at path `study` privately: the short form of `tune privately`.

    Args:
        study: path of the study file, from the folder in which the worker runs. Its price is its own; the same
            study again gives the same release and spends nothing.
    """
    path, spec = Path(study), None
    try:
        refuse_folder_settings(Path())
        spec = scheduled_study(path, None)
        refuse_fields(spec)
        tuned = tune(PrivateFlow.begin(spec, str(path.parent)))
    except DpboError as error:
        return cast("Tuned", failed_run(error, spec or study))
    return with_message(tuned, tuned.result)


def tune(flow: PrivateFlow) -> Tuned:
    """Charge, search and release a study, unless that is recorded; evaluate and publish it, in any Prefect flow."""
    study, folder, warnings = flow.study, str(flow.run.folder), flow.warnings
    resolved = resolve(study, folder)
    warnings.tried(UNNAMED, lambda: name_run(study))
    evaluates = asks_for_evaluation(study)
    follow_up = last_step(resolved, flow.run) if evaluates else None
    with alive(flow.stores.running), workers(study, folder, resolved.method) as scoring:
        processes = scoring if isinstance(scoring, Processes) else None
        precomputed, n_prepared = prepared(resolved, folder, flow.run.ledger, processes)
        if isinstance(scoring, DaskWorkers):  # it was joined meanwhile; before anything is charged
            scoring.wait(validation_parts(study, folder))
        opened = reserve(resolved, flow.scored_by(scoring), precomputed, follow_up)
        if isinstance(opened, BudgetRefused):
            raise opened
        n_steps = _run_steps(opened, resolved) if isinstance(opened, StudyRun) else 0
        result = finish(opened)
        announce_release(study.name, result.release)
        tracked = publish_release(flow, result.release, opened)
        n_recorded = n_prepared + n_steps + len((reserve, finish))
        if tracked is not None:  # published, and the final model was trained for it
            n_recorded += 1 + (not result.replayed and model_is_public(result.release))
        last: tuple[EvaluationResult | None, Tracked | None] = (None, None)
        if evaluates:
            last = _last_step(flow, scoring, result)
            n_recorded += n_tasks(*last)
        warnings.tried("Prefect's record of the run may lack tasks", lambda: wait_until_recorded(n_recorded))
        return Tuned(result, tracked, tuple(warnings.lines), *last)


def _run_steps(opened: StudyRun, resolved: ResolvedStudy) -> int:
    """Run the search's steps as tasks, one each, or several of a public list in one: the number of tasks."""
    if opened.rereading_notice:
        sys.stderr.write(f"{printable(opened.rereading_notice)}.\n")
    study, deviations = resolved.spec, resolved.step_deviations
    with Progress(study.name, opened.n_steps) as progress:
        page = StepsDone(study, opened.n_steps)
        for steps in opened.tasks:
            _, released = step(opened, steps)
            progress.show(released, len(steps), deviation=deviations.get(steps[-1] + 1))
            page.show(len(steps))
            if released is not None:  # recorded before it came back, so anyone may see it
                run_logger().info("step %d released %s", released["step"], in_short(released))
    return len(opened.tasks)


def _last_step(
    flow: PrivateFlow, counting: Workers | None, tuned: StudyResult
) -> tuple[EvaluationResult | None, Tracked | None]:
    """Evaluate the tuned model: its report and page; None, None, with a warning, if refused after a replay."""
    try:
        return report(flow, workers=counting)
    except (StudyInvalid, BudgetRefused, AssumptionNotAccepted) as refused:
        if not tuned.replayed:
            raise
        warning = DpboError(f"the release stands, and was not evaluated: {refused.what}", remedy=refused.remedy)
        flow.warnings.add(warning.message())
        return None, None
