"""Where the ledger, the vaults and MLflow's store are."""

import os
import stat
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.address import STATE_FOLDER, ledger_url, state_folder, team_setting

STORES_FOLDER = STATE_FOLDER
MLFLOW_PAGE = "http://127.0.0.1:5000"


class Stores:
    """The addresses of the ledger and of MLflow's store: ./mlruns unless the environment says otherwise.

    DPBO_DATABASE_URL puts all three stores (Prefect's too) on one PostgreSQL server.
    """

    @cached_property
    def mlflow_tracking_uri(self) -> str | None:
        """The tracking URI that the user set in MLFLOW_TRACKING_URI; None if none is."""
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
            from dpbo.flows.team_database import databases

            return databases(team).mlflow
        return self.mlflow_tracking_uri or f"sqlite:///{STORES_FOLDER.resolve() / 'mlflow.db'}"

    @cached_property
    def mlflow_page(self) -> str:
        """The address at which people open MLflow: the tracking server's, or that of `dpbo ui`."""
        uri = self.tracking
        if not uri.startswith(("http://", "https://")):
            return MLFLOW_PAGE
        parts = urlsplit(uri)  # which may hold a password
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")

    @cached_property
    def running(self) -> Path:
        """The folder with the locks of flow runs that are alive on this machine."""
        return state_folder() / "running"

    @cached_property
    def vaults(self) -> Path:
        """The folder with the secrets of curators and watches."""
        return state_folder() / "curator"

    def make_folder(self) -> None:
        """Make the folder of the stores, for its owner alone; refused if a link or another user's is there."""
        with suppress(FileExistsError):
            STORES_FOLDER.mkdir(mode=0o700)
        folder, above = STORES_FOLDER.lstat(), Path().stat()
        if not stat.S_ISDIR(folder.st_mode) or folder.st_uid not in (os.geteuid(), above.st_uid):
            raise StudyInvalid(
                f"./{STORES_FOLDER} is a link, a file or another user's folder",
                cause="somebody else may write here, and would choose where what is kept of a study goes",
                remedy="run in a folder of your own; to keep the stores elsewhere, set DPBO_LEDGER_URL and "
                "MLFLOW_TRACKING_URI",
            )
        STORES_FOLDER.chmod(0o700)
