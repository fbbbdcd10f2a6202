"""Public work known before any score is, a task a candidate, wherever the task runner puts it."""

from pathlib import Path

from prefect import task

from dpbo.tasks import policies
from dpbo_core.models.trainer import Model
from dpbo_core.spec import StudySpec
from dpbo_core.study.precomputed import cross_validate_candidate, train_candidate


@task(name="train candidate", **policies.SENSITIVE_TASK)
def candidate(study: StudySpec, folder: str | Path, index: int) -> Model:
    """The model of candidate `index`: a function of the study and its public training set alone."""
    return train_candidate(study, folder, index)


@task(name="cross-validate candidate", **policies.SENSITIVE_TASK)
def public_score(study: StudySpec, folder: str | Path, index: int) -> float:
    """The score of candidate `index`: a function of the study and its public training set alone."""
    return cross_validate_candidate(study, folder, index)
