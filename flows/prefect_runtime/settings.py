"""Which of Prefect's settings a private run depends on."""

import os
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo.flows.prefect_runtime.liveness import current_flow_run
from dpbo.tasks.policies import without_prefect
from dpbo.tasks.reporting.mlflow_store import MLFLOW_TELEMETRY
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.address import team_setting

if TYPE_CHECKING:
    from prefect.settings import Settings

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
        from dpbo.flows.team_database import lead_prefect

        lead_prefect(team)


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
