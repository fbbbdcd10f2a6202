"""The generation: how far the ledger had come, kept outside it, so that restoring an old copy is noticed.

It is written after the commit, so a kill between the two leaves a ledger newer than its generation, which is fine.
A ledger that does not hold what its generation says is older, or another: it is refused until a person confirms.
"""

import fcntl
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from dpbo_core.accounting.history import ORIGIN
from dpbo_core.errors import LedgerDamaged

SIZE = 128  # bytes, always the same, written over in one piece: within a disk's sector, so whole or not at all


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
            with self.path.open("rb") as file:
                try:
                    return _parsed(file.read())
                except ValueError:  # seen in the middle of a write, or damaged: the lock tells
                    fcntl.flock(file, fcntl.LOCK_SH)
                    file.seek(0)
                    return _parsed(file.read())
        except FileNotFoundError:
            return Generation()
        except (OSError, ValueError):
            problem = f"the ledger's generation, {self.path.name}, cannot be read"
        raise LedgerDamaged(
            problem,
            cause="it was edited, or belongs to another user",
            remedy="if you know the ledger beside it to be the newest, run: dpbo budget verify --accept-restored",
        )

    def keep(self, reached: Generation, *, whatever: bool = False) -> None:
        """Keep `reached`, unless another process keeps a later one; `whatever` was kept if a person said so."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            if whatever or _parsed(os.pread(file, SIZE, 0)).sequence < reached.sequence:
                os.pwrite(file, json.dumps(asdict(reached)).encode().ljust(SIZE), 0)
                if os.fstat(file).st_size > SIZE:
                    os.ftruncate(file, SIZE)  # somebody else's bytes, over which a person said to go on
                os.fsync(file)
        finally:
            os.close(file)


def _parsed(text: bytes) -> Generation:
    """What a file says; the origin if it was made and not yet written.

    Raises:
        ValueError: it is not a generation.
    """
    if not text:
        return Generation()
    kept = json.loads(text)
    if not isinstance(kept, dict) or set(kept) != {"sequence", "hash"} or not isinstance(kept["sequence"], int):
        raise ValueError("not a generation")
    return Generation(kept["sequence"], str(kept["hash"]))


def older(path: Path, kept: Generation) -> LedgerDamaged:
    """The letter for a ledger that does not hold its generation."""
    return LedgerDamaged(
        f"the ledger is older than it was: entry {kept.sequence} of its history, kept in {path.name}, is not there",
        cause="an old copy of the ledger was restored, and what was spent since is missing from it",
        remedy="restore the newest copy; if it is lost, and you answer for the spends that are missing, run: "
        "dpbo budget verify --accept-restored",
    )
