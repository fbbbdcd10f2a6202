"""Whether the ledger is what was written: its chain, its tables, its age, and an exported copy of it.

export    the history as JSON lines, to be kept where the ledger's owner cannot change it
verify    the chain is whole, the tables equal it, it reaches what its records say, and it continues the copy
accept    a person answers for an old copy: what an export still has is written again, and counts as spent

An entry holds only what dpbo can have written: no amount is below 0, and a reservation's amounts are those of its
own spends, composed. So nobody can write a row that gives back.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa

from dpbo_core.accounting.account import LEARNED
from dpbo_core.accounting.composition import compose
from dpbo_core.errors import LedgerDamaged
from dpbo_core.ledger import schema
from dpbo_core.ledger.charge import read_warm_start
from dpbo_core.ledger.dataset_metadata import CAP, RECORDS, RECOVERED
from dpbo_core.ledger.history import (
    RESTORATION,
    START,
    UNREADABLE,
    Link,
    OtherKeys,
    Place,
    as_exported,
    broken_links,
    changed,
    links,
    row_decoding,
    unattested,
    unlike_tables,
    unlike_totals,
)
from dpbo_core.ledger.key import LedgerKey
from dpbo_core.ledger.rollback_guard import missing, older
from dpbo_core.ledger.schema import DATASET_FACTS, DRAWS, METADATA, RECORDED, RESERVATIONS
from dpbo_core.ledger.store import FRESH, LedgerStore
from dpbo_core.ledger.writer import Writer, utc_now
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.plan import Spend
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit

APART = "; if an old copy was accepted before the export was found, run dpbo budget recover FILE"
LARGEST = 2**62  # of an amount or a number: the database keeps 64 bits
ROUNDING = 2.0**-50  # relative, of a double that an amount was written as: a quarter of a unit below ε = 1,000
T = TypeVar("T")
LISTS = ("accepts", "spends")  # of the columns that hold JSON; the others hold objects


@dataclass(frozen=True)
class Verified:
    """A whole ledger: where it ends, and how many entries an acceptance wrote again (None: nothing accepted)."""

    last: Place
    recovered: int | None = None


def export(url: str) -> Iterator[str]:
    """The history of a ledger of whatever schema, a JSON object a line."""
    with LedgerStore(url, restored=True).reading() as connection, row_decoding():
        rows = connection.execute(sa.text("SELECT * FROM history ORDER BY sequence")).mappings()
        lines = [json.dumps(as_exported(dict(row)), ensure_ascii=False, allow_nan=False) for row in rows]
    yield from lines


def read_export(lines: Iterable[str]) -> tuple[Link, ...]:
    """The inverse of `export`.

    Raises:
        LedgerDamaged: a line is not one that `export` wrote.
    """
    entries: list[Link] = []
    for line in lines:
        try:
            entries.append(Link.from_json(json.loads(line)))
        except UNREADABLE:
            break
    else:
        return tuple(entries)
    raise changed([f"line {len(entries) + 1} of the exported copy is not a line of an export"])


def verify(url: str, copy: tuple[Link, ...] = ()) -> Verified:
    """Compare the whole ledger with its own history, with its records outside, and with an exported copy.

    Args:
        url: the ledger's.
        copy: an exported history that the ledger must continue.

    Raises:
        LedgerDamaged: says what was changed, removed, added, reordered or lost.
    """
    store = _opened(url)
    beside, of_user = store.guard.beside.read(), store.guard.of_user()  # before the history, which may grow
    history, problems = _compared(store, copy, store.keys(), OtherKeys.REFUSED)
    lost = copy[len(history) :]
    if lost:
        problems.append(f"entries {lost[0].sequence} to {lost[-1].sequence} of the exported copy are missing")
    _check_sound(problems, history, copy)
    if not (_holds(history, beside, store) or store.guard.beside.exists):
        raise missing(store.guard.beside.path)
    if not _holds(history, beside, store):
        raise older(f"entry {beside.sequence} (kept in {store.guard.beside.path.name})")
    if of_user != START and not _holds(history, of_user, store):  # elsewhere, or both were restored
        raise older(f"entry {of_user.sequence} (kept in {(store.guard.path_of_user or Path()).name})")
    return Verified(history[-1].place)


def accept(url: str, copy: tuple[Link, ...] = ()) -> Verified:
    """Let a person answer for a ledger that is older than it was; one that verifies is left as it is.

    Entries that `copy` has and the ledger lost are written again. The acceptance itself becomes an entry of the
    history.

    Raises:
        LedgerDamaged: the ledger or the copy is not whole by itself, or the copy is not its continuation.
    """
    try:
        return verify(url, copy)
    except LedgerDamaged:  # older, or without its record or its key; what is more is refused below
        pass
    store = _opened(url)
    keys, beside = _unless_damaged(store.keys) or (), _unless_damaged(store.guard.beside.read)
    of_user = store.guard.of_user()
    history, problems = _compared(store, copy, keys, OtherKeys.ACCEPTED)
    lost = copy[len(history) :]
    if lost and keys and any(link.mac for link in history) and not any(link.mac for link in lost):
        problems.append("no key seals the entries that the exported copy has more")
    _check_sound(problems, history, copy)
    record = beside
    if beside is not None and _holds(history, beside, store) and of_user != START:
        record = beside if _holds(history, of_user, store) else of_user
    return _accept(store, history[-1].place, record, lost)


def _opened(url: str) -> LedgerStore:
    """The store of a ledger of whatever age, but of this schema.

    Raises:
        DpboError: it has another schema.
    """
    store = LedgerStore(url, restored=True)
    if store.schema != str(schema.SCHEMA):
        raise schema.another(store.schema)
    return store


def _compared(
    store: LedgerStore, copy: tuple[Link, ...], keys: tuple[LedgerKey, ...], others: OtherKeys
) -> tuple[list[Link], list[str]]:
    """The history, and its problems and the copy's, in words, with where the two differ."""
    with store.reading() as connection, row_decoding():
        history = links(connection)
        problems = _unsound(history, keys, others, differences=unlike_tables(history, connection))
    problems += unsound_copy(copy, keys, others)
    problems += [
        f"entry {mine.sequence} of the history is not the exported copy's"
        for mine, theirs in zip(history, copy, strict=False)
        if mine != theirs
    ]
    return history, problems


