"""The remaining draws, and the release, recorded."""

from prefect import task

from dpbo_core.study import StudyResult, StudyRun
from tasks import policies


@task(name="finish", **policies.SENSITIVE_TASK)
def finish(run: StudyRun) -> StudyResult:
    """The release of a study, drawn once and recorded, or read back."""
    return run.finish()
