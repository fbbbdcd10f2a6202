"""The story of a private tune: public work, reserve, a task a step, finish, train the choice, show the release.

Public work goes in Prefect's tasks of this process, a chunk of Λ each. A chunk is shared with the processes that a
study asks for, once public work took longer than they need to start.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dpbo.flows.prefect_runtime.flow_runs import is_alive, refuse_folder_settings, run_logger
from dpbo.flows.private_flow import PrivateFlow, refuse_fields, scheduled_study, study_of, workers
from dpbo.flows.private_flow import Tuned as Tuned
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
from dpbo.flows.terminal import Progress, announce_release, in_short
from dpbo.tasks import policies
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo.tasks.tuning import cross_validate_chunk, finish, reserve, search_publicly, step, train_chunk, try_out
from dpbo_core.errors import AssumptionNotAccepted, BudgetRefused, DpboError, StudyInvalid, printable
from dpbo_core.models.scoring.processes import Processes
from dpbo_core.privacy.release import StudyResult
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import validation_parts
from dpbo_core.study.final_training import model_is_public
from dpbo_core.study.precomputed import Precomputed, PublicWork
from dpbo_core.study.query import PrivateQuery
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import ReadyStudy, ReplayedStudy, StudyRun, ready_study

if TYPE_CHECKING:
    from dpbo_core.report.evaluation import EvaluationResult

ShownReport = tuple["EvaluationResult | None", Tracked | None]
PIECES_LABEL = "pieces of public work"


@policies.private_flow(name="tune privately", **policies.FLOW_OPTIONS)
def tune_privately(study: StudySpec, folder: str = ".", register: bool = False) -> Tuned:
    """Tune a study's model privately, alone or in your flow, charging its dataset's budget; asked again it is free.

    Args:
        study: what to tune (from Prefect's form: the same fields as JSON); its price is its own (ε, δ), charged to
            its dataset's budget before any record is read.
        folder: the folder that the study's data paths are relative to.
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
        flow = PrivateFlow.begin(folder, registers=register)
        tuned = tune(flow, Run.of(study, flow.context))
    except DpboError as error:
        return cast("Tuned", failed_run(error, study))
    return with_message(tuned, tuned.result)


def tune_run(run: Run, *, register: bool = False) -> Tuned:
    """Tune the study of a `Run` that this process made already: the flow `tune privately`, with its parameters."""

    @policies.private_flow(name="tune privately", **policies.FLOW_OPTIONS)
    def tune_privately(study: StudySpec, folder: str, register: bool) -> Tuned:
        """Return the same as the flow for whoever has a study."""
        try:
            tuned = tune(PrivateFlow.begin(folder, registers=register), run)
        except DpboError as error:
            return cast("Tuned", failed_run(error, study))
        return with_message(tuned, tuned.result)

    return tune_privately(run.spec, str(run.folder), register)


@policies.private_flow(name="tune a study file", **policies.FLOW_OPTIONS)
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
        flow = PrivateFlow.begin(path.parent)
        tuned = tune(flow, Run.of(spec, flow.context))
    except DpboError as error:
        return cast("Tuned", failed_run(error, spec or study))
    return with_message(tuned, tuned.result)


def tune(flow: PrivateFlow, run: Run) -> Tuned:
    """Charge, search and release a study, unless that is recorded; evaluate and publish it, in any Prefect flow."""
    study, warnings = run.spec, flow.warnings
    warnings.tried(UNNAMED_RUN_WARNING, lambda: name_run(study.name, study.edition, **tags_of(study, run.folder)))
    with is_alive(flow.stores.running), workers(study, str(run.folder), run.method) as scoring:
        run = run.under(replace(flow.context, workers=scoring, if_useless=run.context.if_useless))
        precomputed, n_prepared = prepared(run, scoring if isinstance(scoring, Processes) else None)
        if not isinstance(scoring, Processes | None):  # a cluster, joined meanwhile; before anything is charged
            scoring.wait(validation_parts(study, run.folder))
        ready = ready_study(run, precomputed=precomputed)
        opened = ready if isinstance(ready, ReplayedStudy) else _charged(flow, ready)
        n_steps = _run_steps(opened, run) if isinstance(opened, StudyRun) else 0
        result = finish(opened)
        announce_release(study.name, result.release)
        tracked = publish_release(flow, study, result.release, opened)
        n_recorded = n_prepared + n_steps + (2 if isinstance(opened, StudyRun) else 1)  # reserve, finish
        if tracked is not None:  # published, and the final model was trained for it
            n_recorded += 1 + (not result.replayed and model_is_public(result.release))
        last: ShownReport = (None, None)
        if study.asks_for_evaluation:
            last, n_tasks = _last_step(flow, run, result)
            n_recorded += n_tasks
        name_outcome(flow, result.release, *(() if last[0] is None else (last[0].release,)))
        warnings.tried("Prefect's record of the run may lack tasks", lambda: wait_until_recorded(n_recorded))
        return Tuned(result, tracked, tuple(warnings.lines), *last)


def _charged(flow: PrivateFlow, ready: ReadyStudy) -> StudyRun:
    study = ready.run.spec
    last: tuple[PrivateQuery, ...] = ()
    if study.asks_for_evaluation:
        from dpbo_core.report.request import own_evaluation

        last = (own_evaluation(ready),)
    opened = reserve(ready, last, flow.before_charge(study, ready.run.context, ready.query, *last))
    if isinstance(opened, BudgetRefused):
        raise opened
    return opened


def _run_steps(opened: StudyRun, run: Run) -> int:
    if opened.rereading_notice:
        sys.stderr.write(f"{printable(opened.rereading_notice)}.\n")
    study, deviations = run.spec, run.study.step_deviations
    with Progress(study.name, opened.n_steps) as progress:
        for steps in opened.tasks:
            _, released = step(opened, steps)
            progress.show(released, len(steps), deviation=deviations.get(steps[-1] + 1))
            if released is not None:  # recorded before it came back, so anyone may see it
                if released["step"] == 1:
                    run_logger().info("a score is shown with its noise, which can carry it out of its range")
                run_logger().info("step %d tried %s", released["step"], in_short(released))
    return len(opened.tasks)


def _last_step(flow: PrivateFlow, run: Run, tuned: StudyResult) -> tuple[ShownReport, int]:
    """Evaluate the tuned model: the report with its page, and the number of tasks; a refused replay only warns."""
    from dpbo.flows.evaluate import n_tasks, report

    report_of_model: ShownReport = (None, None)
    try:
        report_of_model = report(flow, run)
    except (StudyInvalid, BudgetRefused, AssumptionNotAccepted) as refused:
        if not tuned.replayed:
            raise
        warning = DpboError(f"the release stands, and was not evaluated: {refused.what}", remedy=refused.remedy)
        flow.warnings.add(warning.message())
    return report_of_model, n_tasks(*report_of_model)


def prepared(run: Run, processes: Processes | None = None) -> tuple[Precomputed | None, int]:
    """Train and cross-validate on public data before any charge: results (None: none needed), number of tasks.

    None are needed for a sensitive training set, or a study that was released before.
    """
    if run.problem.training is not None or run.recorded() is not None:
        return None, 0
    work = PublicWork(run, processes)
    if run.spec.asks_for_evaluation:
        from dpbo_core.report.request import check_report

        check_report(run.study, run.public, run.folder)
    pieces: list[Callable[[], object]] = [partial(try_out, work, part) for part in work.to_try]
    pieces += [partial(cross_validate_chunk, work, part) for part in work.to_cross_validate]
    pieces += [partial(search_publicly, work)] * work.searches
    pieces += [partial(train_chunk, work, part) for part in work.to_train]
    with Progress(run.spec.name, len(pieces), PIECES_LABEL) as progress:
        for piece in pieces:
            piece()
            progress.show(None)
    return work.done(), len(pieces)
