"""The curator's first part: reserve, draw the table, record it, and only then publish it.

The ledger holds the digest of the table and the curator's vault the table itself. A kill before the digest is
recorded discards a table that nobody saw; a kill after it publishes the very same bytes the next time.

The vault of a publication is a folder of its owner's:

key             32 random bytes in hex: the secret order of the published rows
table.parquet   the table as it was drawn; it is published from here
answers.json    every query that was answered; how answers are given the ledger says too, and decides
lock            held while a query is answered
"""

import hashlib
import json
import secrets
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo.features.outsourced.box import Outsourced
from dpbo.features.outsourced.geometry import algorithm_1_rows, image, in_order
from dpbo.features.outsourced.messages import PublishedTable, content_digest, table_bytes, write_file
from dpbo_core.data import read_header, read_table
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.errors import DpboError, LedgerDamaged, Sealed, StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.sources import file_source
from dpbo_core.mechanisms.gaussian_rows import StoredRows
from dpbo_core.mechanisms.noise import Mechanism
from dpbo_core.mechanisms.random_projection import RandomProjection
from dpbo_core.methods.contract import Draws
from dpbo_core.privacy.atomically import create_atomically, locked_folder, replace_atomically
from dpbo_core.privacy.release import Release, StudyResult
from dpbo_core.privacy.sensitive import Sensitive, messages, sealed
from dpbo_core.study.query import Charged, PrivateQuery, QueryContext, charged, fingerprint_of, replay

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
        """Return the secret order, (n,): entry i is the place, in the curator's file, of published row i.

        A function of the key and n alone, uniform over orders up to the strength of SHAKE-256: ties of 128 bits.
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
        """Return the answers that were given so far, by row and by search step, as JSON; empty at first."""
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


@dataclass(frozen=True)
class Publication:
    """One table to publish: what is public about it."""

    box: Outsourced  # transform, relation, price
    dataset: str
    edition: str = "1"  # a new one is a new table and a new spend

    def key(self, n_rows: int, n_columns: int) -> QueryKey:
        """Return the publication's key in the ledger: every public choice and the two sizes, never the rows."""
        chosen = [asdict(self.box), self.dataset, self.edition, n_rows, n_columns]
        return QueryKey(fingerprint_of(chosen), self.dataset, f"{self.dataset}: table", self.edition, self.box.kind)

    def query(self, data: Path, shape: tuple[int, int]) -> PrivateQuery:
        """Return the query to charge for publishing the file `data`, whose `shape` is (rows, columns).

        Its draw is tried out on a table of one row: the price does not depend on how many there are.
        """
        plan, gaussian = self.box.plan(*shape), self.box.transform == "gaussian"
        draws: Draws = ((plan.spends[0], self.box.mechanism(1, shape[1])),) if gaussian else ()
        return PrivateQuery(self.key(*shape), plan, (file_source(data, "rows"),), draws=draws)


def publish(publication: Publication, data: Path, out: Path, context: QueryContext, *, vaults: Path) -> StudyResult:
    """Charge for, draw and write to `out` the published table of `data`; again, the same bytes at no cost."""
    with suppress(OSError):  # one is missing, or no name a file could have
        if out.samefile(data):
            raise StudyInvalid("--out is the data file itself", remedy="give the published table a name of its own")
    header = read_header(data, mode=SENSITIVE_FILE, display_name=str(data))
    shape = (header.n_records, len(header.columns))
    query = publication.query(data, shape)
    vault = Vault(vaults / query.key.fingerprint[:16])
    recorded = release = replay(query.key, context)
    if release is None:
        with vault.locked():
            charge = charged(query, context)
            release = sealed(
                lambda: _draw(publication.box, query, data, shape, vault, charge),
                failure=lambda: Sealed("a step on the curator's rows failed"),
                message=messages(DpboError, LedgerDamaged),
            )
    _hand_out(vault, release, out)
    return StudyResult(release, replayed=recorded is not None)


def _draw(
    box: Outsourced, query: PrivateQuery, data: Path, shape: tuple[int, int], vault: Vault, charge: Charged
) -> Release:
    """Return the release of the table, which is drawn, kept in the vault and recorded now unless it was before."""
    (spend,) = query.plan.spends
    gaussian = box.transform == "gaussian"
    guarantee = charge.as_published(query.plan.guarantee)

    def keep(rows: NDArray[Any]) -> str:
        scale = box.geometry(shape[1]).step if gaussian else 1.0
        noise = spend.noise_scale if gaussian else 0.0
        table = PublishedTable(rows * scale, query.key.fingerprint[:16], noise, guarantee.to_json())
        content = table_bytes(table)
        replace_atomically(vault.table, content)  # an earlier draw that was never recorded is overwritten
        return content_digest(content)

    outcome = charge.recorded(spend.what)
    if outcome is None:
        vault.make_key()
        order = vault.order(shape[0])
        mechanism: Mechanism[Any]
        if gaussian:
            mechanism = StoredRows(box.mechanism(*shape), keep)
        else:
            projection = (shape[1], box.width(shape[1]))
            mechanism = RandomProjection(
                projection, spend.epsilon_units or 0, spend.delta_units, spend.rho_units, keep
            )
        outcome = charge.draw(spend, mechanism, lambda: _image_of(box, data, order))
    value = {"rows": shape[0], "columns": box.width(shape[1]), "digest": outcome["draw"]}
    facts = {"options": asdict(box) | {"relation": guarantee.relation.value}}
    return charge.conclude(query.release(value, charge.standing, facts))


def _image_of(box: Outsourced, data: Path, order: NDArray[np.int64]) -> Sensitive[Any]:
    """Return the file's rows in the published `order`, transformed and sealed: what noise is added to."""
    table = read_table(data, mode=SENSITIVE_FILE, display_name=str(data))
    d = len(table.columns)
    if box.transform == "gaussian":
        return in_order(image(table, box.geometry(d)), order)
    return algorithm_1_rows(table, box.floor(d), order)


def _hand_out(vault: Vault, release: Release, out: Path) -> None:
    """Copy the curator's table to `out`, for the modeller; refused if it is gone or is not the one recorded."""
    try:
        content = vault.table.read_bytes()
    except OSError:
        content = b""
    if content_digest(content) != release.value["digest"]:
        raise DpboError(
            "the table was drawn and paid for, and the curator's copy of it is not here",
            cause="the command runs in another folder than the first time, or the copy was removed",
            remedy="run it where the table was first published, or give it a new --edition (a new spend)",
        )
    write_file(out, content, option="--out", mode=0o644)
