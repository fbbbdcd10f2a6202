"""The generation: how far the ledger had come, and its key, kept outside it: restoring an old copy is noticed.

It is written after the commit, so a kill between the two leaves a ledger newer than its generation, which is fine.
A ledger that does not hold what its generation says is older, or another: it is refused until a person confirms. So
is a SQLite ledger with a history and no generation: copy both files, or neither. PostgreSQL's generation is each
machine's own, and a machine that meets the ledger for the first time begins one.
"""

import fcntl
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from dpbo_core.accounting.history import ORIGIN
from dpbo_core.accounting.key import LedgerKey
from dpbo_core.errors import DpboError, LedgerDamaged

SIZE = 256  # bytes, always the same, written over in one piece: within a disk's sector, so whole or not at all


@dataclass(frozen=True)
class Generation:
    """The last entry of a history: its number and its hash. Nothing yet is 0 and the origin."""

    sequence: int = 0
    hash: str = ORIGIN


class GenerationFile:
    """A generation in a small file of its owner's; `durable` where an older one will not do."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path, self._durable = path, durable

    @property
    def exists(self) -> bool:
        """Whether there is such a file, or a link in its place."""
        return self.path.exists() or self.path.is_symlink()

    def read(self) -> Generation:
        """What is kept; the origin if nothing is.

        Raises:
            LedgerDamaged: the file is not one that this class wrote.
        """
        return self._read()[0]

    def key(self) -> LedgerKey | None:
        """The key that is kept with it, if there is one.

        Raises:
            LedgerDamaged: the file is not one that this class wrote.
        """
        return self._read()[1]

    def make_key(self) -> LedgerKey:
        """The key that is kept with it, drawn now and kept durably if there is none.

        Raises:
            LedgerDamaged: the file cannot be written.
        """
        with self._locked() as file:
            try:
                kept, key = _parsed(os.pread(file, SIZE, 0))
            except ValueError:  # damaged, and a person said to go on
                kept, key = Generation(), None
            if key is None:
                key = LedgerKey.drawn()
                _write(file, kept, key, durable=True)
        return key

    def keep(self, reached: Generation, *, whatever: bool = False) -> None:
        """Keep `reached`, unless another process keeps a later one; `whatever` was kept if a person said so.

        Raises:
            LedgerDamaged: the file cannot be written, or is not one that this class wrote.
        """
        with self._locked() as file:
            try:
                kept, key = _parsed(os.pread(file, SIZE, 0))
            except ValueError:
                if not whatever:
                    raise self._unreadable() from None
                kept, key = Generation(), None
            if whatever or kept.sequence < reached.sequence:
                _write(file, reached, key, durable=self._durable)

    def _read(self) -> tuple[Generation, LedgerKey | None]:
        self._check_kind()
        try:
            with self.path.open("rb") as file:
                try:
                    return _parsed(file.read())
                except ValueError:  # seen in the middle of a write, or damaged: the lock tells
                    fcntl.flock(file, fcntl.LOCK_SH)
                    file.seek(0)
                    return _parsed(file.read())
        except FileNotFoundError:
            return Generation(), None
        except (OSError, ValueError, RecursionError):
            pass
        raise self._unreadable()

    def _check_kind(self) -> None:
        """A generation is a file, or a link to one: a link to nothing would begin a new one somewhere else.

        Raises:
            LedgerDamaged: it is something else.
        """
        try:
            odd = not stat.S_ISREG(self.path.stat().st_mode)
        except FileNotFoundError:
            odd = self.path.is_symlink()
        except OSError:
            odd = True
        if odd:
            raise LedgerDamaged(
                f"the ledger's generation, {self.path}, is no file but a link to nothing, a folder or a device",
                cause="the file that the link named was moved, or its disk is not there",
                remedy="put the file back where the link points; if it is lost, remove the link and, if you answer "
                "for spends that may be missing, run: dpbo budget verify --accept-restored",
            )

    def _unreadable(self) -> LedgerDamaged:
        return LedgerDamaged(
            f"the ledger's generation, {self.path.name}, cannot be read",
            cause="it was edited, or belongs to another user",
            remedy="if you know the ledger beside it to be the newest, run: dpbo budget verify --accept-restored",
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


def _write(file: int, reached: Generation, key: LedgerKey | None, *, durable: bool) -> None:
    kept = asdict(reached) | ({} if key is None else {"key": key.hex})
    os.pwrite(file, json.dumps(kept).encode().ljust(SIZE), 0)
    if os.fstat(file).st_size > SIZE:
        os.ftruncate(file, SIZE)  # somebody else's bytes, over which a person said to go on
    if durable:
        os.fsync(file)


def _parsed(text: bytes) -> tuple[Generation, LedgerKey | None]:
    """What a file says; the origin and no key if it was made and not yet written.

    Raises:
        ValueError: it is not a generation.
    """
    if not text:
        return Generation(), None
    kept = json.loads(text)
    if not isinstance(kept, dict) or kept.keys() - {"key"} != {"sequence", "hash"}:
        raise ValueError("not a generation")
    if type(kept["sequence"]) is not int or not isinstance(kept.get("key", ""), str):
        raise ValueError("not a generation")
    key = LedgerKey.from_hex(kept["key"]) if "key" in kept else None
    return Generation(kept["sequence"], str(kept["hash"])), key


def missing(path: Path) -> LedgerDamaged:
    """The message for a ledger with a history whose generation is not there."""
    return LedgerDamaged(
        f"the ledger's generation, {path.name}, is missing, so nobody can tell whether this is the newest copy",
        cause="the database was copied or restored without the file beside it",
        remedy="restore that file too; if it is lost, and you answer for spends that may be missing, run: "
        "dpbo budget verify --accept-restored",
    )


def older(path: Path, kept: Generation) -> LedgerDamaged:
    """The message for a ledger that does not hold its generation."""
    return LedgerDamaged(
        f"the ledger is older than it was: entry {kept.sequence} of its history, kept in {path.name}, is not there",
        cause="an old copy of the ledger was restored, and what was spent since is missing from it",
        remedy="restore the newest copy; if it is lost, and you answer for the spends that are missing, run: "
        "dpbo budget verify --accept-restored",
    )