def _check_sound(problems: list[str], history: list[Link], copy: tuple[Link, ...]) -> None:
    """Return if there are no problems.

    Raises:
        LedgerDamaged: there are.
    """
    if problems:
        raise changed(problems, hint=APART if copy and history[0] == copy[0] else "")


def unsound_copy(copy: tuple[Link, ...], keys: tuple[LedgerKey, ...], others: OtherKeys) -> list[str]:
    """The problems of an exported copy by itself, in words."""
    return [f"{problem} (in the exported copy)" for problem in _unsound(copy, keys, others)]


def _unsound(
    history: Sequence[Link], keys: tuple[LedgerKey, ...], others: OtherKeys, differences: Iterable[str] = ()
) -> list[str]:
    """The problems of a whole history, in words, with its `differences` from the tables if they are at hand."""
    problems = [*broken_links(history), *differences, *faulty(history)]
    problems += unlike_totals(history) if not problems else ()
    return [*problems, *unattested(history, keys, others)]


def _unless_damaged(read: Callable[[], T]) -> T | None:
    """The content of the file beside the ledger; None if it cannot be read: a person said to go on."""
    try:
        return read()
    except LedgerDamaged:
        return None


def _holds(history: list[Link], record: Place, store: LedgerStore) -> bool:
    if record == START:
        return store.server or len(history) <= FRESH
    return any(link.place == record for link in history)


def _accept(store: LedgerStore, last: Place, record: Place | None, lost: tuple[Link, ...]) -> Verified:
    with store.writing() as writer, row_decoding():
        if writer.last != last:
            raise changed(["it was written to while it was being verified"])
        for link in lost:
            writer.write_again(link, json.loads(link.row))
            if writer.last != link.place:
                raise changed([f"entry {link.sequence} of the exported copy does not fit the ledger"])
        _number_on(writer, lost)
        writer.note(
            RESTORATION,
            {
                "accepted_at": utc_now(),
                "expected": None if record is None else asdict(record),
                "found": asdict(last),
                "recovered": len(lost),
            },
        )
    return Verified(writer.last, recovered=len(lost))


