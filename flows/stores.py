"""Where the ledger, the vaults and MLflow's store are; and one PostgreSQL server for a team.

DPBO_DATABASE_URL names the ledger's database on it, and two lie beside it:

    postgresql://user@host/dpbo     the ledger          dpbo
                                    MLflow              dpbo_mlflow
                                    Prefect's server    dpbo_prefect

Three databases and not one, since all three keep a table named `alembic_version`, and since a viewer's role may
then be let into MLflow's alone. DPBO_LEDGER_URL, MLFLOW_TRACKING_URI and Prefect's own settings come before it.
"""

import os
import stat
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

import sqlalchemy as sa

from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.address import (
    STATE_FOLDER,
    TEAM_SETTING,
    ledger_url,
    patient_url,
    state_folder,
    team_address,
    team_setting,
)

STORES_FOLDER = STATE_FOLDER
MLFLOW_PAGE = "http://127.0.0.1:5000"
DASK_SETTING = "DPBO_DASK"  # the address of a Dask cluster that others run
PREFECT_SETTING = "PREFECT_API_DATABASE_CONNECTION_URL"
CREATION_LOCK = 0x6470626E  # an advisory lock: two processes must not make the same tables at once


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


@dataclass(frozen=True)
class Databases:
    """The addresses of a team's three databases, each with the driver its user needs."""

    ledger: str
    mlflow: str
    prefect: str


def databases(url: str) -> Databases:
    """Return the addresses of the ledger's, Prefect's and MLflow's databases on the server of `url`."""
    address = team_address(url)

    def beside(driver: str, suffix: str = "") -> str:
        """Return the address of the database named as the ledger's with `suffix`, for SQLAlchemy's `driver`."""
        named = address.set(drivername=f"postgresql+{driver}", database=f"{address.database}{suffix}")
        return named.render_as_string(hide_password=False)

    return Databases(beside("psycopg"), beside("psycopg", "_mlflow"), beside("asyncpg", "_prefect"))


def prepare(url: str, *, mlflow: bool = True, prefect: bool = True) -> None:
    """Create MLflow's and Prefect's missing databases beside the ledger's at `url`, and Prefect's tables."""
    address = team_address(url)
    ours = databases(url).prefect
    lead = prefect and os.environ.get(PREFECT_SETTING, ours) == ours  # else Prefect was given another database
    names = [f"{address.database}_{name}" for name, needed in (("mlflow", mlflow), ("prefect", lead)) if needed]
    if not names:
        return
    place = patient_url(sa.engine.make_url(databases(url).ledger))
    engine = sa.create_engine(place, poolclass=sa.pool.NullPool, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.execute(sa.select(sa.func.pg_advisory_lock(CREATION_LOCK)))  # until the connection closes
            for name in names:
                if not connection.scalar(
                    sa.text("SELECT 1 FROM pg_database WHERE datname = :name"), {"name": name}
                ):
                    quoted = connection.dialect.identifier_preparer.quote(name)
                    connection.exec_driver_sql(f"CREATE DATABASE {quoted}")
            if lead:
                _migrate_prefect(ours)
    except sa.exc.SQLAlchemyError as error:
        raise DpboError(
            f"the team's databases cannot be made ready ({type(error).__name__})",
            cause="the server cannot be reached, or this role may not create databases",
            remedy=f"check {TEAM_SETTING}, or let an administrator run: "
            + " ".join(f'CREATE DATABASE "{name}";' for name in names),
        ) from None


def _migrate_prefect(url: str) -> None:
    """Make Prefect's tables, unless they are there, before a server starts: two servers at once would both try."""
    here = sa.engine.make_url(url).set(drivername="postgresql+psycopg")
    with sa.create_engine(here, poolclass=sa.pool.NullPool).connect() as connection:
        if sa.inspect(connection).has_table("alembic_version"):
            return
    command = [sys.executable, "-P", "-m", "prefect", "server", "database", "upgrade", "-y"]
    done = subprocess.run(command, env=os.environ | {PREFECT_SETTING: url}, capture_output=True, check=False)  # noqa: S603  our own interpreter
    if done.returncode != 0:
        raise DpboError(
            "Prefect's database could not be made ready",
            cause="PostgreSQL lacks the extension pg_trgm (package postgresql-contrib), or the role may not add it",
            remedy=f"let an administrator run CREATE EXTENSION pg_trgm in it, or set {PREFECT_SETTING}",
        )
