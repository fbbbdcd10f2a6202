"""The ledger's tables and its transactions. Rows are only ever added; triggers refuse the rest.

datasets       one cap a dataset name, written once
reservations   one row a study edition: its whole price, written before any record is read
draws          one row a draw: its spend and what it drew, written in the transaction that drew it
releases       one row a finished study edition
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from dpbo_core.errors import DpboError, StudyInvalid

SCHEMA_VERSION = 1
BUSY_SECONDS = 60

METADATA = sa.MetaData()
FACTS = sa.Table(
    "facts",
    METADATA,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
DATASETS = sa.Table(
    "datasets",
    METADATA,
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("public", sa.Boolean, nullable=False),
    sa.Column("epsilon_units", sa.BigInteger, nullable=False),
    sa.Column("delta_units", sa.BigInteger, nullable=False),
    sa.Column("relation", sa.String(40), nullable=False),
    sa.Column("accepts", sa.JSON, nullable=False),
    sa.Column("opened_at", sa.String(32), nullable=False),
)
RESERVATIONS = sa.Table(
    "reservations",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("dataset", sa.ForeignKey("datasets.name"), nullable=False, index=True),
    sa.Column("fingerprint", sa.String(64), nullable=False, unique=True),
    sa.Column("study", sa.String(200), nullable=False),
    sa.Column("edition", sa.String(200), nullable=False),
    sa.Column("method", sa.String(64), nullable=False),
    sa.Column("unit", sa.String(40), nullable=False),
    sa.Column("guarantee", sa.JSON, nullable=False),
    sa.Column("spends", sa.JSON, nullable=False),
    sa.Column("epsilon_units", sa.BigInteger, nullable=True),
    sa.Column("delta_units", sa.BigInteger, nullable=False),
    sa.Column("rho_units", sa.BigInteger, nullable=False),
    sa.Column("noise", sa.String(32), nullable=False),
    sa.Column("reserved_at", sa.String(32), nullable=False),
)
DRAWS = sa.Table(
    "draws",
    METADATA,
    sa.Column("reservation", sa.ForeignKey("reservations.id"), primary_key=True),
    sa.Column("what", sa.String(200), primary_key=True),
    sa.Column("spend", sa.JSON, nullable=False),
    sa.Column("outcome", sa.JSON, nullable=False),
    sa.Column("drawn_at", sa.String(32), nullable=False),
)
RELEASES = sa.Table(
    "releases",
    METADATA,
    sa.Column("reservation", sa.ForeignKey("reservations.id"), primary_key=True),
    sa.Column("release", sa.JSON, nullable=False),
    sa.Column("released_at", sa.String(32), nullable=False),
)


class LedgerStore:
    """An engine on one database, its tables made, its transactions serialised.

    Raises:
        StudyInvalid: the URL is not one of SQLite's, or its folder cannot be written.
    """

    def __init__(self, url: str) -> None:
        try:
            address = sa.engine.make_url(url)
        except sa.exc.ArgumentError:
            raise _bad_url("is not a database URL") from None
        if address.get_backend_name() != "sqlite":
            raise _bad_url(
                f"names the database {address.get_backend_name()!r}, which this version cannot keep a ledger in"
            )
        if not address.database or address.database == ":memory:":
            raise _bad_url("names a database in memory, which would forget what was spent")
        path = Path(address.database).resolve()  # a later change of the current folder must not change the ledger
        _create_privately(path)
        address = address.set(database=str(path))
        self.engine = sa.create_engine(
            address, connect_args={"timeout": BUSY_SECONDS, "isolation_level": None}, poolclass=sa.pool.NullPool
        )
        sa.event.listen(self.engine, "connect", _configure)
        sa.event.listen(self.engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        with self.transaction() as connection:
            self._create_tables(connection)

    @contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        """All or nothing, one writer at a time, durable when the block ends."""
        with self.engine.begin() as connection:
            yield connection

    @staticmethod
    def _create_tables(connection: sa.Connection) -> None:
        if sa.inspect(connection).has_table(FACTS.name):
            found = connection.scalar(sa.select(FACTS.c.value).where(FACTS.c.name == "schema"))
            if found != str(SCHEMA_VERSION):
                raise DpboError(
                    f"the ledger has schema {found}, this version reads schema {SCHEMA_VERSION}",
                    cause="it was written by another version of dpbo",
                    remedy="use that version; never delete a ledger, it is the record of what was spent",
                )
            return
        METADATA.create_all(connection)
        for table in METADATA.sorted_tables:
            for verb in ("UPDATE", "DELETE"):
                connection.exec_driver_sql(
                    f"CREATE TRIGGER {table.name}_no_{verb.lower()} BEFORE {verb} ON {table.name} "
                    "BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"
                )
        connection.execute(FACTS.insert().values(name="schema", value=str(SCHEMA_VERSION)))


def _configure(connection, _record) -> None:  # type: ignore[no-untyped-def]
    """Durable on commit, foreign keys on, readers never blocked by the writer."""
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _create_privately(path: Path) -> None:
    """The file, readable by its owner alone, in a folder of its owner's."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        reason = error.strerror or "it cannot be written"
    else:
        return
    raise _bad_url(f"points to a place that cannot be used ({reason.lower()})")


def _bad_url(problem: str) -> StudyInvalid:
    return StudyInvalid(
        f"the ledger's URL {problem}",
        cause="DPBO_LEDGER_URL is set to something else than a writable SQLite file",
        remedy="unset it to use ./mlruns/ledger.db, or write sqlite:///path/to/ledger.db",
    )
