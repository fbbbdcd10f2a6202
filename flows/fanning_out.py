"""Public work on Prefect's task runners: a task a candidate or a cell, with public numbers only.

DPBO_WORKERS = n        Dask, n processes of this machine, dashboard on the loopback
unset                   a comparison: as many processes as the machine has cores; a study: none
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner

from dpbo_core.ahead import known_candidates
from dpbo_core.models.trainer import Model
from dpbo_core.study import StudySpec
from flows.workers import CLUSTER, asked
from tasks import policies
from tasks.candidate import candidate


def task_runner(n_tasks: int) -> TaskRunner[Any]:
    """Who runs `n_tasks` tasks side by side: DPBO_WORKERS processes, or those that the machine has cores for."""
    count = asked()
    if not count:
        return ProcessPoolTaskRunner(max_workers=min(n_tasks, os.cpu_count() or 1))
    from prefect_dask import DaskTaskRunner

    runner: TaskRunner[Any] = DaskTaskRunner(cluster_kwargs={"n_workers": count, "processes": True, **CLUSTER})
    return runner


@flow(name="train candidates", **policies.FLOW)
def train_candidates(study: StudySpec, folder: str, indices: tuple[int, ...]) -> dict[int, Model]:
    """The models of `indices`, wherever the task runner trains them."""
    here = Path(folder).resolve()  # a worker may stand elsewhere; a task's arguments are not stored, a flow's are
    futures = {index: candidate.submit(study, here, index) for index in indices}
    return {index: future.result() for index, future in futures.items()}


def train_ahead(study: StudySpec, folder: str) -> Mapping[int, Model]:
    """The models that are known to be needed, trained by DPBO_WORKERS processes; none where none are asked for."""
    indices = known_candidates(study) if asked() else ()
    if len(indices) < 2:
        return {}
    models: dict[int, Model] = train_candidates.with_options(task_runner=task_runner(len(indices)))(
        study, folder, indices
    )
    return models
