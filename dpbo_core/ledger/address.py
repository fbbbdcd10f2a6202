"""The ledger's URL, decided here for everybody, and the engine on its database.

    argument  >  DPBO_LEDGER_URL  >  the team's DPBO_DATABASE_URL  >  ./mlruns/ledger.db

The command, the flows, the notebook and both parties of an exchange ask `ledger_url`, so that a cap set by one
holds for all. An engine commits durably, lets one writer in at a time, and keeps its files for their owner alone.

A PostgreSQL server or a writer that has stopped ends in a message:

| what has stopped | what ends the wait | seconds |
|---|---|---|
| a server that accepts and never answers | connect_timeout | 5 |
| a network that loses everything | TCP user timeout, keepalives | 12 |
| a server after the connection, its machine still acknowledging | the connection itself | 12 |
| another writer, before its commit: those behind it | lock_timeout | 10 |
| the same: the writer itself, which lets go of the lock | idle_in_transaction_session_timeout | 30 |

Whoever waits gets a message within 15 seconds. A writer has twice as long, since a published table is drawn and
written to its vault between two statements. A URL may say otherwise of the first two.
"""

import errno
import hashlib
import os
import sqlite3
import time
from collections.abc import Generator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from dpbo_core.errors import StudyInvalid

if TYPE_CHECKING:
    from psycopg import Connection

CONNECTING, QUEUED, SILENCE, IDLE_TIMEOUT_S = 5, 10, 12, 30  # seconds
APPLICATION_NAME = "dpbo"  # what a connection calls itself that this process opens, MLflow's among them
CONNECTION_OPTIONS = {
    "connect_timeout": CONNECTING,
    "tcp_user_timeout": 1000 * SILENCE,
    "keepalives": 1,
    "keepalives_idle": 4,
    "keepalives_interval": 4,
    "keepalives_count": 2,
}
# A writer's first words: durable on commit whatever the server's default, and its turn is not waited for for ever.
QUEUE_STATEMENT = (
    "SELECT set_config('synchronous_commit', 'on', true), "
    f"set_config('lock_timeout', '{QUEUED}s', true), "
    f"set_config('idle_in_transaction_session_timeout', '{IDLE_TIMEOUT_S}s', true), pg_advisory_xact_lock(%d)"
)
BUSY_TIMEOUT_S = 60  # a writer of a SQLite ledger waits so long while no other one commits
STATE_FOLDER = Path("mlruns")  # where DPBO keeps its stores, and what must not lie in a team's database
STATE_SETTING, LEDGER_SETTING, TEAM_SETTING = "DPBO_STATE_DIR", "DPBO_LEDGER_URL", "DPBO_DATABASE_URL"
LEDGER_LOCK = 0x6470626F  # "dpbo": the advisory lock every writer of a PostgreSQL ledger takes first


def patient_url(address: sa.URL) -> sa.URL:
    """Return the URL with libpq's timeouts added, where it sets none itself."""
    return address.update_query_dict(
        {name: str(value) for name, value in CONNECTION_OPTIONS.items() if name not in address.query}
    )


def make_patient_by_name() -> None:
    """Make this process's connections whose application name is NAMED fail when the server stays silent.

    TCP does not detect this: the machine of a stopped server still acknowledges what is sent. The name selects the
    connections, because MLflow creates its engines itself.
    """
    if not sa.event.contains(sa.engine.Engine, "do_connect", _connect_named):
        sa.event.listen(sa.engine.Engine, "do_connect", _connect_named)


def named(address: sa.URL) -> sa.URL:
    """Return the URL with libpq's timeouts and the application name by which `make_patient_by_name` knows it."""
    return patient_url(address).update_query_dict({"application_name": APPLICATION_NAME})


def _connect_named(dialect, _record, words, options) -> Any:  # type: ignore[no-untyped-def]
    if dialect.driver == "psycopg" and options.get("application_name") == APPLICATION_NAME:
        plain = {"prepare_threshold": None}  # a pooler gives a statement that was prepared to another client
        return _connection_with_timeout().connect(*words, **plain | options)
    return None  # as the dialect would


