"""One step of the search: train on the public set, score the sensitive one."""

from prefect import task

from dpbo_core.methods.contract import Released
from dpbo_core.study import StudyRun
from tasks import policies


@task(name="step", **policies.SENSITIVE_TASK)
def step(run: StudyRun) -> Released | None:
    """What the step released (recorded before it is returned), or None."""
    return run.step()
