"""The history: every row of the ledger in the order it was written, each sealed to the one before.

| symbol | name here | meaning |
|---|---|---|
| n | `sequence` | 1, 2, 3, … without gaps |
| h_n | `hash` | SHA-256(h_{n−1}, n, table, row, totals), in hex; h_0 is 64 zeros |
| — | `totals` | what admission uses of the row's dataset from now on, and where others' is found (`nodes`) |

An entry of a version before there were totals has none, and its hash is without that line.

The chain shows a change to anyone who knows a later hash: the generation beside the ledger, or an exported copy. It
can be checked by anybody. Beside each hash stands the `mac` of the owner's key (`key`): one that is right attests
every entry up to it, also those that were written before there was a key.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting.key import LedgerKey, made_by
from dpbo_core.accounting.nodes import Entry, Node, Place, following, reach
from dpbo_core.accounting.tables import HISTORY, RECORDED
from dpbo_core.accounting.totals import LEDGER, Totals, replayed
from dpbo_core.accounting.writing import canonical, seal

__all__ = [
    "ORIGIN",
    "RESTORATION",
    "Link",
    "broken_links",
    "canonical",
    "links",
    "seal",
    "unattested",
    "unlike_tables",
    "unlike_totals",
]

ORIGIN = "0" * 64
RESTORATION = "restorations"  # a person's confirmation of an old copy: in the history alone


@dataclass(frozen=True)
class Link:
    """One line of the history. `row` is the canonical JSON of what was written into table `about`.

    Two lines are the same if they say the same; `mac` says who wrote it, and a later key may say it again.
    """

    sequence: int
    about: str
    row: str
    hash: str
    mac: str | None = field(default=None, compare=False)
    totals: str | None = field(default=None, compare=False)  # the hash compares them

    def to_json(self) -> dict[str, Any]:
        """A line of an export; the row as an object, for people."""
        told = asdict(self) | {"row": json.loads(self.row)}
        if self.totals is not None:
            told["totals"] = json.loads(self.totals)
        return {name: said for name, said in told.items() if said is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Link":
        """The inverse of `to_json`."""
        mac = None if data.get("mac") is None else str(data["mac"])
        totals = None if data.get("totals") is None else canonical(data["totals"])
        link = cls(
            int(data["sequence"]), str(data["about"]), canonical(data["row"]), str(data["hash"]), mac, totals
        )
        for text in (link.about, link.row, link.hash, mac or "", totals or ""):
            text.encode()  # half a surrogate pair is no text, and no hash is made of it
        return link


def links(connection: sa.Connection) -> list[Link]:
    """The whole history, in its order."""
    rows = connection.execute(sa.select(HISTORY).order_by(HISTORY.c.sequence))
    return [Link(row.sequence, row.about, row.content, row.hash, row.mac, row.totals) for row in rows]


def broken_links(history: Iterable[Link]) -> Iterator[str]:
    """What is wrong with the chain by itself, in words; nothing if it is whole."""
    previous, expected = ORIGIN, 1
    for link in history:
        if link.sequence != expected:
            missing = str(expected) if link.sequence == expected + 1 else f"{expected} to {link.sequence - 1}"
            yield f"entry {missing} of the history is missing"
        elif seal(previous, link.sequence, link.about, link.row, link.totals) != link.hash:
            yield f"entry {link.sequence} of the history ({link.about}) is not what was written there"
        previous, expected = link.hash, link.sequence + 1


def unlike_totals(history: Iterable[Link]) -> Iterator[str]:
    """Which entries carry other totals than those that follow from the rows so far, in words.

    Args:
        history: in its order, its chain whole.
    """
    entries: dict[Place, Entry] = {}
    known: dict[str, Totals] = {}
    head: Entry | None = None
    before = False  # whether the entry before has totals with a filter
    told = list(history)
    for link, (of, totals) in zip(told, replayed((link.about, json.loads(link.row)) for link in told), strict=True):
        if link.totals is None:
            head = None
        else:
            filtered = Node.from_text(link.totals).filtered
            if head is None or (filtered and not before):
                node = Node(of, totals, everything=dict(known))
            else:
                node = following(head, of, totals, reach(head, of, entries.__getitem__)[1])
            before, told_now = filtered, node if filtered else node.of_before()
            if told_now.text() != link.totals:
                yield f"entry {link.sequence} of the history ({link.about}) carries totals that do not follow"
            place = (link.sequence, link.hash)
            head = entries[place] = Entry(place, node)
        if of != LEDGER:
            known[of] = totals


def unattested(history: Iterable[Link], keys: Collection[LedgerKey], *, strangers: bool = False) -> Iterator[str]:
    """Which entries the owner's key does not stand for, in words; nothing where there never was a key.

    Args:
        history: in its order, its chain whole.
        keys: those that are known here.
        strangers: whether a key that is not known here may have sealed entries; a person answers for it.
    """
    told = list(history)
    sealed = [link for link in told if link.mac is not None]
    attested = 0
    for link in sealed:
        right = made_by(link.mac or "", link.hash, keys)
        if right is False:
            yield f"entry {link.sequence} of the history ({link.about}) is not sealed by its owner's key"
        elif right or strangers:
            attested = link.sequence
    if sealed and keys and told[-1].sequence > attested:
        yield f"no key that is known here seals the entries after {attested}"


def unlike_tables(history: Iterable[Link], connection: sa.Connection) -> Iterator[str]:
    """Where the tables and the history disagree, in words; nothing if they are the same."""
    told = list(history)
    for table in RECORDED:
        keys = [column.name for column in table.primary_key]
        written = {}
        for link in told:
            if link.about == table.name:
                row = json.loads(link.row)
                written[tuple(row.get(key) for key in keys)] = link
        found = {
            tuple(row[key] for key in keys): canonical(dict(row))
            for row in connection.execute(sa.select(table)).mappings()
        }
        for key, link in written.items():
            if key not in found:
                yield f"{_row(table, key)} was removed (entry {link.sequence} of the history has it)"
            elif found[key] != link.row:
                yield f"{_row(table, key)} was changed: {_changes(link.row, found[key])}"
        for key in found.keys() - written.keys():
            yield f"{_row(table, key)} is not in the history"


def _row(table: sa.Table, key: tuple[Any, ...]) -> str:
    return f"row {', '.join(map(str, key))} of {table.name}"


def _changes(written: str, found: str) -> str:
    """Which columns differ. Their values stay out: a message is short, and an export shows them."""
    before, after = json.loads(written), json.loads(found)
    return ", ".join(sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name)))
