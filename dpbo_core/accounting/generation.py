"""The generation: how far the ledger had come, kept outside it, so that restoring an old copy is noticed.

It is written after the commit, so a kill between the two leaves a ledger newer than its generation, which is fine.
A ledger that does not hold what its generation says is older, or another: it is refused until a person confirms.
"""

import fcntl
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dpbo_core.accounting.history import ORIGIN
from dpbo_core.errors import LedgerDamaged


@dataclass(frozen=True)
class Generation:
    """The last entry of a history: its number and its hash. Nothing yet is 0 and the origin."""

    sequence: int = 0
    hash: str = ORIGIN


class GenerationFile:
    """A generation in a small file of its owner's."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Generation:
        """What is kept; the origin if nothing is.

        Raises:
            LedgerDamaged: the file is not one that this class wrote.
        """
        try:
            kept = json.loads(self.path.read_text(encoding="utf-8"))
            return Generation(int(kept["sequence"]), str(kept["hash"]))
        except FileNotFoundError:
            return Generation()
        except (OSError, ValueError, TypeError, KeyError):
            problem = f"the ledger's generation, {self.path.name}, cannot be read"
        raise LedgerDamaged(
            problem,
            cause="it was edited, or belongs to another user",
            remedy="if you know the ledger beside it to be the newest, run: dpbo budget verify --accept-restored",
        )

    def keep(self, reached: Generation, *, whatever: bool = False) -> None:
        """Keep `reached`, unless another process keeps a later one; `whatever` was kept if a person said so."""
        beside = self.path.with_name(self.path.name + ".new")
        new = _locked(beside)
        try:
            if whatever or self.read().sequence < reached.sequence:
                os.ftruncate(new, 0)
                os.pwrite(new, json.dumps(asdict(reached)).encode(), 0)
                os.fsync(new)
                beside.rename(self.path)
            else:
                beside.unlink()
        finally:
            os.close(new)


def _locked(beside: Path) -> int:
    """The new file, ours alone until it is closed: the file that is locked is the one that will be renamed."""
    while True:
        new = os.open(beside, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(new, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.fstat(new).st_ino == beside.stat().st_ino:
                return new
        os.close(new)  # whoever held it before us renamed it or took it away


def older(path: Path, kept: Generation) -> LedgerDamaged:
    """The letter for a ledger that does not hold its generation."""
    return LedgerDamaged(
        f"the ledger is older than it was: entry {kept.sequence} of its history, kept in {path.name}, is not there",
        cause="an old copy of the ledger was restored, and what was spent since is missing from it",
        remedy="restore the newest copy; if it is lost, and you answer for the spends that are missing, run: "
        "dpbo budget verify --accept-restored",
    )
