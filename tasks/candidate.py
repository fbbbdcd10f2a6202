"""Train one candidate on the public set, wherever the task runner puts it."""

from pathlib import Path

from prefect import task

from dpbo_core.ahead import train_candidate
from dpbo_core.models.trainer import Model
from dpbo_core.study import StudySpec
from tasks import policies


@task(name="train candidate", **policies.SENSITIVE_TASK)
def candidate(study: StudySpec, folder: str | Path, index: int) -> Model:
    """The model of candidate `index`: a function of the study and its public training set alone."""
    return train_candidate(study, folder, index)
