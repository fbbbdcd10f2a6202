"""Writing to the ledger: a row into its table, and into the history with what its dataset comes to."""

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting.generation import Generation
from dpbo_core.accounting.history import Link, broken_links, links, unlike_tables, unlike_totals
from dpbo_core.accounting.key import LedgerKey
from dpbo_core.accounting.legible import legible
from dpbo_core.accounting.nodes import Entry, Node, Place, following, reach
from dpbo_core.accounting.tables import DATASET_FACTS, HISTORY, RESERVATIONS
from dpbo_core.accounting.totals import LEDGER, Totals, dataset_of, hashed, replayed, together
from dpbo_core.accounting.writing import canonical, seal
from dpbo_core.errors import LedgerDamaged

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
UP_TO = sa.select(HISTORY).where(
    HISTORY.c.sequence.between(sa.bindparam("first"), sa.bindparam("last"))
).order_by(HISTORY.c.sequence)  # fmt: skip
OF_DATASET = sa.select(DATASET_FACTS).where(DATASET_FACTS.c.dataset == sa.bindparam("dataset"))
RESERVED = sa.select(RESERVATIONS.c.dataset).where(RESERVATIONS.c.id == sa.bindparam("number"))

Everything = dict[str, Totals]  # of every dataset


class Pen:
    """A writing transaction: `connection` reads and `write` adds a row, to its table and to the history.

    Args:
        connection: inside the transaction.
        last: the newest entry.
        key: new entries are sealed with it.
        name: the ledger, as it is called in messages.
    """

    def __init__(self, connection: sa.Connection, last: Generation, key: LedgerKey | None, name: str) -> None:
        self.connection, self.last, self._key, self.name = connection, last, key, name
        self._newest: Entry | Everything | None = None  # None until it is read
        self._leaves: dict[str, list[str]] = {}
        self._bare = False

    def write(self, table: sa.Table, row: Mapping[str, Any]) -> None:
        """Add a row to a table that does not number its rows.

        Raises:
            LedgerDamaged: what the ledger says of the row's dataset is not what its history sealed.
        """
        self._begin()  # before the tables have a row that the history has not
        if table is DATASET_FACTS:
            self._leaves_of(row["dataset"]).append(hashed(row))
        self.connection.execute(table.insert(), dict(row))
        self.note(table.name, row)

    def reserve(self, row: Mapping[str, Any]) -> int:
        """Add a reservation; the number the database gave it.

        Raises:
            LedgerDamaged: what the ledger says of the row's dataset is not what its history sealed.
        """
        self._begin()
        key = self.connection.execute(RESERVATIONS.insert(), dict(row)).inserted_primary_key
        if key is None:
            raise self.differs("its database gave a new row no number")
        number = int(key[0])
        self.note(RESERVATIONS.name, {**row, "id": number})
        return number

    def write_again(self, table: sa.Table, row: Mapping[str, Any], link: Link) -> None:
        """Add a row, its number too, with an entry that is written again, word for word."""
        self.connection.execute(table.insert(), dict(row))
        self.note(table.name, row, again=link)

    @legible()
    def note(self, about: str, row: Mapping[str, Any], *, again: Link | None = None) -> None:
        """Add an entry to the history.

        Raises:
            LedgerDamaged: the history is not what was written.
        """
        node = None if self._bare or again is not None else self._node(about, row)
        totals = None if node is None else node.text()
        if again is not None:
            totals = again.totals
            node = None if totals is None else Node.from_text(totals)
        sequence, content = self.last.sequence + 1, canonical(row)
        sealed = seal(self.last.hash, sequence, about, content, totals)
        entry = {"sequence": sequence, "about": about, "content": content, "hash": sealed, "totals": totals}
        mac = None if self._key is None else self._key.mac(sealed)
        self.connection.execute(HISTORY.insert(), entry | {"mac": mac})
        self.last = Generation(sequence, sealed)
        self._newest = None if node is None else Entry((sequence, sealed), node)

    @legible()
    def totals_of(self, dataset: str) -> Totals:
        """What the history sealed of the dataset.

        Raises:
            LedgerDamaged: the history is not what was written.
        """
        return self._reach(dataset)[0]

    @legible()
    def facts_hash(self, dataset: str) -> str | None:
        """What the tables say of the dataset's facts."""
        return together(hashed(row) for row in self._rows(dataset))

    @legible()
    def check_newest(self, how_many: int) -> None:
        """The newest entries are chained.

        Raises:
            LedgerDamaged: they are not.
        """
        self._chained(max(1, self.last.sequence - how_many), self.last.sequence)

    @legible()
    def check_whole(self) -> None:
        """The whole history is chained, and is what the tables say: seconds for 100,000 entries.

        Raises:
            LedgerDamaged: it is not.
        """
        self._whole()

    def leave_totals(self) -> None:
        """Seal no totals, since the history is not whole: whoever writes next has to answer for it."""
        self._bare = True

    def differs(self, what: str) -> LedgerDamaged:
        """The message for what was changed past dpbo."""
        return LedgerDamaged(
            f"{self.name} was changed past dpbo: {what}; nothing was charged",
            cause="somebody wrote to its database, or a disk failed",
            remedy="run dpbo budget verify, which names the rows; restore the newest sound copy",
        )

    def _node(self, about: str, row: Mapping[str, Any]) -> Node:
        reserved = {}
        if about in ("draws", "releases"):
            number = row["reservation"]
            reserved[number] = str(self.connection.scalar(RESERVED, {"number": number}))
        of = dataset_of(about, row, reserved)
        before, path = self._reach(of)
        totals = before.after(about, row, self._leaves.get(of, ()))
        newest = self._begin()
        if isinstance(newest, Entry):
            return following(newest, of, totals, path)
        return Node(of, totals, everything=newest)

    def _reach(self, dataset: str) -> tuple[Totals, dict[int, Place]]:
        newest = self._begin()
        if isinstance(newest, Entry):
            return reach(newest, dataset, self._fetch)
        return newest.get(dataset, Totals()), {}

    @legible()
    def _begin(self) -> "Entry | Everything":
        """The newest entry; where it has no totals, or an older version's, those of all from a whole history."""
        if self._newest is None:
            self._newest = self._read()
        return self._newest

    def _read(self) -> "Entry | Everything":
        if self.last.sequence:
            link = self._chained(self.last.sequence, self.last.sequence)
            node = None if link.totals is None else Node.from_text(link.totals)
            if node is not None and node.filtered:
                return Entry((self.last.sequence, self.last.hash), node)
        told = self._whole()
        rows = replayed((link.about, json.loads(link.row)) for link in told)
        return {of: totals for of, totals in rows if of != LEDGER}

    def _whole(self) -> list[Link]:
        told = links(self.connection)
        for find in (broken_links, lambda told: unlike_tables(told, self.connection), unlike_totals):
            for problem in find(told):
                raise self.differs(problem)
        return told

    def _fetch(self, place: Place) -> Entry:
        link = self._chained(place[0], place[0])
        if link.hash != place[1] or link.totals is None:
            raise self._unsealed(place[0])
        return Entry(place, Node.from_text(link.totals))

    def _chained(self, first: int, last: int) -> Link:
        """The last of some entries, each of which is sealed to the one before."""
        found = [
            Link(row.sequence, row.about, row.content, row.hash, totals=row.totals)
            for row in self.connection.execute(UP_TO, {"first": first - 1, "last": last})
        ]
        if first == 1:
            found.insert(0, Link(0, "", "", Generation().hash))
        if [link.sequence for link in found] != list(range(first - 1, last + 1)):
            raise self._unsealed(last)
        for before, link in pairwise(found):
            if seal(before.hash, link.sequence, link.about, link.row, link.totals) != link.hash:
                raise self._unsealed(link.sequence)
        return found[-1]

    def _unsealed(self, sequence: int) -> LedgerDamaged:
        return self.differs(f"entry {sequence} of its history is not what was written there, or is gone")

    def _rows(self, dataset: str) -> list[dict[str, Any]]:
        return [row._asdict() for row in self.connection.execute(OF_DATASET, {"dataset": dataset})]

    def _leaves_of(self, dataset: str) -> list[str]:
        """The hashes of the dataset's facts, which are those that were sealed."""
        if dataset not in self._leaves:
            leaves = [hashed(row) for row in self._rows(dataset)]
            if together(leaves) != self.totals_of(dataset).facts:
                raise self.differs(f"what it knows of dataset {dataset!r} is not what its history sealed")
            self._leaves[dataset] = leaves
        return self._leaves[dataset]
