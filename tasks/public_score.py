"""Cross-validate one candidate on the public set, wherever the task runner puts it."""

from pathlib import Path

from prefect import task

from dpbo_core.ahead import cross_validate_candidate
from dpbo_core.study import StudySpec
from tasks import policies


@task(name="cross-validate candidate", **policies.SENSITIVE_TASK)
def public_score(study: StudySpec, folder: str | Path, index: int) -> float:
    """The score of candidate `index`: a function of the study and its public training set alone."""
    return cross_validate_candidate(study, folder, index)
