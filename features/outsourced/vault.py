"""What the curator keeps for one publication, in a folder of its owner's: the secret key, the table, the answers.

key             32 random bytes in hex: the secret order of the published rows
table.parquet   the table as it was drawn; it is published from here
answers.json    every query that was answered; how answers are given the ledger says too, and decides
lock            held while a query is answered
"""

import hashlib
import json
import secrets
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import DpboError
from dpbo_core.privacy.atomically import create_atomically, locked_folder, replace_atomically

KEY_BYTES = 32


@dataclass(frozen=True)
class Vault:
    """The curator's own folder of one publication: its table, its secret numbers and what was answered."""

    folder: Path

    @property
    def table(self) -> Path:
        """The path, in the curator's folder, of the published table as it was drawn."""
        return self.folder / "table.parquet"

    def make_key(self) -> None:
        """Write a new random secret key into the curator's folder, unless there is one."""
        key = secrets.token_hex(KEY_BYTES)
        create_atomically(self.folder / "key", lambda path: path.write_text(key, encoding="ascii"))
        self.folder.chmod(0o700)

    def order(self, n_rows: int) -> NDArray[np.int64]:
        """The secret order, (n,): entry i is the place, in the curator's file, of published row i.

        A function of the key and n alone, uniform over orders up to the strength of SHAKE-256: ties of 128 bits.

        Raises:
            DpboError: the key is gone.
        """
        try:
            key = bytes.fromhex((self.folder / "key").read_text(encoding="ascii"))
        except (OSError, ValueError):
            key = b""
        if len(key) != KEY_BYTES:
            raise DpboError(
                "the curator's secret key for this publication is not here",
                cause="the command runs in another folder than dpbo curate publish did, or the key was removed",
                remedy="run it where the table was published, or publish a new edition (a new spend)",
            )
        stream = np.frombuffer(hashlib.shake_256(key).digest(16 * n_rows), dtype=np.uint64).reshape(n_rows, 2)
        return np.lexsort((stream[:, 1], stream[:, 0])).astype(np.int64)

    def answers(self) -> dict[str, Any]:
        """The answers that were given so far, by row and by search step, as JSON; empty at first.

        Raises:
            DpboError: the record is damaged.
        """
        try:
            record = json.loads((self.folder / "answers.json").read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise DpboError(
                "the curator's record of answers cannot be read",
                cause="it was edited, or the disk failed",
                remedy="restore it from a copy; without it a repeated question might get another answer",
            )
        return record

    def keep_answers(self, answers: dict[str, Any]) -> None:
        """Replace the record of answers, durably, before any of them is shown."""
        replace_atomically(
            self.folder / "answers.json", json.dumps(answers, sort_keys=True, allow_nan=False).encode()
        )

    def locked(self) -> AbstractContextManager[None]:
        """Context that holds a lock on the curator's folder, for which it waits: one query at a time."""
        return locked_folder(self.folder)
