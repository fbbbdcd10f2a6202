"""What a private run asks of Prefect: which settings it depends on, which flow run it is, and which are alive.

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
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from dpbo.flows.stores import PREFECT_SETTING, databases
from dpbo.tasks.policies import without_prefect
from dpbo.tasks.reporting.mlflow_store import MLFLOW_TELEMETRY
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.address import team_setting

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun
    from prefect.settings import Settings

    LoggingAdapter = logging.LoggerAdapter[logging.Logger]

PREFECT_TELEMETRY = {  # of Prefect's client, and of every server that is started here
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
}
QUIET_SETTINGS = PREFECT_TELEMETRY | {
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"
}  # Prefect logs to its database
HOME, PROFILES, PREFIX = "PREFECT_HOME", "profiles.toml", "PREFECT"
NO_PROXY, LOCAL_HOSTS = ("NO_PROXY", "no_proxy"), ("127.0.0.1", "localhost")
CRASH_MESSAGE = (
    "The process ended before the flow did. Run the study again; it continues, and nothing is paid twice."
)

POLL_INTERVAL_S = 1.0  # between two looks of a flow run at the process that started it


def prefect_home() -> Path:
    """Return Prefect's folder, absolute: PREFECT_HOME, else ~/.prefect."""
    if "prefect" in sys.modules:
        return prefect_settings().home.resolve()
    return Path(os.environ.get(HOME) or Path.home() / ".prefect").expanduser().resolve()


def prefect_is_configured() -> bool:
    """Return whether Prefect itself must be asked for its settings; False if all of them are its defaults.

    Prefect's import takes a second, which a server's start can use.
    """
    theirs = {name for name in os.environ if name.upper().startswith(f"{PREFIX}_")} - {*QUIET_SETTINGS, HOME}
    return "prefect" in sys.modules or bool(theirs) or (prefect_home() / PROFILES).exists()


def prefect_settings() -> "Settings":
    """Return Prefect's settings here; this imports Prefect."""
    from prefect.settings import get_current_settings

    return get_current_settings()


def configured_api() -> str | None:
    """Return the address of the API in Prefect's settings; None if none is set."""
    url = prefect_settings().api.url if prefect_is_configured() else None
    return None if url is None else str(url).rstrip("/")


def quiet_environment() -> None:
    """Set dpbo's defaults for Prefect in the environment before its import: no telemetry, no log on the screen."""
    refuse_folder_settings(Path())
    bypass_proxies_for_loopback()
    os.environ.update(MLFLOW_TELEMETRY | PREFECT_TELEMETRY)
    for name, value in QUIET_SETTINGS.items():
        os.environ.setdefault(name, value)
    team = team_setting()
    if team is not None:
        os.environ.setdefault(PREFECT_SETTING, databases(team).prefect)  # unless the user names another


def bypass_proxies_for_loopback() -> None:
    """Add this machine's own addresses to NO_PROXY, here and for child processes.

    Otherwise HTTP_PROXY would send requests to our own server, and its password, through a proxy.
    """
    listed = [host.strip() for name in NO_PROXY for host in os.environ.get(name, "").split(",")]
    os.environ.update(dict.fromkeys(NO_PROXY, ",".join(dict.fromkeys(filter(None, [*listed, *LOCAL_HOSTS])))))


def refuse_folder_settings(folder: Path) -> None:
    """Refuse to run beside settings of Prefect's in `folder`, which its other writers could have put there.

    Prefect reads `prefect.toml`, `[tool.prefect]` of `pyproject.toml` and `.env` of the current folder when it is
    imported, and one of its settings names code that runs then. The environment and profiles are the user's own.
    """
    for name in _settings_files(folder):
        raise StudyInvalid(
            f"{name} in this folder holds settings of Prefect's, and some of them run code",
            cause="the folder came from somebody else, or is another project's",
            remedy="run in a folder of your own; put what you need into the environment or a profile of Prefect's",
        )


def _settings_files(folder: Path) -> Iterator[str]:
    """Yield the files of `folder` that hold settings of Prefect's or cannot be read, as words of a message."""
    kinds: dict[str, Callable[[str], bool]] = {
        "prefect.toml": lambda _: True,
        "pyproject.toml": lambda text: "prefect" in tomllib.loads(text).get("tool", {}),
        ".env": lambda text: PREFIX in text.upper(),
    }
    for name, holds_settings in kinds.items():
        path = folder / name
        if path.is_symlink() or path.exists():
            try:
                if holds_settings(path.read_text(encoding="utf-8", errors="replace")):
                    yield name
            except (OSError, ValueError, RecursionError, TypeError):
                yield f"{name}, which cannot be read,"


def check_prefect_settings() -> None:
    """Refuse the settings of Prefect that would show what is private and that our flows cannot override themselves.

    Results, retries and prints are set at every task and flow of ours (`tasks/policies.py`), whatever a profile
    says.
    """
    if (without_prefect() and current_flow_run() is None) or not prefect_is_configured():
        return
    settings = prefect_settings()
    if settings.logging.extra_loggers:
        raise StudyInvalid(
            "Prefect is set to store the log lines of other libraries (PREFECT_LOGGING_EXTRA_LOGGERS)",
            cause="a Prefect profile or an environment variable; such a line may hold a value of a private record",
            remedy="unset it for this run",
        )
    if settings.api.url is None and current_flow_run() is not None:
        raise StudyInvalid(
            "Prefect started a server for this flow that asks nobody for a password",
            cause="the flow was called without a server, and then Prefect starts one for every user of the machine",
            remedy="call your flow inside `with dpbo.owners_terminal():`, or set PREFECT_API_URL and "
            "PREFECT_API_AUTH_STRING to your own server",
        )


@contextmanager
def disable_heartbeat() -> Iterator[None]:
    """Context without Prefect's heartbeat thread, for which a synchronous flow waits a second at its end."""
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield


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
