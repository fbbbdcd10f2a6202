"""Prefect's database on this machine, made whole before the first server opens it."""

import os
import subprocess
import sys
from pathlib import Path

from dpbo.flows.prefect_runtime.database import prepare
from dpbo.flows.prefect_runtime.settings import Stores, known_home
from dpbo.tasks.reporting.known_tables import KnownTables
from dpbo_core.atomically import create_atomically

SCHEME = "sqlite+aiosqlite:///"
DATABASE = "prefect.db"
TABLES = KnownTables(
    "prefect",
    "server/database/_migrations/versions/sqlite",
    tuple(Path(__file__).with_name(f"prefect_tables_{line}.sql") for line in ("3.8", "3.9")),
)


def create_prefect_store() -> None:
    """Migrate a fresh database beside its place and name it when it is whole; nothing where a server is set.

    A team's databases (DPBO_DATABASE_URL) are made ready here too, before anything opens them.
    """
    team = Stores().team
    if team is not None:
        prepare(team)

    if known_home() is None:
        from prefect.settings import get_current_settings

        if get_current_settings().api.url is not None:
            return
    place = prefect_store()
    if place is not None:
        create_atomically(place, _make)


def is_migrated(place: Path) -> bool:
    """Whether the database at `place` needs none of Prefect's migrations, as far as is known."""
    return TABLES.are_in(place)


def prefect_store() -> Path | None:
    """The file of Prefect's database; None where it is kept elsewhere."""
    home = known_home()
    if home is not None:
        return home / DATABASE
    from prefect.settings import get_current_settings

    settings = get_current_settings()
    url = settings.server.database.connection_url
    address = url.get_secret_value() if url is not None else f"{SCHEME}{settings.home / DATABASE}"
    place = address.removeprefix(SCHEME)
    return None if place == address or ":memory:" in place else Path(place)


def _make(path: Path) -> None:
    if not TABLES.write(path):
        _migrate(path)


def _migrate(path: Path) -> None:
    environment = os.environ | {"PREFECT_API_DATABASE_CONNECTION_URL": f"{SCHEME}{path}"}
    command = [sys.executable, "-P", "-m", "prefect", "server", "database", "upgrade", "-y"]
    subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603  our own interpreter
