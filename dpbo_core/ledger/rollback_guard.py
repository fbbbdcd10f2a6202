"""Records of how far a ledger had come, in two places outside it, so that an old copy put back is noticed.

One record, the number of entries, the hash of the last and the schema, is written by one function to both:

| place | if it cannot be read |
|---|---|
| beside a SQLite ledger, `….generation`; for PostgreSQL two in ./mlruns of each machine | refused |
| with the user, in $XDG_STATE_HOME/dpbo (~/.local/state/dpbo), 0700 | a warning; the study goes on |

They are written after the commit, so a kill between the two leaves a ledger newer than its records, which is fine.
A ledger that does not hold what a record says is older, or another: it is refused until a person confirms. So is a
SQLite ledger with a history and no record beside it: copy both files, or neither. A machine that meets a PostgreSQL
ledger for the first time begins a record. What a record says was verified, so that a writer checks what came after.
"""

import fcntl
import hashlib
import json
import os
import stat
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from dpbo_core.errors import DpboError, LedgerDamaged
from dpbo_core.ledger.history import START_PLACE, Place
from dpbo_core.ledger.schema import SCHEMA

STATE_HOME_SETTING = "XDG_STATE_HOME"
RECORD_KEYS = {"entries", "hash", "schema"}
RECORD_BYTES = 256  # always the same, written over in one piece: within a disk's sector, so whole or not at all


class OverwritePolicy(Enum):
    """What a record of the ledger's place is written over."""

    EARLIER = "an earlier place"
    ANYTHING = "whatever is there: a person answered for it"


class RollbackGuard:
    """The records of one ledger: `beside` it or in this machine's folder, and with the user.

    A database has two `records` beside the user's: the one by its URL notices another ledger in its place, and the
    one by its `identity`, which copies share (empty until it is read), an older copy under another spelling of the
    URL. A SQLite file has a `place`: its copies elsewhere are ledgers of their own.
    """

    def __init__(self, beside: Path, identity: str = "", place: str = "") -> None:
        name = hashlib.sha256(f"{identity}\n{place}".encode("utf-8", "surrogateescape")).hexdigest()
        by_identity = (beside.with_name(f"ledger-{name[:16]}.generation"),) if identity and not place else ()
        self.records = tuple(map(Record, (beside, *by_identity)))
        self._name = f"{name[:32]}.seen" if identity else None

    @property
    def path_of_user(self) -> Path | None:
        """The path of the user's own record of this ledger; None without a home directory or a known identity."""
        named = os.environ.get(STATE_HOME_SETTING, "")
        try:
            state = Path(named) if os.path.isabs(named) else Path.home() / ".local" / "state"  # noqa: PTH117
        except RuntimeError:  # a user without a home
            return None
        return None if self._name is None else state / "dpbo" / self._name

    def entries(self) -> list[tuple[Place, Path]]:
        """Return the entry that each of the ledger's own records names, and the record's path."""
        return [(record.read(), record.path) for record in self.records]

    def of_user(self) -> Place:
        """The newest entry in the user's own record; the start without one, or with a warning if unreadable."""
        path = self.path_of_user
        try:
            return START_PLACE if path is None else Record(path).read()
        except (DpboError, OSError, ValueError):
            _warn_of_unwritable_record()
        return START_PLACE

    def keep(self, reached: Place, over: OverwritePolicy = OverwritePolicy.EARLIER) -> None:
        """Write the newest entry's number and hash beside the database, and for the user, where failing warns."""
        for record in self.records:
            record.keep(reached, over, durably=True)
        path = self.path_of_user
        try:
            if path is None:
                raise OSError
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            folder = path.parent.lstat()
            if not stat.S_ISDIR(folder.st_mode) or folder.st_uid != os.geteuid():
                raise OSError
            if stat.S_IMODE(folder.st_mode) != 0o700:
                path.parent.chmod(0o700)
            Record(path).keep(reached, over)
        except (DpboError, OSError, ValueError):
            _warn_of_unwritable_record()