def _connection_with_timeout() -> "type[Connection[Any]]":
    """Return a subclass of psycopg's Connection that gives up on a silent server."""
    import psycopg  # which is optional

    class PatientConnection(psycopg.Connection[Any]):
        silence: float = SILENCE

        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            return super().wait(self._limited(gen), *args, **options)

        def _limited(self, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
            """`work`, woken now and then though nothing is ready; whatever comes begins the count again."""
            heard = time.monotonic()
            try:
                awaited = next(work)
                while True:
                    ready = yield awaited
                    if ready:
                        heard = time.monotonic()
                    elif time.monotonic() - heard > self.silence:
                        self.pgconn.finish()  # what it would still say belongs to a statement that was given up
                        raise psycopg.OperationalError("the server is silent")
                    awaited = work.send(ready)
            except StopIteration as done:
                return done.value

    return PatientConnection


def ledger_url(url: str | None = None) -> str:
    """Return the SQLAlchemy URL: `url`, else DPBO_LEDGER_URL, else DPBO_DATABASE_URL, else ./mlruns/ledger.db's."""
    if url is not None and not isinstance(url, str):
        raise StudyInvalid(
            "the ledger of a PrivateSearch is not a URL",
            cause="an open ledger was passed, which a clone or another process could not share",
            remedy='pass ledger = "sqlite:///path/to/ledger.db"',
        )
    named = url or os.environ.get(LEDGER_SETTING)
    if named:
        return named
    team = team_setting()
    if team is not None:
        return team_address(team).set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    return f"sqlite:///{STATE_FOLDER.resolve() / 'ledger.db'}"


def state_folder() -> Path:
    """Return the absolute folder of what belongs to this machine: DPBO_STATE_DIR, else ./mlruns.

    Locks of runs, secrets of watches and curators, and how far a team's ledger had come are there.
    """
    return Path(os.environ.get(STATE_SETTING) or STATE_FOLDER).resolve()


def team_setting() -> str | None:
    """Return the one PostgreSQL URL of a team's stores (DPBO_DATABASE_URL); None if it is not set."""
    return os.environ.get(TEAM_SETTING) or None


def team_address(url: str) -> sa.URL:
    """Return a team's PostgreSQL URL, parsed; any other database is refused."""
    try:
        address = sa.engine.make_url(url)
        fit = address.get_backend_name() == "postgresql" and bool(address.database)
    except (sa.exc.ArgumentError, ValueError):
        fit = False
    if not fit:
        raise StudyInvalid(
            f"{TEAM_SETTING} is no PostgreSQL URL with a database",
            cause="a typing error; SQLite needs no setting at all",
            remedy="write postgresql://user@host/dpbo",
        )
    check_escaped(address)
    return address


def check_escaped(address: sa.URL) -> None:
    """Refuse a PostgreSQL URL whose host or database holds signs that separate parts; nothing is repeated."""
    host, database = address.host or "", address.database or ""
    if any(sign in host for sign in "@#") or any(sign in database for sign in "@:#?"):
        raise StudyInvalid(
            "the database's URL cannot be divided into its parts",
            cause="the password holds @, :, /, # or %, which separate the parts of a URL",
            remedy="write such a sign by its code: %40 for @, %3A for :, %2F for /, %23 for #, %25 for %",
        )


def open_engine(url: str) -> tuple[sa.Engine, Path]:
    """Return an engine on the ledger's database, a SQLite file made if missing, and its rollback guard's file."""
    try:
        address = sa.engine.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        raise _bad_url_error("is not a database URL") from None
    backend, name = address.get_backend_name(), address.database or ""
    if backend == "postgresql":
        check_escaped(address)
    if "\0" in name or name != name.encode(errors="replace").decode():
        raise _bad_url_error(f"names {name!r}, which holds a character that no file and no database can have")
    if backend == "sqlite":
        return _open_sqlite(address)
    if backend == "postgresql":
        return _open_postgresql(address)
    raise _bad_url_error(f"names the database {backend!r}, which this version cannot keep a ledger in")


def _open_sqlite(address: sa.URL) -> tuple[sa.Engine, Path]:
    if not address.database or address.database == ":memory:":
        raise _bad_url_error("names a database in memory, which would forget what was spent")
    if "uri" in address.query:
        raise _bad_url_error("names a file by options behind its path, so that one file had two names")
    path = Path(address.database).resolve()  # a later change of the current folder must not change the ledger
    beside = path.with_name(path.name + ".generation")
    if is_read_only(path):
        return _sqlite_to_read(path), beside
    _make_private(path.parent, path)
    return _sqlite_engine(path, beside), beside


@lru_cache(maxsize=16)  # an engine holds no connection, but statements that it compiled; a command opens it often
def _sqlite_engine(path: Path, beside: Path) -> sa.Engine:
    """An engine on a SQLite ledger's file that lets one writer in at a time; `beside` changes with every commit."""
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=str(path)),  # nothing else: the file is the one whose generation is kept
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None},
        poolclass=sa.pool.NullPool,  # a SQLite connection must never be carried into a forked process
        hide_parameters=True,  # an error would state what was drawn in a transaction that failed
    )

    def configure(connection, _record) -> None:  # type: ignore[no-untyped-def]
        # durable on commit, foreign keys on, readers never blocked by the writer
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    def begin(connection: sa.Connection) -> None:
        if connection.get_execution_options().get("reading", False):
            connection.exec_driver_sql("BEGIN")
            return
        while True:  # SQLite lets the writers in by chance: whoever had none waits on while others commit
            before = _changed_at(beside)
            try:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            except sa.exc.OperationalError:
                if _changed_at(beside) == before:
                    raise
            else:
                return

    sa.event.listen(engine, "connect", configure)
    sa.event.listen(engine, "begin", begin)
    return engine


