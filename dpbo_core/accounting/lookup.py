"""Recorded releases, found by the names that people know them by: no study file and no data is needed."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting.tables import RELEASES, RESERVATIONS
from dpbo_core.privacy.release import Release

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

    For inside `legible`, as what a row holds is read.
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