class Record:
    """A small file of its owner's: a place and the schema."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Place:
        """Return the history entry (number, hash) that the record names; the start without a file."""
        self._check_kind()
        place = None
        try:
            with self.path.open("rb") as file:
                place = _parsed(file.read())
                if place is None:  # seen in the middle of a write, or damaged: the lock tells
                    fcntl.flock(file, fcntl.LOCK_SH)
                    file.seek(0)
                    place = _parsed(file.read())
        except FileNotFoundError:
            return START_PLACE
        except OSError:
            pass
        if place is None:
            raise self._unreadable()
        return place

    def keep(
        self, reached: Place, over: OverwritePolicy = OverwritePolicy.EARLIER, *, durably: bool = False
    ) -> None:
        """Write the entry `reached` over an earlier one, or over anything; if `durably`, no crash loses it."""
        with self._locked() as file:
            place = _parsed(os.pread(file, RECORD_BYTES, 0))
            if place is None and over is OverwritePolicy.EARLIER:
                raise self._unreadable()
            if place is None or over is OverwritePolicy.ANYTHING or place.sequence < reached.sequence:
                _write_content(file, reached)
                if durably:
                    os.fsync(file)

    def _check_kind(self) -> None:
        """Refuse a record that is not a file or a link to one: a dangling link would start another one."""
        if not self.path.is_file() and (self.path.exists() or self.path.is_symlink()):
            raise self._unreadable()

    def _unreadable(self) -> LedgerDamaged:
        return LedgerDamaged(
            f"the ledger's generation, {self.path.name}, cannot be read",
            cause="it was edited, belongs to another user, or is a link to nothing, a folder or a device",
            remedy="put it back; or, if you know the ledger beside it to be the newest, run: "
            "dpbo budget verify --accept-restored",
        )

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self._check_kind()
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                yield file
            finally:
                os.close(file)
        except OSError as error:
            reason = (error.strerror or "no reason given").lower()
        else:
            return
        raise DpboError(
            f"the ledger's generation, {self.path.name}, cannot be written ({reason})",
            cause="its disk is full or read-only, or it belongs to another user",
            remedy="make room and run it again; nothing is paid twice",
        )


def _write_content(file: int, reached: Place) -> None:
    content = {"entries": reached.sequence, "hash": reached.hash, "schema": SCHEMA}
    os.pwrite(file, json.dumps(content).encode().ljust(RECORD_BYTES), 0)
    if os.fstat(file).st_size > RECORD_BYTES:
        os.ftruncate(file, RECORD_BYTES)  # somebody else's bytes, over which a person said to go on


def _parsed(text: bytes) -> Place | None:
    """The history entry that a record's bytes name; the start if they are empty yet, None if not a record's."""
    if not text:
        return START_PLACE
    try:
        content = json.loads(text)
        entries, last = content["entries"], content["hash"]
        sound = type(entries) is int and isinstance(last, str) and content.keys() == RECORD_KEYS
        if sound and content["schema"] == SCHEMA:
            return Place(entries, last)
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        pass
    return None


def missing(path: Path) -> LedgerDamaged:
    """Return the error for a ledger whose rollback guard's file, in which its newest entry is noted, is gone."""
    return LedgerDamaged(
        f"the ledger's generation, {path.name}, is missing, so nobody can tell whether this is the newest copy",
        cause="the database was copied or restored without the file beside it",
        remedy="restore that file too; if it is lost, and you answer for spends that may be missing, run: "
        "dpbo budget verify --accept-restored",
    )


def older(entry: str) -> LedgerDamaged:
    """Return the error for a ledger that lacks the history entry noted in its rollback guard: an old copy."""
    return LedgerDamaged(
        f"the ledger is older than it was: {entry} is not in its history",
        cause="an old copy of the ledger was restored, and what was spent since is missing from it",
        remedy="restore the newest copy; if it is lost, and you answer for the spends that are missing, run: "
        "dpbo budget verify --accept-restored",
    )


def _warn_of_unwritable_record() -> None:
    warnings.warn(
        f"the newest entry of the ledger cannot be kept in your state folder ({STATE_HOME_SETTING}), so an older "
        "copy of the ledger would be noticed by its generation alone",
        stacklevel=2,
    )
