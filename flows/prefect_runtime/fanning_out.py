"""Public work on Prefect's task runners: a task a candidate or a cell, with public numbers only.

DPBO_WORKERS = n        Dask, n processes of this machine, without pages
unset                   a comparison: as many processes as the machine has cores; a study: none
"""

import os
from contextvars import copy_context
from pathlib import Path
from typing import Any, Self

from prefect import flow
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner

from dpbo.flows.prefect_runtime.workers import asked, cluster
from dpbo.tasks import policies
from dpbo.tasks.precomputing import candidate, public_score
from dpbo_core.spec import StudySpec
from dpbo_core.study.precomputed import Precomputed, known_candidates, known_public
from dpbo_core.study.resolve import ResolvedStudy


class OwnProcesses(ProcessPoolTaskRunner):
    """Prefect's, whose thread that passes on what the processes report knows this run's server.

    A new thread has Prefect's settings as they were when the program began: it would start another server, open to
    every user of the machine.
    """

    def __enter__(self) -> Self:
        self._around = copy_context()
        return super().__enter__()

    def _forward_subprocess_messages(self) -> None:
        self._around.run(super()._forward_subprocess_messages)


def task_runner(n_tasks: int) -> TaskRunner[Any]:
    """Who runs `n_tasks` tasks side by side: DPBO_WORKERS processes, or those that the machine has cores for."""
    count = asked()
    if not count:
        return OwnProcesses(max_workers=min(n_tasks, os.cpu_count() or 1))
    from prefect_dask import DaskTaskRunner

    runner: TaskRunner[Any] = DaskTaskRunner(cluster_class=cluster, cluster_kwargs={"n_workers": count})
    return runner


@flow(name="precompute", **policies.FLOW)
def fan_out(study: StudySpec, folder: str, trained: tuple[int, ...], scored: tuple[int, ...]) -> Precomputed:
    """The models of the candidates `trained` and the public scores of `scored`, wherever they are worked out."""
    here = Path(folder).resolve()  # a worker may stand elsewhere; a task's arguments are not stored, a flow's are
    scores = {index: public_score.submit(study, here, index) for index in scored}
    models = {index: candidate.submit(study, here, index) for index in trained}
    return Precomputed(
        models={index: future.result() for index, future in models.items()},
        scores={index: future.result() for index, future in scores.items()},
    )


def precompute(study: ResolvedStudy, folder: str) -> Precomputed | None:
    """The public work that is known to be needed, done by DPBO_WORKERS processes; None where none are asked for."""
    if not asked():
        return None
    trained, scored = known_candidates(study), known_public(study)
    n_tasks = len(trained) + len(scored)
    if n_tasks < 2:
        return None
    done: Precomputed = fan_out.with_options(task_runner=task_runner(n_tasks))(study.spec, folder, trained, scored)
    return done