def is_read_only(path: Path) -> bool:
    """Return whether the SQLite ledger exists but this user may not write it, or its folder."""
    return path.is_file() and not all(os.access(each, os.W_OK, effective_ids=True) for each in (path, path.parent))


def _sqlite_to_read(path: Path) -> sa.Engine:
    """Return an engine on a SQLite ledger that this user may only read.

    Without a writer's files beside it SQLite would make them. Where there are none nobody writes now, and the file
    is read as it is; what a writer changes during the read is a broken page or chain, and so an error.
    """

    def connect() -> sqlite3.Connection:
        still = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
        return sqlite3.connect(
            f"{path.as_uri()}?mode=ro{still}", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None
        )

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.pool.NullPool)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    engine.url = sa.URL.create("sqlite", database=str(path))  # as messages and records name it
    return engine


def _changed_at(record: Path) -> int:
    try:
        return record.stat().st_mtime_ns
    except OSError:
        return 0


def _open_postgresql(address: sa.URL) -> tuple[sa.Engine, Path]:
    make_patient_by_name()
    try:
        engine = _postgresql_engine(address.set(drivername="postgresql+psycopg"))
    except ImportError:
        problem = "names PostgreSQL, whose driver is not installed (pip install 'dpbo[postgres]')"
        raise _bad_url_error(problem) from None
    place = address.set(drivername="postgresql", username=None, password=None).render_as_string()
    _make_private(state_folder())
    name = f"ledger-{hashlib.sha256(place.encode()).hexdigest()[:16]}.generation"
    return engine, state_folder() / name


@lru_cache(maxsize=16)  # the first connection of an engine asks the server five questions more than later ones
def _postgresql_engine(address: sa.URL) -> sa.Engine:
    engine = sa.create_engine(
        named(address),
        isolation_level="READ COMMITTED",  # each statement after the lock sees what the last writer committed
        poolclass=sa.pool.NullPool,  # a long step may outlast a connection, and no fork may share one
        hide_parameters=True,  # an error would state what was drawn in a transaction that failed
    )

    def begin(connection: sa.Connection) -> None:
        if not connection.get_execution_options().get("reading", False):
            connection.exec_driver_sql(QUEUE_STATEMENT % LEDGER_LOCK)

    sa.event.listen(engine, "begin", begin)
    return engine


def _make_private(folder: Path, file: Path | None = None) -> None:
    """Make a folder and a file, readable by their owner alone; SQLite gives -wal and -shm the file's mode."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file is not None:
            if file.exists() and not file.is_file():  # a device's mode is everybody's
                raise OSError(errno.EINVAL, "it is no ordinary file")
            with open(os.open(file, os.O_CREAT | os.O_RDWR, 0o600), "rb") as opened:  # noqa: PTH123  a handle
                if os.fstat(opened.fileno()).st_uid == os.geteuid():
                    os.fchmod(opened.fileno(), 0o600)
    except OSError as error:
        reason = error.strerror or "it cannot be made or written"
    else:
        return
    raise _bad_url_error(f"points to a place that cannot be used ({reason.lower()})")


def _bad_url_error(problem: str) -> StudyInvalid:
    return StudyInvalid(
        f"the ledger's URL {problem}",
        cause="DPBO_LEDGER_URL is set to something else than a writable SQLite file or a PostgreSQL database",
        remedy="unset it to use ./mlruns/ledger.db, or write sqlite:///path/to/ledger.db or "
        "postgresql://user@host/database",
    )
