"""The ledger's transactions: one writer at a time, every row also in the history, the generation kept afterwards.

Writers take one lock before they read anything: SQLite's own (BEGIN IMMEDIATE), or an advisory lock of PostgreSQL's
under READ COMMITTED, where every later statement sees what the last writer committed. So no transaction ever fails
to serialise, none is tried twice, and a draw made inside one is made once: either it is committed, or the
transaction failed and nobody saw it. Readers take no lock and see one snapshot.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting import schema
from dpbo_core.accounting.address import open_engine
from dpbo_core.accounting.generation import Generation, GenerationFile, older
from dpbo_core.accounting.history import canonical, seal
from dpbo_core.accounting.tables import HISTORY
from dpbo_core.errors import DpboError, LedgerDamaged

NEWEST = sa.select(HISTORY.c.sequence, HISTORY.c.hash).order_by(HISTORY.c.sequence.desc()).limit(1)


@contextmanager
def legible() -> Iterator[None]:
    """Around reading rows back: a cell that holds something else than was written there is damage.

    Raises:
        LedgerDamaged: it says so; what the cell holds it does not repeat.
    """
    try:
        yield
    except DpboError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError, sa.exc.DataError):
        pass
    else:
        return
    raise LedgerDamaged(
        "a row of the ledger cannot be read: it does not hold what was written there",
        cause="somebody wrote to its database past dpbo, or a disk failed",
        remedy="run dpbo budget verify; restore the newest sound copy",
    )


class Pen:
    """A writing transaction: `connection` reads and `write` adds a row, to its table and to the history."""

    def __init__(self, connection: sa.Connection, last: Generation) -> None:
        self.connection, self.last = connection, last

    def write(self, table: sa.Table, row: Mapping[str, Any]) -> int | None:
        """Add a row; the number the database gave it, if the table numbers its rows."""
        number: int | None = None
        result = self.connection.execute(table.insert(), dict(row))
        if "id" in table.c:
            key = result.inserted_primary_key
            assert key is not None  # noqa: S101  an insert of one row into a table that numbers them
            number = int(key[0])
            row = {**row, "id": number}
        self.note(table.name, row)
        return number

    def note(self, about: str, row: Mapping[str, Any]) -> None:
        """Add an entry to the history."""
        sequence, content = self.last.sequence + 1, canonical(row)
        sealed = seal(self.last.hash, sequence, about, content)
        entry = {"sequence": sequence, "about": about, "content": content, "hash": sealed}
        self.connection.execute(HISTORY.insert(), entry)
        self.last = Generation(sequence, sealed)


class LedgerStore:
    """An engine on one database, its tables made, its transactions serialised.

    Args:
        url: of a SQLite file or a PostgreSQL database.
        restored: take the ledger for what it is, even if it is older than its generation (for inspection).

    Raises:
        StudyInvalid: the URL names no place a ledger can be kept in.
        LedgerDamaged: the ledger is older than it was.
        DpboError: the database cannot be reached, or another version wrote it.
    """

    def __init__(self, url: str, *, restored: bool = False) -> None:
        self._engine, kept_in = open_engine(url)
        self._process = os.getpid()
        self._restored = restored
        self.generation = GenerationFile(kept_in)
        with self.reading() as connection:
            current = schema.found(connection) == schema.HEAD
        if not current:
            with self._begun(reading=False) as connection:
                schema.bring_up_to_date(connection)
        with self.reading() as connection:
            self._last(connection)

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """One snapshot of the ledger; it waits for no writer."""
        with self._begun(reading=True) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Pen]:
        """All or nothing, one writer at a time, durable when the block ends."""
        with self._begun(reading=False) as connection:
            begun = self._last(connection)
            pen = Pen(connection, begun)
            yield pen
        if pen.last != begun:
            self.generation.keep(pen.last, whatever=self._restored)

    @contextmanager
    def _begun(self, *, reading: bool) -> Iterator[sa.Connection]:
        if os.getpid() != self._process:  # forked: the parent's connections are not ours, nor ours to close
            self._engine.dispose(close=False)
            self._process = os.getpid()
        engine = self._engine.execution_options(reading=True) if reading else self._engine
        if reading and engine.dialect.name == "postgresql":
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        try:
            with engine.begin() as connection:
                yield connection
        except (sa.exc.OperationalError, sa.exc.TimeoutError) as error:
            failed = type(error).__name__
        else:
            return
        raise DpboError(
            f"the ledger's database cannot be used ({failed})",
            cause="it cannot be reached, its disk is full, or another process has held it for more than a minute",
            remedy="look at the database and run it again; nothing is paid twice",
        )

    def _last(self, connection: sa.Connection) -> Generation:
        """The last entry of the history, which must hold the entry that the generation says was there.

        The generation is read after the writers' lock was taken and written after a commit: it is never ahead of
        what a sound ledger holds.
        """
        kept = Generation() if self._restored else self.generation.read()
        rows = connection.execute(NEWEST).all()
        last = Generation(rows[0].sequence, rows[0].hash) if rows else Generation()
        if last != kept and kept.sequence:
            found = connection.scalar(sa.select(HISTORY.c.hash).where(HISTORY.c.sequence == kept.sequence))
            if found != kept.hash:
                raise older(self.generation.path, kept)
        return last
