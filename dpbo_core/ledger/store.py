"""The ledger's transactions: one writer at a time, every row in the history too, and two records of it afterwards.

Writers take one lock before they read anything: SQLite's own (BEGIN IMMEDIATE), or an advisory lock of PostgreSQL's
under READ COMMITTED, where every later statement sees what the last writer committed. So no transaction ever fails
to serialise, none is tried twice, and a draw made inside one is made once: either it is committed, or the
transaction failed and nobody saw it. Readers take no lock and see one snapshot. A writer checks the chain from the
last place that was verified here, which `rollback_guard` keeps.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from pathlib import Path

import sqlalchemy as sa

from dpbo_core.errors import DpboError, LedgerDamaged
from dpbo_core.ledger import schema
from dpbo_core.ledger.address import is_read_only, open_engine
from dpbo_core.ledger.history import (
    HASH_QUERY,
    START_PLACE,
    Place,
    Writer,
    broken_links,
    changed_error,
    links,
    row_decoding,
)
from dpbo_core.ledger.rollback_guard import OverwritePolicy, RollbackGuard, missing, older
from dpbo_core.ledger.schema import HISTORY, LEDGER

LAST_ENTRY_QUERY = sa.select(HISTORY.c.sequence, HISTORY.c.hash).order_by(HISTORY.c.sequence.desc()).limit(1)
IDENTITY_QUERY = sa.select(LEDGER.c.identity).limit(1)
N_FRESH_ENTRIES = 1  # entries of a ledger that was just made: its identity, and nothing spent


class LedgerStore:
    """An engine on one database, its tables made, its transactions serialised.

    `restored` takes the ledger for what it is, even if it is older than its records or of another schema (for
    inspection). Its `identity` was drawn when it was made, and its copies share it; `guard` is how far it had come,
    as it is kept outside it.
    """

    def __init__(self, url: str, *, restored: bool = False) -> None:
        self._engine, beside = open_engine(url)
        self.server = self._engine.dialect.name == "postgresql"  # whose record is each machine's own
        self._read_only = not self.server and is_read_only(Path(str(self._engine.url.database)))
        self._name = f"the ledger, {'database' if self.server else 'file'} {self._engine.url.database!r},"
        self._restored = restored
        self.identity, self.guard = "", RollbackGuard(beside)  # until the identity is read
        if not self._read_identity():
            self._make()
            self._read_identity()
        if self.schema != schema.SCHEMA:
            if restored:
                return
            raise schema.another_schema_error(self.schema)
        self.guard = RollbackGuard(beside, self.identity, "" if self.server else str(self._engine.url.database))
        with self.reading() as connection:  # a snapshot of its own, which is taken after both records were read
            last, verified = self._last(connection)
            whole = not (restored or self._read_only) and self._unchained(connection, verified, last) is None
        if whole:  # what is not, whoever writes next is told
            self.guard.keep(last)

    @property
    def is_ours(self) -> bool:
        """Whether this process runs under the account that owns the ledger's file; always on a server."""
        return self.server or Path(str(self._engine.url.database)).stat().st_uid == os.geteuid()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Context with a connection that reads one snapshot of the ledger; it waits for no writer."""
        with self._transaction(reading=True) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Context with a writer: all or nothing, one at a time, durable at the block's end; refused if damaged.

        Where something was written, the newest entry is noted outside the ledger too (`guard`), so that an old copy
        put in its place is detected. A ledger that its owner accepted as restored is not checked for that, and its
        entry replaces whatever was noted.
        """
        if self._read_only:
            raise DpboError(
                f"{self._name} may only be read by this user",
                cause="the file, its folder or its disk is not writable, or it belongs to somebody else",
                remedy="run it as the ledger's owner; dpbo budget and dpbo show need no more than reading",
            )
        with self._transaction(reading=False) as connection:
            number = schema.number_of(connection)
            if number != schema.SCHEMA:
                raise schema.another_schema_error(number)
            last, verified = self._last(connection)
            problem = None if self._restored else self._unchained(connection, verified, last)
            if problem is not None:
                raise changed_error([problem], self._name)
            writer = Writer(connection, last, self._name)
            yield writer
        if writer.last != last:
            self.guard.keep(writer.last, OverwritePolicy.ANYTHING if self._restored else OverwritePolicy.EARLIER)

    def _read_identity(self) -> bool:
        """Read the schema's number and, of our own schema, the identity; False if there are no tables yet."""
        with self.reading() as connection:
            made = sa.inspect(connection).has_table(LEDGER.name)
            if made:
                self.schema = schema.number_of(connection)
            if made and self.schema == schema.SCHEMA:
                self.identity = str(connection.scalar(IDENTITY_QUERY) or "")
        return made

    def _make(self) -> None:
        with self._transaction(reading=False) as connection:
            if sa.inspect(connection).has_table(LEDGER.name):
                return
            writer = Writer(connection, START_PLACE, self._name)
            writer.note(LEDGER.name, schema.make(connection))
        if not self._restored:
            self.guard.records[0].keep(writer.last, durably=True)  # at once: without it nobody goes on

    @staticmethod
    @row_decoding()
    def _unchained(connection: sa.Connection, verified: Place, last: Place) -> str | None:
        """Return the first break of the hash chain after the entry `verified`, as text; None if it is whole."""
        if last == verified:
            return None
        return next(broken_links(links(connection, verified.sequence), verified), None)

    @contextmanager
    def _transaction(self, *, reading: bool) -> Iterator[sa.Connection]:
        """Context with a connection in a transaction; the driver's errors become errors of dpbo."""
        engine = self._engine.execution_options(reading=True) if reading else self._engine
        if reading and self.server:
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        failed: DpboError | None = None
        try:
            with engine.begin() as connection:
                yield connection
        except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
            failed = self._message(error)
            if failed is None:
                raise
        except UnicodeDecodeError:  # what SQLite says of a damaged page quotes its bytes
            if self.server:
                raise
            failed = self._damaged()
        if failed is not None:
            raise failed

    def _damaged(self) -> LedgerDamaged:
        return LedgerDamaged(
            f"{self._name} is damaged: SQLite cannot read it",
            cause="the disk or a copy failed, or something else than dpbo wrote to the file",
            remedy="restore the newest sound copy with the generation beside it, then run dpbo budget verify "
            "with the newest export; never delete a ledger, it is the record of what was spent",
        )

    def _message(self, error: sa.exc.SQLAlchemyError) -> DpboError | None:
        """Return the error to raise for a driver's error; None if it is a refused row or a faulty statement.

        The driver's own words stay here: it may name an address, or repeat a cell.
        """
        code = str(getattr(getattr(error, "orig", None), "sqlstate", "") or "")
        if isinstance(error, sa.exc.ProgrammingError) and code == "42501":
            return DpboError(
                f"{self._name} may not be used so by this role",
                cause="an operator's role reads the ledger and does not write to it",
                remedy="ask the curator, whose role may",
            )
        words = str(getattr(error, "orig", "")).lower()
        for marks, what, cause, remedy in SERVER_REASONS if self.server else ():
            if code in marks or any(mark in words for mark in marks if " " in mark):
                return DpboError(f"{self._name} {what}", cause=cause, remedy=remedy)
        if isinstance(error, sa.exc.IntegrityError | sa.exc.ProgrammingError | sa.exc.DataError):
            return None
        if type(error) in (sa.exc.DatabaseError, sa.exc.InternalError) and not self.server:
            return self._damaged()  # "malformed", "not a database"
        longest = "it does not answer, or another process holds it" if self.server else "another process holds it"
        return DpboError(
            f"{self._name} cannot be used now",
            cause=f"{longest}, its disk is full, or it may not be written",
            remedy="look at the database and run it again; it continues, and nothing is paid twice",
        )

    def _last(self, connection: sa.Connection) -> tuple[Place, Place]:
        """Return the newest history entry and the last verified one; refuses if a rollback guard names a later one.

        Both are read before the first statement of a reader, or after the writers' lock was taken, and written
        after a commit: they are never ahead of what a sound ledger holds.
        """
        own = self.guard.records[0]
        entries = [] if self._restored or self._read_only else self.guard.entries()
        of_user = START_PLACE if self._restored else self.guard.of_user()
        rows = connection.execute(LAST_ENTRY_QUERY).all()
        with row_decoding():  # SQLite keeps a text in a column of numbers
            last = Place(index(rows[0].sequence), str(rows[0].hash)) if rows else START_PLACE
        for place, path in entries:
            self._check_reached(connection, last, place, path)
        beside = max((place for place, _ in entries), key=lambda place: place.sequence, default=START_PLACE)
        unknown = not (beside.sequence or self._restored or self._read_only or self.server)
        # read again: another process may just have begun it
        if unknown and last.sequence > N_FRESH_ENTRIES and not own.read().sequence:
            raise missing(own.path)
        self._check_reached(connection, last, of_user, self.guard.path_of_user or own.path)
        return last, beside

    @staticmethod
    def _check_reached(connection: sa.Connection, last: Place, reached: Place, path: Path) -> None:
        if reached in (last, START_PLACE):
            return
        if connection.scalar(HASH_QUERY, {"sequence": reached.sequence}) != reached.hash:
            raise older(f"entry {reached.sequence} (kept in {path.name})")


SERVER_REASONS = (  # SQLSTATEs and words of a driver's error, and what to say of it
    (
        ("28P01", "28000", "password authentication failed", "no password supplied"),
        "refuses the role or its password",
        "the password is wrong, or pg_hba.conf does not let this role in from here",
        "correct DPBO_DATABASE_URL or ~/.pgpass, or ask whoever runs the server",
    ),
    (
        ("does not support ssl", "ssl error", "ssl negotiation", "certificate verify failed"),
        "refuses an encrypted connection",
        "sslmode asks for TLS, and the server has none or shows another certificate",
        "turn TLS on at the server, or correct sslmode and sslrootcert",
    ),
    (
        ("25006", "read-only transaction"),
        "may only be read",
        "the server is a standby, or its transactions are read-only by default",
        "name the primary server",
    ),
    (("3D000",), "does not exist on that server", "a misspelt name", "correct it, or create the database"),
)
