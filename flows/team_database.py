"""One PostgreSQL server for a team: DPBO_DATABASE_URL names the ledger's database, and two lie beside it.

    postgresql://user@host/dpbo     the ledger          dpbo
                                    MLflow              dpbo_mlflow
                                    Prefect's server    dpbo_prefect

Three databases and not one, since all three keep a table named `alembic_version`, and since a viewer's role may
then be let into MLflow's alone. DPBO_LEDGER_URL, MLFLOW_TRACKING_URI and Prefect's own settings come before it.
"""

import os
import subprocess
import sys
from dataclasses import dataclass

import sqlalchemy as sa

from dpbo_core.errors import DpboError
from dpbo_core.ledger.address import TEAM_SETTING, patient_url, team_address

PREFECT_SETTING = "PREFECT_API_DATABASE_CONNECTION_URL"
CREATION_LOCK = 0x6470626E  # an advisory lock: two processes must not make the same tables at once


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
                _create(connection, name)
            if lead:
                _migrate_prefect(ours)
    except sa.exc.SQLAlchemyError as error:
        raise DpboError(
            f"the team's databases cannot be made ready ({type(error).__name__})",
            cause="the server cannot be reached, or this role may not create databases",
            remedy=f"check {TEAM_SETTING}, or let an administrator run: "
            + " ".join(f'CREATE DATABASE "{name}";' for name in names),
        ) from None


def lead_prefect(url: str) -> None:
    """Set the address of Prefect's database in the environment, before Prefect's import; the user's own stays."""
    os.environ.setdefault(PREFECT_SETTING, databases(url).prefect)


def _create(connection: sa.Connection, name: str) -> None:
    existing = connection.scalar(sa.text("SELECT 1 FROM pg_database WHERE datname = :name"), {"name": name})
    if not existing:
        quoted = connection.dialect.identifier_preparer.quote(name)
        connection.exec_driver_sql(f"CREATE DATABASE {quoted}")


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
