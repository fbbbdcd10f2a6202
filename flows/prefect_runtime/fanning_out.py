"""Public work in Prefect's tasks: a chunk of Λ or a cell on its task runners, or in this process.

DPBO_WORKERS = n        Dask, n processes of this machine, without pages
unset                   a comparison: as many processes as the machine has cores; a study: none
"""

import os
from collections import ChainMap
from collections.abc import Callable
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any, Self

from prefect import flow
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner

from dpbo.flows.prefect_runtime.owner import caller
from dpbo.flows.prefect_runtime.progress import Progress
from dpbo.flows.prefect_runtime.settings import Stores
from dpbo.flows.prefect_runtime.workers import cluster, n_workers
from dpbo.tasks import policies
from dpbo.tasks.precomputing import (
    candidates,
    cross_validate_chunk,
    public_scores,
    search_publicly,
    train_chunk,
    try_out,
)
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.preparation.data_split import allowed_score
from dpbo_core.preparation.precomputed import (
    Precomputed,
    PublicWork,
    chunks,
    required_public_scores,
    required_trainings,
)
from dpbo_core.preparation.preconditions import check_policy
from dpbo_core.preparation.resolve import ResolvedStudy
from dpbo_core.preparation.run import Run
from dpbo_core.preparation.trained_models import TrainedModels, memory_limit
from dpbo_core.queries.tuning.run import recorded_release
from dpbo_core.study_file import StudySpec

PIECES = "pieces of public work"


class OwnProcesses(ProcessPoolTaskRunner):
    """Prefect's runner of processes, with a message thread that knows this run's server.

    A new thread has Prefect's settings as they were when the program began: it would start another server, open to
    every user of the machine.
    """

    def __enter__(self) -> Self:
        self._around = copy_context()
        return super().__enter__()

    def _forward_subprocess_messages(self) -> None:
        self._around.run(super()._forward_subprocess_messages)


def task_runner(n_tasks: int) -> TaskRunner[Any]:
    """The runner of `n_tasks` parallel tasks: DPBO_WORKERS processes, or one for each core."""
    count = n_workers()
    if not count:
        return OwnProcesses(max_workers=min(n_tasks, os.cpu_count() or 1))
    from prefect_dask import DaskTaskRunner

    runner: TaskRunner[Any] = DaskTaskRunner(cluster_class=cluster, cluster_kwargs={"n_workers": count})
    return runner


@flow(name="precompute", **policies.FLOW)
def fan_out(study: StudySpec, folder: str, trained: tuple[int, ...], scored: tuple[int, ...]) -> Precomputed:
    """Train the candidates `trained`, and cross-validate `scored`, in chunks in parallel processes.

    Raises:
        PolicyRefused: the owner's policy says no, which is asked here too: Prefect may start this flow alone.
    """
    ledger = PrivacyLedger(Stores().ledger)
    check_policy(study, Run(ledger, folder, caller=caller(ledger)))
    score = allowed_score(study, ledger)
    here = Path(folder).resolve()  # a worker may stand elsewhere; a task's arguments are not stored, a flow's are
    scores = [public_scores.submit(study, here, part, score) for part in chunks(scored)]
    models = [candidates.submit(study, here, part, score) for part in chunks(trained)]
    with Progress(study.name, len(scores) + len(models), PIECES) as progress:
        return Precomputed(
            scores=dict(ChainMap(*(progress.counted(future.result()) for future in scores))),
            models=dict(ChainMap(*(progress.counted(future.result()) for future in models))),
            trained=TrainedModels(memory_limit(study)),
        )


def precompute(study: ResolvedStudy, folder: str) -> Precomputed | None:
    """Do the public work of a study in DPBO_WORKERS processes; None where none are set."""
    if not n_workers():
        return None
    trained, scored = required_trainings(study), required_public_scores(study)
    if len(trained) + len(scored) < 2:
        return None
    fanned_out = fan_out.with_options(task_runner=task_runner(len(trained) + len(scored)))
    done: Precomputed = fanned_out(study.spec, folder, trained, scored)
    return done


def prepared(study: ResolvedStudy, folder: str, ledger: PrivacyLedger) -> tuple[Precomputed | None, int]:
    """Do all public work before anything is charged; returns it, and how many tasks did it.

    None where there is none: a sensitive training set, or a study that was released before.

    Raises:
        StudyInvalid, PolicyRefused, AssumptionNotAccepted: nothing was charged.
    """
    if study.problem.training is not None or recorded_release(study.spec, ledger=ledger, folder=folder) is not None:
        return None, 0
    score = allowed_score(study.spec, ledger)
    work = PublicWork(study, folder, precompute(study, folder), allowed_score=score)
    pieces: list[Callable[[], object]] = [
        partial(cross_validate_chunk, work, part) for part in work.to_cross_validate
    ]
    pieces += [partial(search_publicly, work)] * work.searches
    pieces += [partial(train_chunk, work, part) for part in work.to_train]
    pieces += [partial(try_out, work)] * work.tries_out
    with Progress(study.spec.name, len(pieces), PIECES) as progress:
        for piece in pieces:
            piece()
            progress.show(None)
    return work.done(), len(pieces)
