"""Making a ledger's tables, and bringing an older ledger's up to date: the same steps, in one transaction."""

import threading
from pathlib import Path

import sqlalchemy as sa

from dpbo_core.errors import DpboError

HEAD = "0004"
OLDER = ("0001", "0002", "0003")
MIGRATIONS = Path(__file__).parent / "migrations"
_ONE_AT_A_TIME = threading.Lock()  # Alembic keeps what it is doing in module variables


def found(connection: sa.Connection) -> str | None:
    """The schema this ledger has; None if it has no tables."""
    tables = set(sa.inspect(connection).get_table_names())
    if "alembic_version" in tables:
        return str(connection.scalar(sa.text("SELECT version_num FROM alembic_version")))
    if "facts" not in tables:
        return None
    number = connection.scalar(sa.text("SELECT value FROM facts WHERE name = 'schema'"))
    return "0001" if number == "1" else str(number)  # the first version kept its number itself


def check(connection: sa.Connection) -> None:
    """The schema is still the one this process was made for; inside the transaction that will write.

    Raises:
        DpboError: another process took the ledger to another version meanwhile.
    """
    now = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    if now != HEAD:
        raise _another(str(now))


def bring_up_to_date(connection: sa.Connection) -> None:
    """Take every step this ledger has not taken, in the transaction of `connection`.

    Raises:
        DpboError: another version of dpbo wrote it.
    """
    now = found(connection)
    if now == HEAD:
        return
    if now is not None and now not in OLDER:
        raise _another(now)
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with _ONE_AT_A_TIME:
        if now is not None:
            command.stamp(config, now)
        command.upgrade(config, HEAD)


def _another(now: str) -> DpboError:
    return DpboError(
        f"the ledger has schema {now}, this version reads schema {HEAD} and writes no other",
        cause="another version of dpbo wrote it, perhaps while this process was running",
        remedy="run it again with that version; never delete a ledger, it is the record of what was spent",
    )
