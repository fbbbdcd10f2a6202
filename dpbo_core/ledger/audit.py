"""Whether the ledger is what was written: its chain, its tables, its age, and an exported copy of it.

export    the history as JSON lines, to be kept where the ledger's owner cannot change it
verify    the chain is whole, the tables equal it, it reaches what its records say, and it continues the copy
accept    a person answers for an old copy: what an export still has is written again, and counts as spent
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from dpbo_core.errors import LedgerDamaged
from dpbo_core.ledger import schema
from dpbo_core.ledger.history import (
    RESTORATION,
    START,
    Link,
    Place,
    as_exported,
    broken_links,
    links,
    unattested,
    unlike_tables,
    unlike_totals,
)
from dpbo_core.ledger.key import LedgerKey
from dpbo_core.ledger.rollback_guard import missing, older
from dpbo_core.ledger.row_checks import faulty
from dpbo_core.ledger.row_decoding import changed, row_decoding
from dpbo_core.ledger.store import FRESH, LedgerStore
from dpbo_core.ledger.tables import RESERVATIONS
from dpbo_core.ledger.writer import Writer

APART = "; if an old copy was accepted before the export was found, run dpbo budget recover FILE"


@dataclass(frozen=True)
class Verified:
    """A ledger that was found whole: where it ends, and what an acceptance wrote again (None: nothing accepted)."""

    last: Place
    recovered: int | None = None


def export(url: str) -> Iterator[str]:
    """The history, a JSON object a line: of a ledger of whatever schema, as it is."""
    with LedgerStore(url, restored=True).reading() as connection, row_decoding():
        rows = connection.execute(sa.text("SELECT * FROM history ORDER BY sequence")).mappings()
        lines = [json.dumps(as_exported(dict(row)), ensure_ascii=False, allow_nan=False) for row in rows]
    yield from lines


def read_export(lines: Iterable[str]) -> tuple[Link, ...]:
    """The inverse of `export`.

    Raises:
        LedgerDamaged: a line is not one that `export` wrote.
    """
    found = []
    for line in lines:
        try:
            found.append(Link.from_json(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            break
    else:
        return tuple(found)
    raise changed([f"line {len(found) + 1} of the exported copy is not a line of an export"])


def verify(url: str, copy: tuple[Link, ...] = (), *, accept: bool = False) -> Verified:
    """Compare everything the ledger is with everything that is known of it.

    Args:
        url: the ledger's.
        copy: an exported history that the ledger must continue.
        accept: a person answers for this ledger being older than it was. Entries that `copy` has and the ledger
            lost are written again. The acceptance itself becomes an entry of the history.

    Raises:
        LedgerDamaged: says what was changed, removed, added, reordered or lost.
    """
    store = LedgerStore(url, restored=True)
    if store.schema != str(schema.SCHEMA):
        raise schema.another(store.schema)
    keys = _keys(store, accept=accept)
    beside, of_user = _beside(store, accept=accept), store.guard.of_user()  # before the history, which may grow
    with store.reading() as connection, row_decoding():
        history = links(connection)
        problems = [*broken_links(history), *unlike_tables(history, connection), *faulty(history)]
        problems += unlike_totals(history) if not problems else ()
    problems += unattested(history, keys, strangers=accept)
    problems += unsound_copy(copy, keys, strangers=accept)
    problems += [
        f"entry {mine.sequence} of the history is not the exported copy's"
        for mine, theirs in zip(history, copy, strict=False)
        if mine != theirs
    ]
    lost = copy[len(history) :]
    if lost and not accept:
        problems.append(f"entries {lost[0].sequence} to {lost[-1].sequence} of the exported copy are missing")
    if lost and keys and any(link.mac for link in history) and not any(link.mac for link in lost):
        problems.append("no key seals the entries that the exported copy has more")
    if problems:
        apart = bool(copy) and history[0] == copy[0]
        raise changed(problems, hint=APART if apart else "")
    last = history[-1].place
    sealed_here = not list(unattested(history, keys))
    record, place = beside, store.guard.beside.path
    reached = beside is not None and _holds(history, beside, store)
    if reached and of_user.sequence and not _holds(history, of_user, store):  # elsewhere, or both were restored
        reached, record, place = False, of_user, store.guard.path_of_user or place
    if reached and not lost and sealed_here:
        return Verified(last)
    if not accept and place == store.guard.beside.path and not store.guard.beside.exists:
        raise missing(store.guard.beside.path)
    if not accept:
        raise older(f"entry {(record or START).sequence} (kept in {place.name})")
    return _accept(store, last, record, lost)


def unsound_copy(copy: tuple[Link, ...], keys: tuple[LedgerKey, ...], *, strangers: bool) -> list[str]:
    """What is wrong with an exported copy by itself, in words."""
    found = [*broken_links(copy), *faulty(copy), *unattested(copy, keys, strangers=strangers)]
    found += unlike_totals(copy) if not found else ()
    return [f"{problem} (in the exported copy)" for problem in found]


def _keys(store: LedgerStore, *, accept: bool) -> tuple[LedgerKey, ...]:
    """The keys known here; none where the generation cannot be read and a person said to go on."""
    try:
        return store.keys()
    except LedgerDamaged:
        if not accept:
            raise
    return ()


def _beside(store: LedgerStore, *, accept: bool) -> Place | None:
    """What the record beside the ledger says; None if it cannot be read and a person said to go on."""
    try:
        return store.guard.beside.read()
    except LedgerDamaged:
        if not accept:
            raise
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
                "accepted_at": datetime.now(UTC).isoformat(timespec="seconds"),
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
