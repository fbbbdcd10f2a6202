"""The ledger's URL, decided here for everybody, and the engine on its database.

    argument  >  DPBO_LEDGER_URL  >  the team's DPBO_DATABASE_URL  >  ./mlruns/ledger.db

The command, the flows, the notebook and both parties of an exchange ask `ledger_url`, so that a cap set by one
holds for all. An engine commits durably, lets one writer in at a time, and keeps its files for their owner alone.
"""

import errno
import hashlib
import os
import sqlite3
from functools import lru_cache
from pathlib import Path

import sqlalchemy as sa

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger import postgres_timeouts as patience

BUSY_TIMEOUT_S = 60  # a writer of a SQLite ledger waits so long while no other one commits
STATE_FOLDER = Path("mlruns")  # where DPBO keeps its stores, and what must not lie in a team's database
STATE_SETTING, LEDGER_SETTING, TEAM_SETTING = "DPBO_STATE_DIR", "DPBO_LEDGER_URL", "DPBO_DATABASE_URL"
LEDGER_LOCK = 0x6470626F  # "dpbo": the advisory lock every writer of a PostgreSQL ledger takes first


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
        """Durable on commit, foreign keys on, readers never blocked by the writer."""
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
    patience.make_patient_by_name()
    try:
        engine = _postgresql_engine(address.set(drivername="postgresql+psycopg"))
    except ImportError:
        raise _bad_url_error(
            "names PostgreSQL, whose driver is not installed (pip install 'dpbo[postgres]')"
        ) from None
    place = address.set(drivername="postgresql", username=None, password=None).render_as_string()
    _make_private(state_folder())
    name = f"ledger-{hashlib.sha256(place.encode()).hexdigest()[:16]}.generation"
    return engine, state_folder() / name


@lru_cache(maxsize=16)  # the first connection of an engine asks the server five questions more than later ones
def _postgresql_engine(address: sa.URL) -> sa.Engine:
    engine = sa.create_engine(
        patience.named(address),
        isolation_level="READ COMMITTED",  # each statement after the lock sees what the last writer committed
        poolclass=sa.pool.NullPool,  # a long step may outlast a connection, and no fork may share one
        hide_parameters=True,  # an error would state what was drawn in a transaction that failed
    )

    def begin(connection: sa.Connection) -> None:
        if not connection.get_execution_options().get("reading", False):
            connection.exec_driver_sql(patience.QUEUE_STATEMENT % LEDGER_LOCK)

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
