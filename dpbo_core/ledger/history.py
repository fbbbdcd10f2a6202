"""The history: every row of the ledger in the order it was written, each sealed to the one before.

| symbol | name here | meaning |
|---|---|---|
| n | `sequence` | 1, 2, 3, … without gaps |
| h_n | `hash` | SHA-256 of six lines: h_{n−1}, n, table, dataset in JSON, row, totals; h_0 is 64 zeros |
| — | `row` | what was written, as text, which is what is hashed |
| — | `totals` | what admission uses of the row's dataset from this entry on (`totals`) |

The chain shows a change to anyone who knows a later hash: the two records that `rollback_guard` keeps, or an
exported copy. It can be checked by anybody.

Writing to the ledger: a row into its table, and into the history with its dataset's new totals.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from dpbo_core.errors import DpboError, LedgerDamaged
from dpbo_core.ledger.accounting.account import STUDY_FACTS, Totals, canonical, dataset_of, facts_hash, replayed
from dpbo_core.ledger.schema import DATASET_FACTS, HASHED_TABLES, HISTORY, RESERVATIONS

ORIGIN_HASH = "0" * 64
CELL_ERRORS = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)  # of a cell
N_PROBLEMS_SHOWN = 3  # problems a message names; the rest it counts
RESTORATION = "restorations"  # a person's confirmation of an old copy: in the history alone

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
AFTER_QUERY = sa.select(HISTORY).where(HISTORY.c.sequence > sa.bindparam("sequence")).order_by(HISTORY.c.sequence)
NEWEST_QUERY = (
    sa.select(HISTORY)
    .where(HISTORY.c.dataset == sa.bindparam("dataset"))
    .order_by(HISTORY.c.sequence.desc())
    .limit(1)
)
HASH_QUERY = sa.select(HISTORY.c.hash).where(HISTORY.c.sequence == sa.bindparam("sequence"))
FACTS_QUERY = sa.select(DATASET_FACTS).where(
    DATASET_FACTS.c.dataset == sa.bindparam("dataset"), DATASET_FACTS.c.about.not_in(STUDY_FACTS)
)
RESERVED_QUERY = sa.select(RESERVATIONS.c.dataset).where(RESERVATIONS.c.id == sa.bindparam("number"))


@dataclass(frozen=True)
class Place:
    """The last entry of a history: its number and its hash. Nothing yet is 0 and the origin."""

    sequence: int = 0
    hash: str = ORIGIN_HASH


START_PLACE = Place()


@dataclass(frozen=True)
class Link:
    """One entry of the history. `row` is the canonical JSON of what was written into table `about`."""

    sequence: int
    about: str
    dataset: str
    row: str
    totals: str
    hash: str

    @property
    def place(self) -> Place:
        """The entry's number and hash. The hash covers all earlier entries too."""
        return Place(self.sequence, self.hash)

    def follows(self, previous: str) -> bool:
        """Return whether the entry's hash is that of its content after an entry of hash `previous`."""
        return self.hash == seal(previous, self.sequence, self.about, self.dataset, self.row, self.totals)

    @classmethod
    def from_row(cls, row: sa.Row[Any]) -> "Link":
        """Return the history entry in a row of the table `history`."""
        return cls(row.sequence, row.about, row.dataset, row.content, row.totals, row.hash)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Link":
        """Return the history entry in a line of an export."""
        row, totals = canonical(data["row"]), canonical(data["totals"])
        about, dataset, last = str(data["about"]), str(data["dataset"]), str(data["hash"])
        link = cls(int(data["sequence"]), about, dataset, row, totals, last)
        for text in (about, dataset, row, totals, last):
            text.encode()  # half a surrogate pair is no text, and no hash is made of it
        return link


def seal(previous: str, sequence: int, about: str, dataset: str, row: str, totals: str) -> str:
    """The hash of a history entry, in hex, of its content and the previous hash; no part may hold a line break."""
    lines = (previous, str(sequence), about, json.dumps(dataset), row, totals)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def links(connection: sa.Connection, after: int = 0) -> list[Link]:
    """Return the history's entries after the one numbered `after`, in their order."""
    return [Link.from_row(row) for row in connection.execute(AFTER_QUERY, {"sequence": after})]


def broken_links(history: Iterable[Link], after: Place = START_PLACE) -> Iterator[str]:
    """Yield, as text, each break in the hash chain of the entries after the entry `after`; none if it is intact."""
    previous, expected = after.hash, after.sequence + 1
    for link in history:
        if link.sequence != expected:
            missing = str(expected) if link.sequence == expected + 1 else f"{expected} to {link.sequence - 1}"
            yield f"entry {missing} of the history is missing"
        elif not link.follows(previous):
            yield f"entry {link.sequence} of the history ({link.about}) is not what was written there"
        previous, expected = link.hash, link.sequence + 1


def unlike_totals(history: Iterable[Link]) -> Iterator[str]:
    """Yield a sentence for each entry of an intact chain whose dataset or totals do not follow from its rows."""
    entries = list(history)
    expected = replayed((link.about, link.row) for link in entries)
    for link, (dataset, totals) in zip(entries, expected, strict=True):
        if (link.dataset, link.totals) != (dataset, totals.text()):
            yield f"entry {link.sequence} of the history ({link.about}) carries totals that do not follow"


