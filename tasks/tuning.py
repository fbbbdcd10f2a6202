"""A private tune: public work before the charge, a task a chunk of Λ; then one task a step, and the release shown.

A task of a step trains and scores one model where the path is public, or a chunk of a list that was known before
the charge: a list has 32 tasks at most. Where it is private every model was trained by public tasks, a chunk each,
before anything was charged, since which of them a step trains would tell the path: the step scores; or it trains
and scores one model, under an assumption, and no name says which. Where the number of models is private too, one
step runs all trials.
Reserving trains nothing.
"""

from collections.abc import Sequence
from pathlib import Path

from dpbo.tasks import policies
from dpbo.tasks.policies import private_task, without_prefect
from dpbo.tasks.reporting.document import point_in_short
from dpbo.tasks.reporting.mlflow_run import log_release
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo_core.errors import BudgetRefused, printable
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.methods.contract import Released
from dpbo_core.privacy.release import Release, StudyResult
from dpbo_core.study import StudySpec
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.precomputed import PublicWork
from dpbo_core.study.query import PrivateQuery, QueryContext
from dpbo_core.study.tuning import ReadyStudy, ReplayedStudy, StudyRun


@private_task(name="cross-validate candidates", **policies.SENSITIVE_TASK_OPTIONS)
def cross_validate_chunk(work: PublicWork, indices: tuple[int, ...]) -> int:
    """Cross-validate some candidates on public records: the number of scores so far."""
    return work.cross_validate(indices)


@private_task(name="search on public data", **policies.SENSITIVE_TASK_OPTIONS)
def search_publicly(work: PublicWork) -> int:
    """Finish a search on public data, whose trials depend on one another: the number of scores so far."""
    return work.search()


@private_task(name="train candidates", **policies.SENSITIVE_TASK_OPTIONS)
def train_chunk(work: PublicWork, indices: tuple[int, ...]) -> int:
    """Train some candidates before the charge, as the steps may not train: the number of models so far."""
    return work.train(indices)


@private_task(name="try out trainings", **policies.SENSITIVE_TASK_OPTIONS)
def try_out(work: PublicWork, indices: tuple[int, ...]) -> int:
    """Train some candidates before the charge, so that a failure, which raises, costs nothing: how many."""
    return work.try_out(indices)


@private_task(name="reserve the budget", **policies.SENSITIVE_TASK_OPTIONS)
def reserve(
    ready: ReadyStudy, follow_ups: Sequence[PrivateQuery], context: QueryContext
) -> StudyRun | BudgetRefused:
    """Charge a study's plan and its `follow_ups`, and open its records; a refusal is returned, not raised."""
    return policies.or_refused(lambda: ready.charge(*follow_ups, context=context))


@private_task(name="search step", **policies.SENSITIVE_TASK_OPTIONS)
def step(study: StudyRun, steps: Sequence[int]) -> tuple[StudyRun, Released | None]:
    """Run the next len(`steps`) steps (counted from 0), several only if none releases: run, and release or None."""
    return study, _named(study.step(len(steps)), study.n_steps, steps)


def _named(released: Released | None, n_steps: int, steps: Sequence[int]) -> Released | None:
    if not without_prefect():
        from prefect.context import TaskRunContext

        context = TaskRunContext.get()
        name = f"step {steps[0] + 1}" if len(steps) == 1 else f"candidates {steps[0] + 1}–{steps[-1] + 1}"
        point = "" if released is None else f" · {point_in_short(released['hyperparameters'])}"
        if context is not None:
            context.task_run.name = printable(f"{name} of {n_steps:,}{point}")
    return released


@private_task(name="draw the release", **policies.SENSITIVE_TASK_OPTIONS)
def finish(study: StudyRun | ReplayedStudy) -> StudyResult:
    """Return the release of a study: its remaining draws made once and recorded, or all of it read back."""
    return study.finish()


@private_task(name="train the final model", **policies.SENSITIVE_TASK_OPTIONS)
def train(
    study: StudySpec, folder: str | Path, release: Release, opened: StudyRun | ReplayedStudy | None = None
) -> FinalModel | None:
    """Train the chosen model on the public training set, read again without `opened`; None without a choice."""
    return FinalModel.of_release(study, folder, release, None if opened is None else opened.public)


@private_task(name="show the release", **policies.PUBLISHING_TASK_OPTIONS)
def publish(
    release: Release,
    account: Account,
    tracking_uri: str,
    model: FinalModel | None,
    registered: bool,
    missing: tuple[str, ...] = (),
) -> Tracked:
    """Log the release in MLflow once; repeated, find what was logged. `missing` is what could not be made."""
    return log_release(release, account, tracking_uri, model=model, registered=registered, missing=missing)
