"""Whether the ledger is what was written: its chain, its tables, its age, and an exported copy of it.

export    the history as JSON lines, to be kept where the ledger's owner cannot change it
verify    the chain is whole, the tables equal it, it reaches its generation, and it continues the copy
accept    a person answers for an old copy: what an export still has is written again, and counts as spent
standing  which recorded releases rest on an estimator that no longer counts as unconditional
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import sqlalchemy as sa

from dpbo_core.accounting.generation import Generation, missing, older
from dpbo_core.accounting.history import (
    RESTORATION,
    Link,
    broken_links,
    links,
    unattested,
    unlike_tables,
    unlike_totals,
)
from dpbo_core.accounting.key import LedgerKey
from dpbo_core.accounting.legible import legible
from dpbo_core.accounting.pen import Pen
from dpbo_core.accounting.row_checks import faulty
from dpbo_core.accounting.store import FRESH, LedgerStore
from dpbo_core.accounting.tables import DATASETS, METADATA, RELEASES, RESERVATIONS
from dpbo_core.errors import LedgerDamaged
from dpbo_core.privacy.assumption import ROWWISE_PREDICTIONS
from dpbo_core.privacy.release import Release

Verdict = Literal["unconditional", "conditional", "unknown"]
Standing = Callable[[Mapping[str, Any]], Verdict]

SHOWN = 3  # problems a message names; the rest it counts


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
    raise damaged([f"line {len(found) + 1} of the exported copy is not a line of an export"])


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
    keys = _keys(store, accept=accept)
    kept, seen = _kept(store, accept=accept), store.seen.read()  # before the history: the ledger may grow meanwhile
    with store.reading() as connection, legible():
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
        raise damaged(problems, apart=bool(copy) and history[0] == copy[0])
    last = Generation(history[-1].sequence, history[-1].hash)
    sealed_here = not list(unattested(history, keys))
    reached, place = kept is not None and _holds(history, kept, store), store.generation.path
    if reached and seen.sequence and not _holds(history, seen, store):  # in another folder, or both were restored
        reached, kept, place = False, seen, store.seen.path or place
    if reached and not lost and sealed_here:
        return Verified(last)
    if not accept and place == store.generation.path and not store.generation.exists:
        raise missing(store.generation.path)
    if not accept:
        raise older(place, kept or Generation())
    return _accept(store, last, kept, lost)


def unsound_copy(copy: tuple[Link, ...], keys: tuple[LedgerKey, ...], *, strangers: bool) -> list[str]:
    """What is wrong with an exported copy by itself, in words."""
    found = [*broken_links(copy), *faulty(copy), *unattested(copy, keys, strangers=strangers)]
    found += unlike_totals(copy) if not found else ()
    return [f"{problem} (in the exported copy)" for problem in found]


def conditional_releases(url: str, standing: Standing) -> tuple[str, ...]:
    """The recorded releases that say nothing of `rowwise_predictions` and whose estimator needs it, in words.

    They stay released, and are shown again as they were: nothing is refused here. Those on a dataset declared
    public are left out.

    Args:
        url: the ledger's.
        standing: what a release's public facts say of its estimator today.
    """
    joined = RELEASES.join(RESERVATIONS).join(DATASETS, RESERVATIONS.c.dataset == DATASETS.c.name)
    query = sa.select(RELEASES.c.release).select_from(joined).where(sa.not_(DATASETS.c.public))
    query = query.order_by(RELEASES.c.reservation)
    named = []
    with LedgerStore(url, restored=True).reading() as connection, legible():
        for written in connection.scalars(query):
            release = Release.from_json(written)
            if "estimator" not in release.facts or ROWWISE_PREDICTIONS.name in release.guarantee.assumptions:
                continue
            verdict = standing(release.facts)
            if verdict != "unconditional":
                says = (
                    "is no longer unconditional" if verdict == "conditional" else "cannot be told from its record"
                )
                named.append(
                    f"{release.study}, edition {release.edition} ({release.release_id}): whether its estimator "
                    f"{release.facts['estimator']} predicts row by row {says}"
                )
    return tuple(named)


def _keys(store: LedgerStore, *, accept: bool) -> tuple[LedgerKey, ...]:
    """The keys known here; none where the generation cannot be read and a person said to go on."""
    try:
        return store.keys()
    except LedgerDamaged:
        if not accept:
            raise
    return ()


def _kept(store: LedgerStore, *, accept: bool) -> Generation | None:
    """The generation; None if it cannot be read and a person said to go on."""
    try:
        return store.generation.read()
    except LedgerDamaged:
        if not accept:
            raise
    return None


def _holds(history: list[Link], kept: Generation, store: LedgerStore) -> bool:
    if kept.sequence == 0:
        return store.server or len(history) <= FRESH
    return any((link.sequence, link.hash) == (kept.sequence, kept.hash) for link in history)


def _accept(store: LedgerStore, last: Generation, kept: Generation | None, lost: tuple[Link, ...]) -> Verified:
    with store.writing() as pen, legible():
        if pen.last != last:
            raise damaged(["it was written to while it was being verified"])
        for link in lost:
            _write_again(pen, link)
        _number_on(pen, lost)
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


def _number_on(pen: Pen, lost: tuple[Link, ...]) -> None:
    """PostgreSQL's numbering does not see the numbers that we gave."""
    if pen.connection.dialect.name == "postgresql" and any(link.about == RESERVATIONS.name for link in lost):
        number = "SELECT setval(pg_get_serial_sequence('reservations', 'id'), max(id)) FROM reservations"
        pen.connection.execute(sa.text(number))


def _write_again(pen: Pen, link: Link) -> None:
    """A lost row, into its table and to the same place of the history."""
    row = json.loads(link.row)
    if link.about in METADATA.tables:
        pen.write_again(METADATA.tables[link.about], row, link)
    else:
        pen.note(link.about, row, again=link)
    if pen.last != Generation(link.sequence, link.hash):
        raise damaged([f"entry {link.sequence} of the exported copy does not fit the ledger"])


def damaged(problems: list[str], *, apart: bool = False) -> LedgerDamaged:
    """The message for a ledger, or a copy of one, that is not what was written; `apart` if both began as one."""
    shown = "; ".join(problems[:SHOWN])
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    went_on = "; if an old copy was accepted before the export was found, run dpbo budget recover FILE" * apart
    return LedgerDamaged(
        f"the ledger was tampered with: {shown}{more}",
        cause="somebody wrote to its database past dpbo, or a disk failed",
        remedy="restore the newest sound copy; spend nothing on its datasets until what was spent is known"
        + went_on,
    )
