"""Where the stores are, and which of Prefect's settings a private run depends on."""

import os
import stat
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo.flows.prefect_runtime.database import databases, lead_prefect
from dpbo.flows.prefect_runtime.liveness import current_flow_run
from dpbo.tasks.reporting.mlflow_store import UNREPORTED
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.address import STATE, ledger_url, team_setting

if TYPE_CHECKING:
    from prefect.settings import Settings

FOLDER = STATE
MLFLOW_PAGE = "http://127.0.0.1:5000"


class Stores:
    """The addresses of the ledger and of MLflow's store: ./mlruns unless the environment says otherwise.

    DPBO_DATABASE_URL puts all three stores (Prefect's too) on one PostgreSQL server.
    """

    @cached_property
    def mlflow_tracking_uri(self) -> str | None:
        """The tracking URI that the user set in MLFLOW_TRACKING_URI; None where none is."""
        return os.environ.get("MLFLOW_TRACKING_URI")

    @cached_property
    def ledger(self) -> str:
        """The SQLAlchemy URL of the ledger: DPBO_LEDGER_URL, else the team's database, else ./mlruns/ledger.db."""
        return ledger_url()

    @cached_property
    def tracking(self) -> str:
        """MLflow's tracking URI: MLFLOW_TRACKING_URI, else the team's database, else ./mlruns/mlflow.db."""
        team = team_setting()
        if self.mlflow_tracking_uri is None and team is not None:
            return databases(team).mlflow
        return self.mlflow_tracking_uri or f"sqlite:///{FOLDER.resolve() / 'mlflow.db'}"

    @cached_property
    def mlflow_page(self) -> str:
        """The address at which people open MLflow: the tracking server's, or that of `dpbo ui`."""
        uri = self.tracking
        return uri.rstrip("/") if uri.startswith(("http://", "https://")) else MLFLOW_PAGE

    @cached_property
    def running(self) -> Path:
        """The folder with the locks of flow runs that are alive on this machine."""
        return FOLDER.resolve() / "running"

    @cached_property
    def vaults(self) -> Path:
        """The folder with the secrets of curators and watches."""
        return FOLDER.resolve() / "curator"

    def make_folder(self) -> None:
        """Make the folder of the stores, for its owner alone; refused where a link or another user's is there.

        Raises:
            StudyInvalid: a link stands there, or another user's folder.
        """
        with suppress(FileExistsError):
            FOLDER.mkdir(mode=0o700)
        folder, above = FOLDER.lstat(), Path().stat()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid not in (os.geteuid(), above.st_uid):
            raise StudyInvalid(
                f"./{FOLDER} is a link, a file or another user's folder",
                cause="somebody else may write here, and would choose where what is kept of a study goes",
                remedy="run in a folder of your own; to keep the stores elsewhere, set DPBO_LEDGER_URL and "
                "MLFLOW_TRACKING_URI",
            )
        FOLDER.chmod(0o700)


QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",  # it reports usage, and its start-up prints a traceback offline
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",  # its log goes to its database, ours to the screen
}


HOME, PROFILES, PREFIX = "PREFECT_HOME", "profiles.toml", "PREFECT"


def default_home() -> Path | None:
    """Prefect's folder, if all its other settings are the defaults; None where Prefect itself must be asked.

    That is where it is loaded already, a profile is there, or a variable of its own is set. What lies in the
    current folder was refused before (`quiet_environment`).
    """
    theirs = {name for name in os.environ if name.upper().startswith(f"{PREFIX}_")} - {*QUIET, HOME}
    home = Path(os.environ.get(HOME, Path.home() / ".prefect"))
    if "prefect" in sys.modules or theirs or not home.is_absolute() or (home / PROFILES).exists():
        return None
    return home.resolve()


def prefect_settings() -> "Settings":
    """Prefect's settings here; this imports Prefect."""
    from prefect.settings import get_current_settings

    return get_current_settings()


def quiet_environment() -> None:
    """Set dpbo's defaults for Prefect, no telemetry, in the environment before its import, the user's own kept;
    refused beside settings of Prefect's in this folder.

    Raises:
        StudyInvalid: the current folder holds settings of Prefect's.
    """
    refuse_folder_settings(Path())
    os.environ.update(UNREPORTED)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    team = team_setting()
    if team is not None:
        lead_prefect(team)


def refuse_folder_settings(folder: Path) -> None:
    """Refuse to run beside settings of Prefect's in `folder`, which its other writers could have put there.

    Prefect reads `prefect.toml`, `[tool.prefect]` of `pyproject.toml` and `.env` of the current folder when it is
    imported, and one of its settings names code that runs then. The environment and profiles are the user's own.

    Raises:
        StudyInvalid: names the file.
    """
    for name in _settings_files(folder):
        raise StudyInvalid(
            f"{name} in this folder holds settings of Prefect's, and some of them run code",
            cause="the folder came from somebody else, or is another project's",
            remedy="run in a folder of your own; put what you need into the environment or a profile of Prefect's",
        )


def _settings_files(folder: Path) -> Iterator[str]:
    """The files of `folder` that hold settings of Prefect's or cannot be read, as words of a message."""
    if _is_there(folder / "prefect.toml"):
        yield "prefect.toml"
    if _is_there(folder / "pyproject.toml"):
        try:
            project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            yield "pyproject.toml, which cannot be read,"
        else:
            tool = project.get("tool")
            if isinstance(tool, dict) and "prefect" in tool:
                yield "pyproject.toml"
    if _is_there(folder / ".env"):
        try:
            text = (folder / ".env").read_text(encoding="utf-8", errors="replace")
        except OSError:
            yield ".env, which cannot be read,"
        else:
            if PREFIX in text.upper():
                yield ".env"


def _is_there(path: Path) -> bool:
    """Whether a path exists, or is a dangling link."""
    return path.is_symlink() or path.exists()


def check_prefect_settings() -> None:
    """Refuse settings by which Prefect would store results or retry, and in a flow a server without password.

    Such a temporary server lets any user of the machine cancel the run or start another.

    Raises:
        StudyInvalid: names the setting.
    """
    if default_home() is not None:  # nothing is set, and what Prefect does by itself is known
        return
    settings = prefect_settings()
    wrong = {
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": settings.results.persist_by_default,
        "PREFECT_TASKS_DEFAULT_PERSIST_RESULT": settings.tasks.default_persist_result,
        "PREFECT_LOGGING_LOG_PRINTS": settings.logging.log_prints,
        "PREFECT_LOGGING_EXTRA_LOGGERS": settings.logging.extra_loggers,
        "PREFECT_TASKS_DEFAULT_RETRIES": settings.tasks.default_retries,
        "PREFECT_FLOWS_DEFAULT_RETRIES": settings.flows.default_retries,
    }
    named = [name for name, value in wrong.items() if value]
    if named:
        raise StudyInvalid(
            f"Prefect is set to keep more of a run than a private study allows ({', '.join(named)})",
            cause="a Prefect profile, an environment variable or a prefect.toml in this folder",
            remedy="unset it for this run",
        )
    if settings.api.url is None and current_flow_run() is not None:
        raise StudyInvalid(
            "Prefect started a server for this flow that asks nobody for a password",
            cause="the flow was called without a server, and then Prefect starts one for every user of the machine",
            remedy="call your flow inside `with dpbo.owners_terminal():`, or set PREFECT_API_URL and "
            "PREFECT_API_AUTH_STRING to a server of yours",
        )


@contextmanager
def without_heartbeat() -> Iterator[None]:
    """Context without Prefect's heartbeat thread, for which a synchronous flow waits a second at its end."""
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield
