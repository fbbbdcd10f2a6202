"""What an edition's search begins with, written in the transaction that charges it and never changed.

The series that an edition belongs to, and the releases of it that its search learns from: a rerun, in another
process or under another version, begins with the very same, whatever was released since.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting.approvals import account_named, names_of
from dpbo_core.accounting.dataset_metadata import LEARNED
from dpbo_core.accounting.patterns import is_pattern, values_in
from dpbo_core.accounting.row_decoding import row_decoding
from dpbo_core.accounting.tables import DATASET_FACTS, RELEASES, RESERVATIONS
from dpbo_core.privacy.release import Release

OF_STUDY = sa.select(DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.about == LEARNED, DATASET_FACTS.c.item == sa.bindparam("fingerprint")
)
ID = 16  # digits of a fingerprint that name its release


@dataclass(frozen=True)
class Learned:
    """Of one edition.

    Attributes:
        series: which editions are of one study, one score and one space; a SHA-256 in hex.
        releases: the ids of those it learns from, oldest first.
    """

    series: str
    releases: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """As the ledger has it."""
        return {"series": self.series, "releases": list(self.releases)}


def read_learned(value: Mapping[str, Any]) -> Learned:
    """The inverse of `to_json`.

    Raises:
        TypeError, LookupError: it is none.
    """
    series, releases = value["series"], value["releases"]
    if not (isinstance(releases, list) and all(isinstance(text, str) for text in (series, *releases))):
        raise TypeError(LEARNED)
    return Learned(series, tuple(releases))


@row_decoding()
def learned_by(connection: sa.Connection, fingerprint: str) -> Learned | None:
    """What the study was charged to begin with; None where it begins afresh, or is not charged."""
    value = connection.scalar(OF_STUDY, {"fingerprint": fingerprint})
    return None if value is None else read_learned(value)


@row_decoding()
def released_in(connection: sa.Connection, dataset: str, series: str, most: int) -> tuple[Release, ...]:
    """The newest releases of a series, oldest first: those of the dataset, and of its siblings under one pattern.

    Args:
        connection: for reading.
        dataset: as a study names it.
        series: of the study.
        most: how many.
    """
    query = (
        sa.select(RESERVATIONS.c.id, DATASET_FACTS.c.value)
        .join(DATASET_FACTS, DATASET_FACTS.c.item == RESERVATIONS.c.fingerprint)
        .join(RELEASES)
        .where(DATASET_FACTS.c.about == LEARNED, RESERVATIONS.c.dataset.in_(_siblings(connection, dataset)))
        .order_by(RESERVATIONS.c.id.desc())
    )
    numbers = [row.id for row in connection.execute(query) if read_learned(row.value).series == series][:most]
    told = sa.select(RELEASES.c.release).where(RELEASES.c.reservation.in_(numbers)).order_by(RELEASES.c.reservation)
    return tuple(Release.from_json(release) for release in connection.scalars(told))


@row_decoding()
def releases_named(connection: sa.Connection, ids: tuple[str, ...]) -> tuple[Release, ...]:
    """The releases of these ids, in their order.

    Raises:
        LedgerDamaged: one is not there any more.
    """
    query = sa.select(RESERVATIONS.c.fingerprint, RELEASES.c.release).join(RELEASES)
    named = sa.func.substr(RESERVATIONS.c.fingerprint, 1, ID)
    told = {row.fingerprint[:ID]: row.release for row in connection.execute(query.where(named.in_(ids)))}
    return tuple(Release.from_json(told[name]) for name in ids)


def _siblings(connection: sa.Connection, dataset: str) -> tuple[str, ...]:
    """The dataset's account, and every dataset whose name is written by a pattern that writes this one's too."""
    names = names_of(connection)
    patterns = [name for name in names if is_pattern(name) and values_in(name, dataset) is not None]
    found = {name for name in names if any(values_in(pattern, name) is not None for pattern in patterns)}
    return tuple({account_named(connection, dataset), *(account_named(connection, name) for name in found)})
