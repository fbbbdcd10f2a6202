"""Writing to the ledger: a row into its table, and into the history with its dataset's new totals."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from dpbo_core.errors import LedgerDamaged
from dpbo_core.ledger.accounting.account import STUDIES, Totals, canonical, dataset_of, facts_hash
from dpbo_core.ledger.history import (
    ORIGIN,
    Link,
    Place,
    broken_links,
    changed,
    links,
    row_decoding,
    seal,
    unlike_tables,
    unlike_totals,
)
from dpbo_core.ledger.schema import DATASET_FACTS, HISTORY, RESERVATIONS

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
NEWEST = (
    sa.select(HISTORY)
    .where(HISTORY.c.dataset == sa.bindparam("dataset"))
    .order_by(HISTORY.c.sequence.desc())
    .limit(1)
)
HASH = sa.select(HISTORY.c.hash).where(HISTORY.c.sequence == sa.bindparam("sequence"))
FACTS = sa.select(DATASET_FACTS).where(
    DATASET_FACTS.c.dataset == sa.bindparam("dataset"), DATASET_FACTS.c.about.not_in(STUDIES)
)
RESERVED = sa.select(RESERVATIONS.c.dataset).where(RESERVATIONS.c.id == sa.bindparam("number"))


def utc_now() -> str:
    """The current UTC time as text, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Writer:
    """A writing transaction: `connection` reads, and `write` adds a row to its table and to the history."""

    def __init__(self, connection: sa.Connection, last: Place, name: str) -> None:
        self.connection, self.last, self.name = connection, last, name
        self._totals: dict[str, Totals] = {}
        self._facts: dict[str, list[str]] = {}

    def write(self, table: sa.Table, row: Mapping[str, Any]) -> int:
        """Add a row to a table and to the history; returns the number that the database gave a charge, else 0.

        Raises:
            LedgerDamaged: what the ledger says of the row's dataset is not what its history sealed.
        """
        dataset, written = self._dataset_of_row(table.name, row), dict(row)
        before, facts = self.totals_of(dataset), None
        if table is DATASET_FACTS and row["about"] not in STUDIES:
            self._sealed_facts(dataset).append(canonical(row))
            facts = facts_hash(self._facts[dataset])
        key = self.connection.execute(table.insert(), written).inserted_primary_key
        if table is RESERVATIONS:
            if key is None:
                raise self.differs("its database gave a new row no number")
            written["id"] = key[0]
        self._append_entry(table.name, dataset, written, before.after(table.name, written, facts))
        return int(written.get("id", 0))

    def note(self, about: str, row: Mapping[str, Any]) -> None:
        """Add a history entry about the ledger itself and no dataset."""
        dataset = self._dataset_of_row(about, row)
        self._append_entry(about, dataset, row, self.totals_of(dataset))

    @row_decoding()
    def totals_of(self, dataset: str) -> Totals:
        """What the dataset's newest history entry says was spent, after a check that no newer one is hidden.

        The chain is checked from that entry to the newest of all, whose mark was: so it costs what came in between.

        Raises:
            LedgerDamaged: an entry is not what was written, or is gone.
        """
        if dataset not in self._totals:
            row = self.connection.execute(NEWEST, {"dataset": dataset}).one_or_none()
            self._totals[dataset] = Totals() if row is None else self._checked_totals(row)
        return self._totals[dataset]

    @row_decoding()
    def facts_of(self, dataset: str) -> list[str]:
        """The dataset's facts (sources, permissions), of which its totals hold a hash, each in canonical JSON."""
        return [canonical(row._asdict()) for row in self.connection.execute(FACTS, {"dataset": dataset})]

    @row_decoding()
    def check_whole(self) -> None:
        """Refuse a ledger whose hash chain is broken or differs from its tables: seconds for 100,000 entries.

        Raises:
            LedgerDamaged: it is not.
        """
        history = links(self.connection)
        for find in (broken_links, lambda history: unlike_tables(history, self.connection), unlike_totals):
            for problem in find(history):
                raise self.differs(problem)

    def differs(self, what: str) -> LedgerDamaged:
        """The error for a ledger that something else than dpbo changed, as `what` says."""
        return changed([what], self.name)

    def _checked_totals(self, row: sa.Row[Any]) -> Totals:
        """What its dataset had spent by a history row, after a check of the hash chain from there to the end."""
        link = Link.from_row(row)
        previous = self.connection.scalar(HASH, {"sequence": link.sequence - 1}) if link.sequence > 1 else ORIGIN
        if previous is None or not link.follows(previous):
            raise self.differs(f"entry {link.sequence} of its history is not what was written there, or is gone")
        if link.place != self.last:
            later = links(self.connection, link.sequence)
            for problem in broken_links(later, link.place):
                raise self.differs(problem)
            if not later or later[-1].place != self.last:
                raise self.differs("its newest entry is gone")
        return Totals.from_text(link.totals)

    def _sealed_facts(self, dataset: str) -> list[str]:
        """The dataset's facts (sources, permissions); refused if they are not those that its totals hash."""
        if dataset not in self._facts:
            facts = self.facts_of(dataset)
            if facts_hash(facts) != self.totals_of(dataset).facts:
                raise self.differs(f"what it knows of dataset {dataset!r} is not what its history sealed")
            self._facts[dataset] = facts
        return self._facts[dataset]

    def _dataset_of_row(self, about: str, row: Mapping[str, Any]) -> str:
        """The dataset that a row of table `about` belongs to; "" for the ledger itself."""
        reserved = {}
        if about in ("draws", "releases"):
            number = row["reservation"]
            reserved[number] = str(self.connection.scalar(RESERVED, {"number": number}))
        return dataset_of(about, row, reserved)

    def _append_entry(self, about: str, dataset: str, row: Mapping[str, Any], totals: Totals) -> None:
        """Append a row to the hash chain, with the dataset's totals after it."""
        sequence, content, after = self.last.sequence + 1, canonical(row), totals.text()
        sealed = seal(self.last.hash, sequence, about, dataset, content, after)
        entry = {"sequence": sequence, "about": about, "dataset": dataset, "content": content, "totals": after}
        self.connection.execute(HISTORY.insert(), entry | {"hash": sealed})
        self._totals[dataset] = totals
        self.last = Place(sequence, sealed)
