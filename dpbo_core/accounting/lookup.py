"""Recorded releases by the names that people know them by, and whether a ledger holds what a certificate names."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import sqlalchemy as sa

from dpbo_core.accounting.history import RESTORATION
from dpbo_core.accounting.store import LedgerStore
from dpbo_core.accounting.tables import HISTORY, RELEASES, RESERVATIONS
from dpbo_core.errors import LedgerDamaged
from dpbo_core.privacy.release import Release

Standing = Literal["held", "accepted", "another"]
ID = 16  # digits of a fingerprint that name its release


@dataclass(frozen=True)
class Recorded:
    """A charged study; `release` is None until it has finished."""

    study: str
    edition: str
    method: str
    dataset: str
    release_id: str
    reserved_at: str
    release: Release | None


def names(connection: sa.Connection) -> tuple[str, ...]:
    """The name of every study that was charged, sorted."""
    query = sa.select(RESERVATIONS.c.study).distinct().order_by(RESERVATIONS.c.study)
    return tuple(str(name) for name in connection.scalars(query))


def matching(connection: sa.Connection, word: str) -> tuple[Recorded, ...]:
    """The studies of which `word` is NAME, NAME:EDITION or the release's id, with their releases.

    For inside `row_decoding`, as what a row holds is read.
    """
    whole = RESERVATIONS.c.study + ":" + RESERVATIONS.c.edition
    named = sa.func.substr(RESERVATIONS.c.fingerprint, 1, ID)
    return _found(connection, sa.or_(RESERVATIONS.c.study == word, whole == word, named == word))


def editions_of(
    connection: sa.Connection, study: str, edition: str | None, dataset: str | None
) -> tuple[Recorded, ...]:
    """The studies of that name, of one edition and one dataset unless they are None, with their releases."""
    wanted = RESERVATIONS.c.study == study
    if edition is not None:
        wanted &= RESERVATIONS.c.edition == edition
    if dataset is not None:
        wanted &= RESERVATIONS.c.dataset == dataset
    return _found(connection, wanted)


COLUMNS = (
    RESERVATIONS.c.study,
    RESERVATIONS.c.edition,
    RESERVATIONS.c.method,
    RESERVATIONS.c.dataset,
    RESERVATIONS.c.fingerprint,
    RESERVATIONS.c.reserved_at,
)


def _found(connection: sa.Connection, wanted: sa.ColumnElement[bool]) -> tuple[Recorded, ...]:
    query = sa.select(*COLUMNS, RELEASES.c.release).join(RELEASES, isouter=True).where(wanted)
    rows = connection.execute(query.order_by(RESERVATIONS.c.id))
    return tuple(_recorded(row, None if row.release is None else Release.from_json(row.release)) for row in rows)


def _recorded(row: sa.Row[Any], release: Release | None) -> Recorded:
    return Recorded(
        study=str(row.study),
        edition=str(row.edition),
        method=str(row.method),
        dataset=str(row.dataset),
        release_id=str(row.fingerprint)[:ID],
        reserved_at=str(row.reserved_at),
        release=release,
    )


def at_hand(url: str) -> bool:
    """Whether there is a ledger at all; none is made by asking."""
    address = sa.engine.make_url(url)
    return address.get_backend_name() != "sqlite" or Path(address.database or "").is_file()


def standing_of(release: Release, url: str) -> Standing:
    """What the ledger says of the entry that the release names.

    Args:
        release: as its certificate has it, with the hash of the ledger's entry before its own.
        url: the ledger's.

    Returns:
        "held"; "accepted" where it is missing and a person answered for an older copy; "another" where the release
        is of another ledger, or of a version that named none.

    Raises:
        LedgerDamaged: it is missing, and nobody answered for that.
    """
    if not release.ledger:
        return "another"
    store = LedgerStore(url, restored=True)
    if release.ledger.get("identity") != store.identity:
        return "another"
    with store.reading() as connection:
        before = sa.select(HISTORY.c.sequence).where(HISTORY.c.hash == release.ledger.get("head"))
        own = sa.select(HISTORY.c.about).where(HISTORY.c.sequence == before.scalar_subquery() + 1)
        if connection.scalar(own) == RELEASES.name:
            return "held"
        accepted = sa.select(HISTORY.c.sequence).where(HISTORY.c.about == RESTORATION).limit(1)
        if connection.scalar(accepted) is not None:
            return "accepted"
    raise LedgerDamaged(
        "the ledger is older than it was: the entry that this release names is not in its history",
        cause="an old copy of the ledger was restored, and what was spent since is missing from it",
        remedy="restore the newest copy; if it is lost, and you answer for the spends that are missing, run: "
        "dpbo budget verify --accept-restored",
    )
