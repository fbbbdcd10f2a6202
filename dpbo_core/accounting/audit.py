"""Whether the ledger is what was written: its chain, its tables, its age, and an exported copy of it.

export    the history as JSON lines, to be kept where the ledger's owner cannot change it
verify    the chain is whole, the tables equal it, it reaches its generation, and it continues the copy
accept    a person answers for an old copy: what an export still has is written again, and counts as spent
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import sqlalchemy as sa

from dpbo_core.accounting.generation import Generation, older
from dpbo_core.accounting.history import RESTORATION, Link, broken_links, links, unlike_tables
from dpbo_core.accounting.store import LedgerStore, Pen, legible
from dpbo_core.accounting.tables import METADATA
from dpbo_core.errors import LedgerDamaged

SHOWN = 3  # problems a letter names; the rest it counts


@dataclass(frozen=True)
class Verified:
    """A ledger that was found whole: where it ends, and what an acceptance wrote again (None: nothing accepted)."""

    last: Generation
    recovered: int | None = None


def export(url: str) -> Iterator[str]:
    """The history, a JSON object a line."""
    with LedgerStore(url, restored=True).reading() as connection, legible():
        history = links(connection)
        lines = [json.dumps(link.to_json(), ensure_ascii=False, allow_nan=False) for link in history]
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
    raise _damaged([f"line {len(found) + 1} of the exported copy is not a line of an export"])


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
    kept = _kept(store, accept=accept)  # before the history is read: the ledger may grow meanwhile
    with store.reading() as connection, legible():
        history = links(connection)
        problems = [*broken_links(history), *unlike_tables(history, connection)]
    problems += [f"{problem} (in the exported copy)" for problem in broken_links(copy)]
    problems += [
        f"entry {mine.sequence} of the history is not the exported copy's"
        for mine, theirs in zip(history, copy, strict=False)
        if mine != theirs
    ]
    lost = copy[len(history) :]
    if lost and not accept:
        problems.append(f"entries {lost[0].sequence} to {lost[-1].sequence} of the exported copy are missing")
    if problems:
        raise _damaged(problems)
    last = Generation(history[-1].sequence, history[-1].hash)
    if kept is not None and _holds(history, kept) and not lost:
        return Verified(last)
    if not accept:
        raise older(store.generation.path, kept or Generation())
    return _accept(store, last, kept, lost)


def _kept(store: LedgerStore, *, accept: bool) -> Generation | None:
    """The generation; None if it cannot be read and a person said to go on."""
    try:
        return store.generation.read()
    except LedgerDamaged:
        if not accept:
            raise
    return None


def _holds(history: list[Link], kept: Generation) -> bool:
    return kept.sequence == 0 or any((link.sequence, link.hash) == (kept.sequence, kept.hash) for link in history)


def _accept(store: LedgerStore, last: Generation, kept: Generation | None, lost: tuple[Link, ...]) -> Verified:
    with store.writing() as pen:
        if pen.last != last:
            raise _damaged(["it was written to while it was being verified"])
        for link in lost:
            _write_again(pen, link)
        if lost and pen.connection.dialect.name == "postgresql":  # its numbering does not see numbers we gave
            number = "SELECT setval(pg_get_serial_sequence('reservations', 'id'), max(id)) FROM reservations"
            pen.connection.execute(sa.text(number))
        pen.note(
            RESTORATION,
            {
                "accepted_at": datetime.now(UTC).isoformat(timespec="seconds"),
                "expected": None if kept is None else asdict(kept),
                "found": asdict(last),
                "recovered": len(lost),
            },
        )
    return Verified(pen.last, recovered=len(lost))


def _write_again(pen: Pen, link: Link) -> None:
    """A lost row, into its table and to the same place of the history."""
    row = json.loads(link.row)
    if link.about in METADATA.tables:
        pen.write(METADATA.tables[link.about], row)
    else:
        pen.note(link.about, row)
    if pen.last != Generation(link.sequence, link.hash):
        raise _damaged([f"entry {link.sequence} of the exported copy does not fit the ledger"])


def _damaged(problems: list[str]) -> LedgerDamaged:
    shown = "; ".join(problems[:SHOWN])
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return LedgerDamaged(
        f"the ledger was tampered with: {shown}{more}",
        cause="somebody wrote to its database past dpbo, or a disk failed",
        remedy="restore the newest sound copy; spend nothing on its datasets until what was spent is known",
    )
