"""Public trainings on Prefect's Dask task runner: a task a candidate, with public numbers only."""

from collections.abc import Mapping
from pathlib import Path

from prefect import flow

from dpbo_core.ahead import known_candidates
from dpbo_core.models.trainer import Model
from dpbo_core.study import StudySpec
from flows.workers import CLUSTER, asked
from tasks import policies
from tasks.candidate import candidate


@flow(name="train candidates", **policies.FLOW)
def train_candidates(study: StudySpec, folder: str, indices: tuple[int, ...]) -> dict[int, Model]:
    """The models of `indices`, wherever the task runner trains them."""
    here = Path(folder).resolve()  # a worker may stand elsewhere; a task's arguments are not stored, a flow's are
    futures = {index: candidate.submit(study, here, index) for index in indices}
    return {index: future.result() for index, future in futures.items()}


def train_ahead(study: StudySpec, folder: str) -> Mapping[int, Model]:
    """The models that are known to be needed, trained by DPBO_WORKERS processes; none where none are asked for."""
    count = asked()
    indices = known_candidates(study) if count else ()
    if len(indices) < 2:
        return {}
    from prefect_dask import DaskTaskRunner

    runner = DaskTaskRunner(cluster_kwargs={"n_workers": count, "processes": True, **CLUSTER})
    models: dict[int, Model] = train_candidates.with_options(task_runner=runner)(study, folder, indices)
    return models
