"""The history: every row of the ledger in the order it was written, each sealed to the one before.

| symbol | name here | meaning |
|---|---|---|
| n | `sequence` | 1, 2, 3, … without gaps |
| h_n | `hash` | SHA-256 of six lines: h_{n−1}, n, table, dataset in JSON, row, totals; h_0 is 64 zeros |
| — | `row` | what was written, as text, which is what is hashed |
| — | `totals` | what admission uses of the row's dataset from this entry on (`totals`) |

The chain shows a change to anyone who knows a later hash: the two records that `rollback_guard` keeps, or an
exported copy. It can be checked by anybody.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpbo_core.errors import DpboError, LedgerDamaged
from dpbo_core.ledger.accounting.account import canonical, replayed
from dpbo_core.ledger.schema import HISTORY, RECORDED

ORIGIN = "0" * 64
UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)  # raised by a cell
SHOWN = 3  # problems a message names; the rest it counts
RESTORATION = "restorations"  # a person's confirmation of an old copy: in the history alone

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
AFTER = sa.select(HISTORY).where(HISTORY.c.sequence > sa.bindparam("sequence")).order_by(HISTORY.c.sequence)


@dataclass(frozen=True)
class Place:
    """The last entry of a history: its number and its hash. Nothing yet is 0 and the origin."""

    sequence: int = 0
    hash: str = ORIGIN


START = Place()


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
        """The entry's number and hash, by which the history is known up to it."""
        return Place(self.sequence, self.hash)

    def follows(self, previous: str) -> bool:
        """Whether the entry's hash is that of its content after an entry of hash `previous`."""
        return self.hash == seal(previous, self.sequence, self.about, self.dataset, self.row, self.totals)

    @classmethod
    def from_row(cls, row: sa.Row[Any]) -> "Link":
        """The history entry in a row of the table `history`."""
        return cls(row.sequence, row.about, row.dataset, row.content, row.totals, row.hash)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Link":
        """The history entry in a line of an export.

        Raises:
            ValueError, LookupError, TypeError: it is none.
        """
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
    """The history's entries after the one numbered `after`, in their order."""
    return [Link.from_row(row) for row in connection.execute(AFTER, {"sequence": after})]


def broken_links(history: Iterable[Link], after: Place = START) -> Iterator[str]:
    """The breaks in the hash chain of entries that follow the entry `after`, in words; none if it is whole."""
    previous, expected = after.hash, after.sequence + 1
    for link in history:
        if link.sequence != expected:
            missing = str(expected) if link.sequence == expected + 1 else f"{expected} to {link.sequence - 1}"
            yield f"entry {missing} of the history is missing"
        elif not link.follows(previous):
            yield f"entry {link.sequence} of the history ({link.about}) is not what was written there"
        previous, expected = link.hash, link.sequence + 1


def unlike_totals(history: Iterable[Link]) -> Iterator[str]:
    """A sentence for each entry of a whole history whose totals or dataset do not follow from the rows up to it."""
    entries = list(history)
    expected = replayed((link.about, link.row) for link in entries)
    for link, (dataset, totals) in zip(entries, expected, strict=True):
        if (link.dataset, link.totals) != (dataset, totals.text()):
            yield f"entry {link.sequence} of the history ({link.about}) carries totals that do not follow"


def unlike_tables(history: Iterable[Link], connection: sa.Connection) -> Iterator[str]:
    """The differences between the tables and the history, in words; none if they are the same."""
    entries = list(history)
    for table in RECORDED:
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


def changed(problems: Sequence[str], name: str = "the ledger", *, hint: str = "") -> LedgerDamaged:
    """The error for a ledger, or exported copy, that something else than dpbo changed, with its problems."""
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return LedgerDamaged(
        f"{name} was tampered with: {'; '.join(problems[:SHOWN])}{more}",
        cause="somebody wrote to its database past dpbo, or a disk failed",
        remedy="restore the newest sound copy; spend nothing on its datasets until what was spent is known; "
        f"dpbo budget verify names the rows{hint}",
    )


@contextmanager
def row_decoding() -> Iterator[None]:
    """Context that turns errors of decoding the ledger's rows into `LedgerDamaged`.

    Raises:
        LedgerDamaged: it says so; what the cell holds it does not repeat.
    """
    try:
        yield
    except DpboError:
        raise
    except UNREADABLE:
        pass
    except (sa.exc.DataError, sa.exc.IntegrityError):  # a line of an export that refers to nothing, or comes twice
        pass
    else:
        return
    raise changed(["a row of the ledger cannot be read: it does not hold what was written there"])