def unlike_tables(history: Iterable[Link], connection: sa.Connection) -> Iterator[str]:
    """Yield the differences between the tables and the history, as text; none if they are the same."""
    entries = list(history)
    for table in HASHED_TABLES:
        keys = [column.name for column in table.primary_key]
        written = {}
        for entry in entries:
            if entry.about == table.name:
                row = json.loads(entry.row)
                written[tuple(row.get(key) for key in keys)] = entry
        rows = {
            tuple(row[key] for key in keys): canonical(dict(row))
            for row in connection.execute(sa.select(table)).mappings()
        }
        for key in (*written, *(rows.keys() - written.keys())):
            name, link, present = f"row {', '.join(map(str, key))} of {table.name}", written.get(key), rows.get(key)
            if link is None:
                yield f"{name} is not in the history"
            elif present is None:
                yield f"{name} was removed (entry {link.sequence} of the history has it)"
            elif present != link.row:
                before, after = json.loads(link.row), json.loads(present)
                columns = sorted(
                    column for column in before.keys() | after if before.get(column) != after.get(column)
                )
                yield f"{name} was changed: {', '.join(columns)}"  # without values: an export shows them


def changed_error(problems: Sequence[str], name: str = "the ledger", *, hint: str = "") -> LedgerDamaged:
    """Return the error for a ledger, or exported copy, that something else than dpbo changed, with its problems."""
    more = f"; and {len(problems) - N_PROBLEMS_SHOWN} more" if len(problems) > N_PROBLEMS_SHOWN else ""
    return LedgerDamaged(
        f"{name} was tampered with: {'; '.join(problems[:N_PROBLEMS_SHOWN])}{more}",
        cause="somebody wrote to its database past dpbo, or a disk failed",
        remedy="restore the newest sound copy; spend nothing on its datasets until what was spent is known; "
        f"dpbo budget verify names the rows{hint}",
    )


@contextmanager
def row_decoding() -> Iterator[None]:
    """Return a context that turns errors of decoding rows into `LedgerDamaged`, which repeats no cell's content."""
    try:
        yield
    except DpboError:
        raise
    except (*CELL_ERRORS, sa.exc.DataError, sa.exc.IntegrityError):
        pass  # the last two: a line of an export that refers to nothing, or comes twice
    else:
        return
    raise changed_error(["a row of the ledger cannot be read: it does not hold what was written there"])


def utc_now() -> str:
    """Return the current UTC time as text, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Writer:
    """A writing transaction: `connection` reads, and `write` adds a row to its table and to the history."""

    def __init__(self, connection: sa.Connection, last: Place, name: str) -> None:
        self.connection, self.last, self.name = connection, last, name
        self._totals: dict[str, Totals] = {}
        self._facts: dict[str, list[str]] = {}

    def write(self, table: sa.Table, row: Mapping[str, Any]) -> int:
        """Add a row to a table and to the history; returns the number that the database gave a charge, else 0."""
        dataset, written = self._dataset_of_row(table.name, row), dict(row)
        before, facts = self.totals_of(dataset), None
        if table is DATASET_FACTS and row["about"] not in STUDY_FACTS:
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
        """Return the totals in the dataset's newest history entry, checked to be its newest by the hash chain from
        there on.
        """
        if dataset not in self._totals:
            row = self.connection.execute(NEWEST_QUERY, {"dataset": dataset}).one_or_none()
            self._totals[dataset] = Totals() if row is None else self._checked_totals(row)
        return self._totals[dataset]

    @row_decoding()
    def facts_of(self, dataset: str) -> list[str]:
        """The dataset's facts (sources, permissions), of which its totals hold a hash, each in canonical JSON."""
        return [canonical(row._asdict()) for row in self.connection.execute(FACTS_QUERY, {"dataset": dataset})]

    @row_decoding()
    def check_whole(self) -> None:
        """Refuse a ledger with a broken hash chain or tables unlike it; this takes seconds for 100,000 entries."""
        history = links(self.connection)
        for find in (broken_links, lambda history: unlike_tables(history, self.connection), unlike_totals):
            for problem in find(history):
                raise self.differs(problem)

    def differs(self, what: str) -> LedgerDamaged:
        """Return the error for a ledger that something else than dpbo changed, as `what` says."""
        return changed_error([what], self.name)

    def _checked_totals(self, row: sa.Row[Any]) -> Totals:
        link = Link.from_row(row)
        previous = (
            self.connection.scalar(HASH_QUERY, {"sequence": link.sequence - 1})
            if link.sequence > 1
            else ORIGIN_HASH
        )
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
        """Return the dataset's facts, refused unless their hash is that in its totals."""
        if dataset not in self._facts:
            facts = self.facts_of(dataset)
            if facts_hash(facts) != self.totals_of(dataset).facts:
                raise self.differs(f"what it knows of dataset {dataset!r} is not what its history sealed")
            self._facts[dataset] = facts
        return self._facts[dataset]

    def _dataset_of_row(self, about: str, row: Mapping[str, Any]) -> str:
        reserved = {}
        if about in ("draws", "releases"):
            number = row["reservation"]
            reserved[number] = str(self.connection.scalar(RESERVED_QUERY, {"number": number}))
        return dataset_of(about, row, reserved)

    def _append_entry(self, about: str, dataset: str, row: Mapping[str, Any], totals: Totals) -> None:
        sequence, content, after = self.last.sequence + 1, canonical(row), totals.text()
        sealed = seal(self.last.hash, sequence, about, dataset, content, after)
        entry = {"sequence": sequence, "about": about, "dataset": dataset, "content": content, "totals": after}
        self.connection.execute(HISTORY.insert(), entry | {"hash": sealed})
        self._totals[dataset] = totals
        self.last = Place(sequence, sealed)
