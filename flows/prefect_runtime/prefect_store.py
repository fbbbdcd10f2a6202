"""Prefect's database on this machine, made whole before the first server opens it.

Prefect's own migrations take ten to fifteen seconds, so they are run once a user: the empty database that they make
is kept in $XDG_CACHE_HOME/dpbo (~/.cache/dpbo) under a name that says which migrations it had, and copied.
"""

import hashlib
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing, suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from dpbo.flows.prefect_runtime.database import prepare
from dpbo.flows.prefect_runtime.settings import default_home, prefect_settings
from dpbo_core.ledger.address import team_setting
from dpbo_core.privacy.atomically import create_atomically, locked_folder

SCHEME = "sqlite+aiosqlite:///"
DATABASE = "prefect.db"
MIGRATIONS = "server/database/_migrations/versions/sqlite"
REVISION = re.compile(r'^(down_)?revision\b[^=]*= *["\']([0-9a-f]+)["\']$', re.MULTILINE)
CACHE = "XDG_CACHE_HOME"
ONCE = "Setting up Prefect's database, once: about 15 seconds\n"


def create_prefect_store() -> None:
    """Create Prefect's migrated database, unless it is there or a server is set; and a team's databases."""
    team = team_setting()
    if team is not None:
        prepare(team)
    if default_home() is None and prefect_settings().api.url is not None:
        return
    place = prefect_store()
    if place is not None:
        create_atomically(place, make_database)


def is_migrated(place: Path) -> bool:
    """Whether the database at `place` has had the newest migration of the installed Prefect."""
    newest = _newest_migration()
    if newest is None or not place.is_file():
        return False
    try:
        with closing(sqlite3.connect(f"{place.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            versions = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    except sqlite3.Error:
        return False
    return versions == [(newest,)]


def prefect_store() -> Path | None:
    """The file of Prefect's database; None where it is no SQLite file."""
    home = default_home()
    if home is not None:
        return home / DATABASE
    settings = prefect_settings()
    url = settings.server.database.connection_url
    address = url.get_secret_value() if url is not None else f"{SCHEME}{settings.home / DATABASE}"
    place = address.removeprefix(SCHEME)
    return None if place == address or ":memory:" in place else Path(place)


def template() -> Path | None:
    """The cached empty database with all of Prefect's migrations, made if need be; None where none can be kept.

    Returns:
        Its file, this user's alone and complete in itself.
    """
    folder = _cache_folder()
    if folder is None:
        return None
    place = folder / f"prefect-{_migrations()}.db"
    try:
        if not os.path.lexists(place):
            with locked_folder(folder):  # of several first commands one works, and the others wait for it
                create_atomically(place, _migrate)
    except OSError:  # a full disk, or a file system without locks
        return None
    return place if _is_sound(place) else None


def make_database(path: Path) -> None:
    """Make Prefect's empty database at `path`: a copy of the template, or by Prefect's migrations."""
    source = template()
    if source is None:
        _migrate(path)
    else:
        shutil.copyfile(source, path)


def _cache_folder() -> Path | None:
    """The template's folder, made if missing, which nobody else can write to; None where the user can have none."""
    named = Path(os.environ.get(CACHE, ""))
    try:
        folder = (named if named.is_absolute() else Path.home() / ".cache") / "dpbo"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.lstat()
    except (OSError, RuntimeError):  # a home that cannot be written, or none at all
        return None
    private = stat.S_ISDIR(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022
    return folder if private and os.access(folder, os.W_OK) else None


def _is_sound(place: Path) -> bool:
    """Whether a file is regular, written by this user alone, and complete without a journal."""
    try:
        state = place.lstat()
    except OSError:
        return False
    private = stat.S_ISREG(state.st_mode) and state.st_uid == os.geteuid() and not state.st_mode & 0o022
    return private and not os.path.lexists(f"{place}-wal")


def _migrate(path: Path) -> None:
    """Let Prefect make its tables at `path`, in one file: about 15 seconds, of which standard error is told."""
    with suppress(OSError):
        sys.stderr.write(ONCE)
        sys.stderr.flush()
    environment = os.environ | {"PREFECT_API_DATABASE_CONNECTION_URL": f"{SCHEME}{path}"}
    command = [sys.executable, "-P", "-m", "prefect", "server", "database", "upgrade", "-y"]
    subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603  our own interpreter
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # Prefect itself goes back to a write-ahead log


@cache
def _versions() -> tuple[Path, ...]:
    """The files of the installed Prefect's SQLite migrations; Prefect is not imported."""
    package = find_spec("prefect")
    folder = Path((package and package.origin) or "").parent / MIGRATIONS
    return tuple(sorted(folder.glob("[0-9a-z]*.py")))


def _migrations() -> str:
    """The first half of the SHA-256 of the migrations' file names, in hex."""
    return hashlib.sha256("\n".join(path.name for path in _versions()).encode()).hexdigest()[:32]


def _newest_migration() -> str | None:
    """The revision that no other migration builds on; None where that is ambiguous."""
    lines = [REVISION.findall(path.read_text(encoding="utf-8")) for path in _versions()]
    revisions = {name for line in lines for down, name in line if not down}
    newest = revisions - {name for line in lines for down, name in line if down}
    return newest.pop() if len(newest) == 1 else None
