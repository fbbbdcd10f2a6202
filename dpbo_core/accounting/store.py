"""The ledger's transactions: one writer at a time, every row also in the history, the generation kept afterwards.

Writers take one lock before they read anything: SQLite's own (BEGIN IMMEDIATE), or an advisory lock of PostgreSQL's
under READ COMMITTED, where every later statement sees what the last writer committed. So no transaction ever fails
to serialise, none is tried twice, and a draw made inside one is made once: either it is committed, or the
transaction failed and nobody saw it. Readers take no lock and see one snapshot.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from operator import index
from pathlib import Path

import sqlalchemy as sa

from dpbo_core.accounting import schema
from dpbo_core.accounting.address import open_engine
from dpbo_core.accounting.generation import Generation, GenerationFile, missing, older
from dpbo_core.accounting.key import SETTING, LedgerKey, key_of_setting, made_by
from dpbo_core.accounting.legible import legible
from dpbo_core.accounting.pen import Pen
from dpbo_core.accounting.seen import Seen
from dpbo_core.accounting.tables import FACTS, HISTORY
from dpbo_core.errors import DpboError, LedgerDamaged

LAST = sa.select(HISTORY.c.sequence, HISTORY.c.hash).order_by(HISTORY.c.sequence.desc()).limit(1)
NEWEST = sa.select(HISTORY.c.sequence, HISTORY.c.hash, HISTORY.c.mac).order_by(HISTORY.c.sequence.desc()).limit(1)
SEALED = sa.select(HISTORY.c.sequence).where(HISTORY.c.mac.is_not(None)).limit(1)
FRESH = 1  # entries of a ledger that was just made: its identity, and nothing spent
AT = sa.select(HISTORY.c.hash).where(HISTORY.c.sequence == sa.bindparam("sequence"))
IDENTITY = sa.select(FACTS.c.value).where(FACTS.c.name == "identity")
MIGRATION = "migrations"  # where the history of an older schema ends: in the history alone


class LedgerStore:
    """An engine on one database, its tables made, its transactions serialised.

    Args:
        url: of a SQLite file or a PostgreSQL database.
        restored: take the ledger for what it is, even if it is older than its generation (for inspection).

    Attributes:
        server: whether it is in a database server, so that other machines have generations of their own.
        identity: drawn when it was made; its copies share it.
        seen: the newest entry that this user saw.

    Raises:
        StudyInvalid: the URL names no place a ledger can be kept in.
        LedgerDamaged: the ledger is older than it was.
        DpboError: the database cannot be reached, or another version wrote it.
    """

    def __init__(self, url: str, *, restored: bool = False) -> None:
        self._engine, kept_in = open_engine(url)
        self.server = self._engine.dialect.name == "postgresql"  # whose generation is each machine's own
        self._name = f"the ledger, {'database' if self.server else 'file'} {self._engine.url.database!r},"
        self._process = os.getpid()
        self._restored = restored
        self.generation, self.seen = GenerationFile(kept_in), Seen("")  # until the identity is read
        with self.reading() as connection:
            current = schema.found(connection) == schema.HEAD
            identity = connection.scalar(IDENTITY) if current else None
        if not current:
            self._bring_up_to_date()
            with self.reading() as connection:
                identity = connection.scalar(IDENTITY)
        self.identity = str(identity or "")
        self.seen = Seen(self.identity, "" if self.server else str(self._engine.url.database))
        with self.reading() as connection:
            last = self._last(connection)
        if not self.generation.exists and not restored:  # the first look at a new ledger, or this machine's first
            self.generation.keep(last)
        if not restored:
            self.seen.keep(last)

    def keys(self) -> tuple[LedgerKey, ...]:
        """The keys known here; the first is the one that new entries are sealed with.

        Raises:
            StudyInvalid: DPBO_LEDGER_KEY names no key.
            LedgerDamaged: the generation cannot be read.
        """
        own = None if self.server else self.generation.key()
        return tuple(key for key in (key_of_setting(), own) if key is not None)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One snapshot of the ledger; it waits for no writer."""
        with self._begun(reading=True) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Pen]:
        """All or nothing, one writer at a time, durable when the block ends."""
        with self._begun(reading=False) as connection:
            schema.check(connection)
            begun = self._last(connection)
            pen = Pen(connection, begun, self._writing_key(connection), self._name)
            yield pen
        if pen.last != begun:
            self.generation.keep(pen.last, whatever=self._restored)
            self.seen.keep(pen.last, whatever=self._restored)

    def _bring_up_to_date(self) -> None:
        """Make the tables, or take an older ledger to this schema: its history so far is sealed with the key."""
        with self._begun(reading=False) as connection:
            before = schema.found(connection)
            if before not in (None, "0001", schema.HEAD) and not self._restored:  # the first had no history
                self._last(connection)
            schema.bring_up_to_date(connection)
            rows = connection.execute(NEWEST).all()
            last = Generation(rows[0].sequence, rows[0].hash)
            if before not in (None, schema.HEAD):
                pen = Pen(connection, last, self._writing_key(connection), self._name)
                try:
                    pen.check_whole()
                except LedgerDamaged:  # what is wrong `verify` says, and the next to write
                    pen.leave_totals()
                pen.note(MIGRATION, {"from": before, "to": schema.HEAD, "head": last.hash})
                last = pen.last
        if not self._restored:
            self.generation.keep(last)

    def _writing_key(self, connection: sa.Connection) -> LedgerKey | None:
        """The key of new entries, once the newest entry was found to be sealed by one that is known here.

        Raises:
            LedgerDamaged: somebody without the key wrote the newest entry.
            DpboError: the ledger is sealed with a key that is not here.
        """
        try:
            keys = self.keys()
        except LedgerDamaged:
            if not self._restored:
                raise
            keys = ()
        if not keys and not self.server:
            keys = (self.generation.make_key(),)
        if self._restored:
            return keys[0] if keys else None
        mac, sealed = next(((row.mac, row.hash) for row in connection.execute(NEWEST)), (None, ""))
        right = None if mac is None else made_by(mac, sealed, keys)
        if right is False or (mac is None and keys and connection.scalar(SEALED) is not None):
            raise LedgerDamaged(
                "the newest entry of the ledger's history is not sealed by its owner's key",
                cause="somebody wrote to its database past dpbo",
                remedy="run dpbo budget verify; restore the newest sound copy",
            )
        if mac is not None and right is None:
            raise DpboError(
                "the ledger is sealed with a key that is not here",
                cause=f"{SETTING} is not set on this machine or names another key, or the generation was replaced",
                remedy=f"give this machine the key of the others ({SETTING}); if it is lost, and you answer for "
                "the ledger, run: dpbo budget verify --accept-restored",
            )
        return keys[0] if keys else None

    @contextmanager
    def _begun(self, *, reading: bool) -> Iterator[sa.Connection]:
        if os.getpid() != self._process:  # forked: the parent's connections are not ours, nor ours to close
            self._engine.dispose(close=False)
            self._process = os.getpid()
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
        """What a person is told of a driver's error; None of a row that the ledger refuses, or a statement of ours.

        What the driver says stays here: it may name an address, or repeat a cell.
        """
        code = str(getattr(getattr(error, "orig", None), "sqlstate", "") or "")
        if isinstance(error, sa.exc.ProgrammingError) and code == "42501":
            return DpboError(
                f"{self._name} may not be used so by this role",
                cause="an operator's role reads the ledger and does not write to it",
                remedy="ask the curator, whose role may",
            )
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

    def _last(self, connection: sa.Connection) -> Generation:
        """The last entry of the history, which must hold the entries that the generation and the user's folder say.

        Both are read before the first statement of a reader, or after the writers' lock was taken, and written
        after a commit: they are never ahead of what a sound ledger holds.
        """
        kept, seen = Generation(), Generation()
        if not self._restored:
            kept, seen = self.generation.read(), self.seen.read()
        rows = connection.execute(LAST).all()
        with legible():  # SQLite keeps a text in a column of numbers
            last = Generation(index(rows[0].sequence), str(rows[0].hash)) if rows else Generation()
        self._check_reached(connection, last, kept, self.generation.path)
        unknown = not (kept.sequence or self._restored or self.server) and last.sequence > FRESH
        if unknown and not self.generation.read().sequence:  # read again: another process may just have begun it
            raise missing(self.generation.path)
        self._check_reached(connection, last, seen, self.seen.path or self.generation.path)
        return last

    @staticmethod
    def _check_reached(connection: sa.Connection, last: Generation, known: Generation, path: Path) -> None:
        """An entry that was known is in the history.

        Raises:
            LedgerDamaged: it is not.
        """
        if known in (last, Generation()):
            return
        found = connection.scalar(AT, {"sequence": known.sequence})
        if found != known.hash:
            raise older(path, known)
