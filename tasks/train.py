"""The model to use, trained on the public set at what was released."""

from pathlib import Path

from prefect import task

from dpbo_core.final_model import FinalModel, train_final
from dpbo_core.privacy.release import Release
from dpbo_core.study import StudyRun, StudySpec
from tasks import policies


@task(name="train final model", **policies.SENSITIVE_TASK)
def train(study: StudySpec, folder: str | Path, release: Release, run: StudyRun | None = None) -> FinalModel | None:
    """From the public training set alone, read again without a `run`; None where no point was released."""
    return train_final(study, folder, release, None if run is None else run.public)
