"""One step of the search: score one model on the sensitive set, or run all trials of `dp_hypo`.

Where the path is public the step trains its model first. Where it is private (`lipschitz`, `noisy_gp`, `exact_gp`)
every model was trained before anything was charged, since which of them a step trains would tell the path.
"""

from prefect import task

from dpbo_core.methods.contract import Released
from dpbo_core.study import StudyRun
from tasks import policies


@task(name="step", **policies.SENSITIVE_TASK)
def step(run: StudyRun) -> Released | None:
    """What the step released (recorded before it is returned), or None."""
    return run.step()
