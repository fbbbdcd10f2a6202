"""Prefect records task runs a moment after they end; its temporary server would stop before it has."""

import time

PATIENCE = 10.0  # seconds; nothing of a study depends on what Prefect recorded
PAGE = 200  # what Prefect's API returns at once


def wait_until_recorded(n_tasks: int) -> None:
    """Wait until the current flow run shows `n_tasks` finished task runs, or patience ends."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return
    here = FlowRunFilter(id=FlowRunFilterId(any_=[context.flow_run.id]))
    end = time.monotonic() + PATIENCE
    with get_client(sync_client=True) as client:
        while time.monotonic() < end:
            runs = client.read_task_runs(flow_run_filter=here, limit=PAGE, offset=max(0, n_tasks - PAGE))
            done = sum(run.state is not None and run.state.is_final() for run in runs)
            if done >= min(n_tasks, PAGE):
                return
            time.sleep(0.1)
