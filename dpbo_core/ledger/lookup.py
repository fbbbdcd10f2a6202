"""Recorded releases by the names that people know them by, and whether a ledger holds what a certificate names."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import sqlalchemy as sa

from dpbo_core.ledger.accounting.account import LEARNED
from dpbo_core.ledger.charge import WarmStart, read_warm_start
from dpbo_core.ledger.history import RESTORATION, row_decoding
from dpbo_core.ledger.policy import NAMES_QUERY, templates_of
from dpbo_core.ledger.rollback_guard import older
from dpbo_core.ledger.schema import DATASET_FACTS, DRAWS, HISTORY, RELEASES, RESERVATIONS
from dpbo_core.ledger.sources import values_in
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.privacy.release import Release

Standing = Literal["held", "accepted", "another"]
# The digits of a fingerprint that name its release.
NAME_OF_FINGERPRINT: sa.ColumnElement[str] = sa.func.substr(RESERVATIONS.c.fingerprint, 1, 16)

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
CHARGED_QUERY = sa.select(
    RESERVATIONS.c.id, RESERVATIONS.c.method, RESERVATIONS.c.resolved, RESERVATIONS.c.spends, RESERVATIONS.c.noise
).where(RESERVATIONS.c.fingerprint == sa.bindparam("fingerprint"))

WARM_START_QUERY = sa.select(DATASET_FACTS.c.value).where(
    DATASET_FACTS.c.about == LEARNED, DATASET_FACTS.c.item == sa.bindparam("fingerprint")
)


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


class RecordedStudies:
    """The charges, draws and releases that a ledger recorded, read back, one snapshot a call."""

    def __init__(self, url: str) -> None:
        self._store, self.url = LedgerStore(url), url

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._store.reading() as connection, row_decoding():
            yield connection

    def reserved(self, fingerprint: str) -> Mapping[str, Any] | None:
        """The method and other resolved choices that the study was charged with, as JSON; None if it was not."""
        with self._reading() as connection:
            row = connection.execute(CHARGED_QUERY, {"fingerprint": fingerprint}).one_or_none()
            return None if row is None else {**row.resolved, "method": str(row.method)}

    def drawn(self, fingerprint: str) -> Mapping[str, tuple[Mapping[str, Any], str]]:
        """Return each noise draw recorded for this study, by name: its outcome and the time of recording."""
        query = sa.select(DRAWS.c.what, DRAWS.c.outcome, DRAWS.c.drawn_at).join(RESERVATIONS)
        query = query.where(RESERVATIONS.c.fingerprint == fingerprint)
        with self._reading() as connection:
            return {str(row.what): (dict(row.outcome), str(row.drawn_at)) for row in connection.execute(query)}

    def release_of(self, fingerprint: str) -> Release | None:
        """Return the recorded release of the study with this fingerprint; None before it has finished."""
        return self._find_release(RESERVATIONS.c.fingerprint == fingerprint)

    def release_named(self, release_id: str) -> Release | None:
        """Return the release of that id (first 16 digits of its study's fingerprint); None if there is none."""
        return self._find_release(NAME_OF_FINGERPRINT.in_([release_id]))

    def warm_start(self, fingerprint: str) -> WarmStart | None:
        """As `warm_start_of`, of this ledger's newest snapshot."""
        with self._reading() as connection:
            return warm_start_of(connection, fingerprint)

    def released_in(self, dataset: str, series: str, *, most: int) -> tuple[Release, ...]:
        """The `most` newest releases of `series`, oldest first, in this dataset or its name pattern's others."""
        query = (
            sa.select(RELEASES.c.release, DATASET_FACTS.c.value)
            .join(RESERVATIONS)
            .join(DATASET_FACTS, DATASET_FACTS.c.item == RESERVATIONS.c.fingerprint)
            .order_by(RESERVATIONS.c.id.desc())
        )
        with self._reading() as connection:
            patterns = templates_of(connection, dataset)
            of_pattern = [
                name
                for name in connection.scalars(NAMES_QUERY)
                if any(values_in(pattern, name) is not None for pattern in patterns)
            ]
            own = RESERVATIONS.c.dataset.in_([dataset, *of_pattern])
            rows = connection.execute(query.where(DATASET_FACTS.c.about == LEARNED, own))
            newest = islice((row.release for row in rows if read_warm_start(row.value).series == series), most)
            return tuple(map(Release.from_json, newest))[::-1]

    @row_decoding()
    def releases_named(self, ids: tuple[str, ...]) -> tuple[Release, ...]:
        """Return the recorded releases of these ids, in their order; one that is missing raises."""
        recorded = self._select(NAME_OF_FINGERPRINT.in_(ids))
        releases = {item.release_id: item.release for item in recorded if item.release}
        return tuple(releases[name] for name in ids)

    def recorded(self, word: str) -> tuple[Recorded, ...]:
        """Return the charged studies that `word` names, as NAME, NAME:EDITION or a release's id."""
        whole = RESERVATIONS.c.study + ":" + RESERVATIONS.c.edition
        return self._select(sa.or_(RESERVATIONS.c.study == word, whole == word, NAME_OF_FINGERPRINT.in_([word])))

    def editions(
        self, study: str | None, *, edition: str | None = None, dataset: str | None = None
    ) -> tuple[Recorded, ...]:
        """Return the charged runs (editions) of a study by name, edition and dataset, of all where one is None."""
        columns = {"study": study, "edition": edition, "dataset": dataset}
        return self._select(*(RESERVATIONS.c[name] == text for name, text in columns.items() if text is not None))

    def study_as_released(self, dataset: str, study: str, edition: str) -> Mapping[str, Any] | None:
        """The study file's tables with which a study's edition was released last on the dataset; None if not."""
        query = sa.select(RESERVATIONS.c.resolved).join(RELEASES).order_by(RESERVATIONS.c.id.desc())
        query = query.where(
            RESERVATIONS.c.dataset == dataset, RESERVATIONS.c.study == study, RESERVATIONS.c.edition == edition
        )
        with self._reading() as connection:
            return (connection.scalar(query) or {}).get("study")

    def study_names(self) -> tuple[str, ...]:
        """Return the names of all studies that were charged, sorted."""
        query = sa.select(RESERVATIONS.c.study).distinct().order_by(RESERVATIONS.c.study)
        with self._reading() as connection:
            return tuple(str(name) for name in connection.scalars(query))

    def _find_release(self, which: sa.ColumnElement[bool]) -> Release | None:
        return next((item.release for item in self._select(which)), None)

    def _select(self, *which: sa.ColumnElement[bool]) -> tuple[Recorded, ...]:
        columns = [RESERVATIONS.c[name] for name in ("study", "edition", "method", "dataset")]
        query = sa.select(*columns, NAME_OF_FINGERPRINT, RESERVATIONS.c.reserved_at, RELEASES.c.release)
        query = query.join(RELEASES, isouter=True).where(*which).order_by(RESERVATIONS.c.id)
        with self._reading() as connection:
            return tuple(_recorded_study(*row) for row in connection.execute(query))


def _recorded_study(*cells: Any) -> Recorded:
    study, edition, method, dataset, release_id, reserved_at = map(str, cells[:-1])
    release = None if cells[-1] is None else Release.from_json(cells[-1])
    return Recorded(study, edition, method, dataset, release_id, reserved_at, release)


@row_decoding()
def warm_start_of(connection: sa.Connection, fingerprint: str) -> WarmStart | None:
    """Return the ids of the earlier releases that a study's search begins with, and their series; or None."""
    value = connection.scalar(WARM_START_QUERY, {"fingerprint": fingerprint})
    return None if value is None else read_warm_start(value)


def standing_of(release: Release, url: str) -> Standing:
    """Return "held" if the ledger at `url` has the release, "another" if it is of another ledger or names none.

    "accepted": it is missing, and a person accepted an older copy of the ledger; otherwise LedgerDamaged is raised.
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
    raise older("the entry that this release names")
