"""Making a ledger's tables, and bringing an older ledger's up to date: the same steps, in one transaction.

What the steps make of a SQLite file without tables is kept as statements, `ledger_tables_SCHEMA.sql`, so that a new
ledger need not load Alembic. `python tests/known_tables.py` writes them, and a test holds the two equal.
"""

import secrets
import threading
from pathlib import Path

import sqlalchemy as sa

from dpbo_core.accounting.history import ORIGIN, canonical, seal
from dpbo_core.accounting.tables import FACTS, HISTORY
from dpbo_core.errors import DpboError

HEAD = "0004"
OLDER = ("0001", "0002", "0003")
MIGRATIONS = Path(__file__).parent / "migrations"
END = ";\n\n"  # of a statement among those that are kept
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
    kept = statements_file(HEAD)
    if now is None and connection.dialect.name == "sqlite" and kept.is_file():
        _write(connection, kept)
    else:
        migrate(connection, now)


def statements_file(head: str) -> Path:
    """Where the statements are that make a new SQLite ledger of schema `head`, if they are kept."""
    return Path(__file__).with_name(f"ledger_tables_{head}.sql")


def _write(connection: sa.Connection, kept: Path) -> None:
    """The tables of a new ledger, and the rows that the steps put there: its schema, and an identity of its own."""
    for statement in kept.read_text(encoding="utf-8").split(END)[:-1]:
        connection.exec_driver_sql(statement)
    connection.execute(sa.text("INSERT INTO alembic_version (version_num) VALUES (:head)"), {"head": HEAD})
    identity = {"name": "identity", "value": secrets.token_hex(16)}
    content = canonical(identity)
    entry = {"sequence": 1, "about": "facts", "content": content, "hash": seal(ORIGIN, 1, "facts", content)}
    connection.execute(FACTS.insert().values(**identity))
    connection.execute(HISTORY.insert().values(**entry))


def migrate(connection: sa.Connection, now: str | None) -> None:
    """Every step from schema `now`, or from nothing, by Alembic."""
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
