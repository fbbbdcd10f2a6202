"""Flow runs that a killed process left Running are called what they are: crashed.

Each run holds a lock on a file named by its own id while it lives, and the file says in which state Prefect has it.
The operating system lets go of the lock when the process dies, however it dies, so a file without a lock is a run
without a process. If Prefect moved the run on since, a retry has begun, and the file is an earlier attempt's. A run
that died on another machine holds no lock here: `examples/automations.yaml` lets Prefect's server notice that.
"""

import fcntl
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

    LoggingAdapter = logging.LoggerAdapter[logging.Logger]

CRASH_MESSAGE = (
    "The process ended before the flow did. Run the study again; it continues, and nothing is paid twice."
)

POLL_INTERVAL_S = 1.0  # between two looks of a flow run at the process that started it


def current_flow_run() -> "FlowRun | None":
    """Return the flow run that this code runs in; None outside of one."""
    if "prefect" not in sys.modules:
        return None
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    return None if context is None else context.flow_run


class EngineLines(logging.Filter):
    """Keep what Prefect's engine says of each finished task out of the logs of our runs; its warnings stay.

    Attributes:
        runs: the ids of our runs in this process. The records of other flows are let through.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runs: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is ours, another flow's, or at least a warning."""
        of_prefect = f"{os.sep}prefect{os.sep}" in record.pathname and record.levelno < logging.WARNING
        return not of_prefect or str(getattr(record, "flow_run_id", "")) not in self.runs


ENGINE_LINES = EngineLines()
RUN_LOGGERS = ("prefect.flow_runs", "prefect.task_runs")  # whose records Prefect shows as the logs of a run


def run_logger() -> "logging.Logger | LoggingAdapter":
    """Return the logger of the current flow run; outside of one, as with --direct, a logger that writes nothing."""
    if current_flow_run() is None:
        silent = logging.getLogger("dpbo.direct")
        silent.disabled = True
        return silent
    from prefect import get_run_logger

    return get_run_logger()


def follow(starter: str | None) -> None:
    """Kill this process when its parent, process id `starter`, ends; do nothing if that is not its parent.

    A study may be killed at any moment, and continues when it is run again.
    """

    def watch() -> None:
        while os.getppid() == int(str(starter)):
            time.sleep(POLL_INTERVAL_S)
        os.kill(os.getpid(), signal.SIGKILL)

    if starter is not None and starter.isdecimal() and os.getppid() == int(starter):
        threading.Thread(target=watch, daemon=True).start()


@contextmanager
def is_alive(folder: Path) -> Iterator[None]:
    """Context that holds the current flow run's lock in `folder`; first sets runs whose process died to Crashed.

    From then on the run's logs hold our lines, and of Prefect's engine its warnings.
    """
    run = current_flow_run()
    if run is None:
        yield
        return
    ENGINE_LINES.runs.add(str(run.id))
    for name in RUN_LOGGERS:
        logging.getLogger(name).addFilter(ENGINE_LINES)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    crash_dead_runs(folder)
    path = folder / str(run.id)
    unnamed = folder / f".{path.name}"
    handle = os.open(unnamed, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.write(handle, str(run.state.id if run.state is not None else "").encode())
        unnamed.rename(path)  # only now can others see it, and never without its lock
        yield
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(handle)


def crash_dead_runs(folder: Path) -> list[str]:
    """Set every flow run whose lock nobody holds to Crashed, with its unfinished tasks; returns their ids."""
    dead = [path for path in sorted(folder.glob("[!.]*")) if not _is_locked(path)]
    for path in dead:
        with suppress(FileNotFoundError):
            _set_crashed(path.name, path.read_text())
        with suppress(FileNotFoundError):
            path.unlink()
    return [path.name for path in dead]


def n_alive(folder: Path) -> int:
    """Return how many flow runs of this machine hold their lock."""
    return sum(_is_locked(path) for path in folder.glob("[!.]*"))


def _is_locked(path: Path) -> bool:
    """True if a process holds the lock on a run's file or the file is gone; False if the process died."""
    try:
        handle = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True  # its run has just ended and cleaned up after itself
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _set_crashed(run_id: str, state_id: str) -> None:
    """Set a flow run and its unfinished tasks to Crashed.

    Nothing is done if the run ended, is unknown, or is in a later state than `state_id`. A run that is being
    cancelled is in a later state too, and is set anyway, because without a process it cannot finish.
    """
    from prefect import exceptions, states
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    run = UUID(run_id)
    with get_client(sync_client=True) as client, suppress(exceptions.ObjectNotFound):
        recorded = client.read_flow_run(run)
        now = recorded.state
        if now is not None and (
            now.is_final() or (state_id and str(now.id) != state_id and not now.is_cancelling())
        ):
            return
        for task in client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[run]))):
            if task.state is not None and not task.state.is_final():
                client.set_task_run_state(task.id, states.Crashed(message=CRASH_MESSAGE), force=True)
        client.set_flow_run_state(run, states.Crashed(message=CRASH_MESSAGE), force=True)
