"""Keyed hashes ("marks") of rows that were sensitive once, so that they are not passed as public by mistake later.

Tables in memory have no name, so that yesterday's X_validation passed as today's X, or a split that was made again
with another seed, is known by its rows alone. Of every row that was charged for the vault keeps 8 bytes of an HMAC,
under a key that was drawn with it; it is its owner's alone (0600), beside the ledger and no part of it.

That rows were sensitive is told to whoever holds the vault, and of a PUBLIC table alone: the sensitive one is
marked after it was paid for, and never compared. What Prefect starts reads files, and no marks. The file's size is
the number of different rows: its folder is 0700, and who sees into it holds the key and can ask for any row.

Not noticed: a tenth of the rows or fewer, since some are equal by chance; rows of a table in which more than one in
a hundred is there twice, as of few categories; rows whose values or columns were changed; files, which have names.
"""

import hashlib
import hmac
import secrets
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from dpbo_core.data.table import Table
from dpbo_core.data.values import Column, canonical_text
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.address import state_folder
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.atomically import locked_folder, replace_atomically

# A public table is refused if at least this share of its rows are distinct, and more than that share were
# sensitive.
DISTINCT, MOVED = 0.99, 0.1
MARK_TYPE = np.dtype("<u8")
KEY_BYTES = 32  # of the key

Marks = NDArray[np.uint64]


@dataclass(frozen=True)
class RowMarks:
    """The vault that holds keyed marks of one ledger's sensitive rows, in a folder of its owner's."""

    folder: Path

    @classmethod
    def of(cls, ledger: PrivacyLedger, dataset: str) -> "RowMarks | None":
        """Return the vault of a ledger's row marks; None for a dataset that was declared public.

        It lies beside an SQLite ledger. For a ledger on a server it lies in the user's own state folder, under a
        hash of the server's address without user and password.
        """
        budget = ledger.budget(dataset)
        if budget is not None and budget.public:
            return None
        address = sa.engine.make_url(ledger.url)
        if address.get_backend_name() == "sqlite":
            return cls(Path(f"{address.database}.rows").resolve())
        place = address.set(username=None, password=None).render_as_string()
        return cls(state_folder() / f"rows-{hashlib.sha256(place.encode()).hexdigest()[:16]}")

    def check(self, public: Table, names: Collection[str], *, display_name: str) -> None:
        """Refuse a PUBLIC table if over a tenth of its rows were sensitive before.

        A table in which more than one in a hundred rows is repeated always passes: it has few different rows, and
        the same ones occur by chance.
        """
        key, earlier = self._read()
        marks, n_records = np.unique(_marks(key, public, names)), public.n_records
        if len(marks) >= DISTINCT * n_records and np.isin(marks, earlier).sum() > MOVED * n_records:
            raise StudyInvalid(
                f"{display_name} holds rows that were sensitive in an earlier study, and would be read as public",
                cause="the tables were exchanged or divided with another seed, or one was sorted or lost rows",
                remedy="divide them as in the first study: whoever was validated on stays so",
            )

    def remember(self, sensitive: Table, names: Collection[str]) -> None:
        """Store the marks (keyed hashes) of a SENSITIVE table's rows durably, whatever a record holds."""
        with locked_folder(self.folder):
            key, earlier = self._read()
            marks = np.union1d(earlier, _marks(key, sensitive, names))
            if len(marks) > len(earlier) or not self._file.exists():  # of no row too
                replace_atomically(self._file, key + marks.astype(MARK_TYPE).tobytes())

    @property
    def _file(self) -> Path:
        return self.folder / "sensitive_rows"

    def _read(self) -> tuple[bytes, Marks]:
        """Return the key and the stored marks, sorted; a new key and no marks if there is no file yet."""
        try:
            content = self._file.read_bytes()
        except FileNotFoundError:
            return secrets.token_bytes(KEY_BYTES), np.empty(0, dtype=np.uint64)
        except OSError:
            content = b""
        if len(content) < KEY_BYTES or len(content) % MARK_TYPE.itemsize:
            raise DpboError(
                f"the marks of sensitive rows, {self._file}, cannot be read",
                cause="the file was edited, or belongs to another user",
                remedy="restore it; where it is lost, remove it, and no earlier row is noticed any more",
            )
        return content[:KEY_BYTES], np.frombuffer(content[KEY_BYTES:], dtype=MARK_TYPE).astype(np.uint64)


def _marks(key: bytes, table: Table, names: Collection[str]) -> Marks:
    """Return the mark of each row (n,): an HMAC of its values under the sorted names of its columns."""
    ordered = sorted(names)
    named = hmac.digest(key, repr(ordered).encode(), "sha256")
    rows = np.column_stack([_numbers(table.columns[name]) for name in ordered])
    size, content = rows.shape[1] * MARK_TYPE.itemsize, rows.tobytes()
    digests = (
        hmac.digest(named, content[at : at + size], "sha256")[: MARK_TYPE.itemsize]
        for at in range(0, len(content), size)
    )
    return np.frombuffer(b"".join(digests), dtype=MARK_TYPE).astype(np.uint64)


def _numbers(column: Column) -> Marks:
    """Return eight bytes for each value (n,): a float's own, or a text's digest; all missing values are equal."""
    if column.dtype != object:
        floats = column.astype(np.float64) + 0.0  # −0.0 becomes 0.0, and below every NaN the same NaN
        return np.where(np.isnan(floats), np.nan, floats).view(np.uint64)
    digests = [
        hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=MARK_TYPE.itemsize).digest()
        if isinstance(value, str)
        else _numbers(np.array([value], dtype=np.float64)).tobytes()
        for value in map(canonical_text, column.tolist())  # alike whether the column is one of numbers or of texts
    ]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)