def _number_on(writer: Writer, lost: tuple[Link, ...]) -> None:
    """PostgreSQL's numbering does not see the numbers that we gave."""
    if writer.connection.dialect.name == "postgresql" and any(link.about == RESERVATIONS.name for link in lost):
        number = "SELECT setval(pg_get_serial_sequence('reservations', 'id'), max(id)) FROM reservations"
        writer.connection.execute(sa.text(number))


def faulty(history: Iterable[Link]) -> Iterator[str]:
    """The entries that dpbo cannot have written, in words."""
    entries = list(history)
    for place, link in enumerate(entries):
        try:
            row = json.loads(link.row)
            _check(link.about, row)
            if link.about == DATASET_FACTS.name:
                _check_fact(row, entries[max(place - 1, 0) : place + 2])
        except UNREADABLE:
            yield f"entry {link.sequence} of the history ({link.about}) holds what cannot be, an amount below 0 say"


def _check(about: str, row: Mapping[str, Any]) -> None:
    """Types, signs, and that a reservation's amounts are those of its spends.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: it is otherwise.
    """
    table = METADATA.tables.get(about)
    if table is None:  # a note, in the history alone
        return
    if table not in RECORDED:
        raise ValueError("the history has no entries about itself")
    if set(row) != {column.name for column in table.columns}:
        raise ValueError("other columns")
    for column in table.columns:
        if not _fits(column, row[column.name]):
            raise TypeError(column.name)
    if about == "datasets":
        NeighboringRelation(row["relation"])
        if not all(isinstance(name, str) for name in row["accepts"]):
            raise TypeError("accepts")
    if about == "reservations":
        if PrivacyGuarantee.from_json(row["guarantee"]).unit is not PrivacyUnit(row["unit"]):
            raise ValueError("unit")
        _check_composed(row)
    if about == "draws":
        Spend.from_json(row["spend"])
    if about == "releases":
        Release.from_json(row["release"])


def _fits(column: sa.Column[Any], cell: Any) -> bool:
    """Whether a cell is of the type of its column: a number of a row from 1 on, an amount from 0 on."""
    if cell is None:
        return bool(column.nullable)
    if isinstance(column.type, sa.Boolean):
        return isinstance(cell, bool)
    if isinstance(column.type, sa.Integer):
        least = 0 if column.name.endswith("_units") else 1
        return type(cell) is int and least <= cell <= LARGEST
    if isinstance(column.type, sa.JSON):
        return isinstance(cell, list if column.name in LISTS else dict)
    return isinstance(cell, str)


def _check_fact(row: Mapping[str, Any], beside: Iterable[Link]) -> None:
    """A fact under a heading of ours has its form, and one of a recovery stands beside what was written for it.

    A line that only says so, without the charge or the draw, is none of ours: it would hide a lost spend.

    Raises:
        ValueError, TypeError, LookupError: it is otherwise.
    """
    about, value = row["about"], row["value"]
    if about == RECORDS and not (row["item"].isascii() and row["item"].isdigit() and int(row["item"]) >= 1):
        raise ValueError("k")
    if about == CAP:
        for name in ("epsilon_units", "delta_units"):
            if not (type(value[name]) is int and 0 <= value[name] <= LARGEST):
                raise TypeError(name)
    if about == LEARNED:
        read_warm_start(value)
    if about == RECOVERED:
        number = value["reservation"]
        written = [(link.about, json.loads(link.row)) for link in beside]
        charged = any((table, other.get("id")) == (RESERVATIONS.name, number) for table, other in written)
        drawn = any((table, other.get("reservation")) == (DRAWS.name, number) for table, other in written)
        if type(number) is not int or not (charged or drawn):
            raise ValueError("nothing was recovered")


def _check_composed(row: Mapping[str, Any]) -> None:
    """Amounts are kept as integers and spends as decimals, so what doubles lose in between is allowed for.

    Raises:
        ValueError: an amount is not the sum of its spends'.
    """
    for name, summed in asdict(compose(map(Spend.from_json, row["spends"]))).items():
        amount = row[name]
        sound = amount is summed
        if amount is not None and summed is not None:
            sound = abs(amount - summed) <= len(row["spends"]) * ROUNDING * summed
        if not sound:
            raise ValueError("an amount is not that of its spends")
