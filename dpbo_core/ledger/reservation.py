"""Charges: one private query by its key, its price, and the records that it will be asked of.

A study's claim on its budget: a draw is recorded in the transaction that draws it, and the release once.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import sqlalchemy as sa

from dpbo_core.errors import DpboError, LedgerDamaged
from dpbo_core.ledger.accounting.account import LEARNED
from dpbo_core.ledger.accounting.budget import PrivacyBudget
from dpbo_core.ledger.history import HASH, Place, Writer, row_decoding, utc_now
from dpbo_core.ledger.policy import as_published
from dpbo_core.ledger.schema import DRAWS, RELEASES
from dpbo_core.ledger.sources import Source
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.ledger.takeover import mark_opened
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.release import PrivacyPlan, Release, Spend


class Caller(Enum):
    """The person who asks: what only the owner may do is refused to an operator.

    The owner sits at the command or the notebook. An operator is somebody who may start runs through Prefect:
    such a run opens no cap, adds no file, and asks for no more than the cap's largest ε.
    """

    OWNER = "owner"
    OPERATOR = "operator"


@dataclass(frozen=True)
class QueryKey:
    """A private query's identity: `fingerprint`, a SHA-256 in hex; the rest is for people."""

    fingerprint: str
    dataset: str
    study: str
    edition: str
    method: str


@dataclass(frozen=True)
class WarmStart:
    """The earlier releases that an edition's search begins with, fixed in the transaction that charges it.

    A rerun, in another process or under another version, begins with the very same, whatever was released since.

    Attributes:
        series: which editions are of one study, one score and one space; a SHA-256 in hex.
        releases: the ids of those it learns from, oldest first.
    """

    series: str
    releases: tuple[str, ...]


def read_warm_start(value: Mapping[str, Any]) -> WarmStart:
    """The warm start (earlier releases that a search begins with) in the JSON that the ledger stores.

    Raises:
        TypeError, LookupError: it is none.
    """
    series, releases = value["series"], value["releases"]
    if not (isinstance(releases, list) and all(isinstance(text, str) for text in (series, *releases))):
        raise TypeError(LEARNED)
    return WarmStart(series, tuple(releases))


@dataclass(frozen=True, eq=False)
class Charge:
    """One private query as the ledger charges it.

    Attributes:
        key: what the ledger knows the query by.
        plan: its price.
        sources: of the records that it is asked of, and of what it reads as public.
        cap: the cap to open if the dataset has none; it stays unopened if the plan is refused.
        max_records_per_person: k, which the dataset's first spend fixes for all.
        warm_start: what its search begins with, fixed in the same transaction.
        until_released: whether nothing is drawn once the release is recorded.
        resolved: what the study became beside its method's name, as JSON, for a rerun to go on with.
    """

    key: QueryKey
    plan: PrivacyPlan
    sources: tuple[Source, ...] = ()
    cap: PrivacyBudget | None = None
    max_records_per_person: int = 1
    warm_start: WarmStart | None = None
    until_released: bool = field(default=False, kw_only=True)
    resolved: Mapping[str, Any] = field(default_factory=dict)


OUTCOME = sa.select(DRAWS.c.outcome).where(
    DRAWS.c.reservation == sa.bindparam("reservation"), DRAWS.c.what == sa.bindparam("what")
)
RELEASED = sa.select(RELEASES.c.release).where(RELEASES.c.reservation == sa.bindparam("reservation"))
DRAWN = sa.select(DRAWS.c.what, DRAWS.c.outcome).where(DRAWS.c.reservation == sa.bindparam("reservation"))

Check = Callable[[Mapping[str, Mapping[str, Any]]], None]  # of every draw that was recorded, by name


class Reservation:
    """A query's claim on its budget, and the record of its draws. This is the recorder a method draws through.

    A ledger may be restored or replaced while it lives, and its row's number is another query's there: every use
    asks for the entry `since`, which no other history has.

    Args:
        store: the ledger.
        identity: the number of its row.
        key: of the query.
        noise: standing of the noise source that it was charged with.
        since: the newest entry of the history when it was charged or taken over.
        warm_start: what its search begins with, as it was fixed with the charge; None where it begins afresh.
        until_released: whether nothing is drawn after its release.

    Attributes:
        noise: standing of the noise source that it was charged with.
        warm_start: what its search begins with, as it was fixed with the charge; None where it begins afresh.
    """

    def __init__(
        self,
        store: LedgerStore,
        identity: int,
        key: QueryKey,
        noise: str,
        *,
        since: Place,
        warm_start: WarmStart | None = None,
        until_released: bool = False,
    ) -> None:
        self._store, self._id, self._key, self.noise, self.warm_start = store, identity, key, noise, warm_start
        self._since, self._until_released = since, until_released

    def recorded(self, what: str) -> Mapping[str, Any] | None:
        """The recorded outcome of the noise draw named `what`; None before it was drawn."""
        with self._reading() as connection:
            return self._outcome_of(connection, what)

    def record(
        self, spend: Spend, draw: Callable[[], Mapping[str, Any]], *, check: Check | None = None
    ) -> Mapping[str, Any]:
        """The recorded outcome of a priced draw; if none, it is drawn and recorded in one transaction, unless
        `check` or the query's recorded release refuses that.

        The transaction is never tried again: if it fails, the draw in it is discarded, and nobody saw it.

        Args:
            spend: of the draw, whose name it has.
            draw: makes it.
            check: sees every draw of this study that was recorded before, by name, and refuses by raising.

        Raises:
            DpboError: the release was recorded, and the query draws nothing after it.
        """
        with self._writing() as writer:
            outcome = self._outcome_of(writer.connection, spend.what)
            if outcome is None:
                if self._until_released and writer.connection.scalar(RELEASED, {"reservation": self._id}):
                    raise DpboError(
                        "this query's release was recorded", remedy="ask again under a new edition, for a new spend"
                    )
                if check is not None:
                    check(self._draws_by_name(writer.connection))
                outcome = dict(draw())
                row = {"reservation": self._id, "what": spend.what, "spend": spend.to_json()}
                writer.write(DRAWS, row | {"outcome": outcome, "drawn_at": utc_now()})
        return outcome

    def open(self) -> None:
        """Record durably that sensitive bytes are about to be opened under the charge, unless it was recorded.

        Raises:
            StudyInvalid: a corrected study took the charge over.
        """
        with self._writing() as writer:
            mark_opened(writer, self._key)

    def conclude(self, release: Release, *, check: Check | None = None) -> Release:
        """Record the finished release, with id, time and ledger added, or return the one recorded before; `check`
        sees the draws of a new one and may refuse.
        """
        with self._writing() as writer:
            stored = writer.connection.scalar(RELEASED, {"reservation": self._id})
            if stored is None:
                if check is not None:
                    check(self._draws_by_name(writer.connection))
                now, dataset = utc_now(), self._key.dataset
                release = replace(release, guarantee=as_published(writer.connection, dataset, release.guarantee))
                recorded = {"identity": self._store.identity, "head": writer.last.hash}
                final = replace(release, release_id=self._key.fingerprint[:16], released_at=now, ledger=recorded)
                stored = final.to_json()
                writer.write(RELEASES, {"reservation": self._id, "release": stored, "released_at": now})
        return Release.from_json(json.loads(json.dumps(stored)))

    def assumed(self, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """The guarantee as a release states it: with `published_records` if the owner published any."""
        with self._reading() as connection:
            return as_published(connection, self._key.dataset, guarantee)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        """Context with a connection that reads the history in which the query was charged."""
        with self._store.reading() as connection:
            self._check_same(connection)
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        """Context with a writer on the history in which the query was charged."""
        with self._store.writing() as writer:
            self._check_same(writer.connection)
            yield writer

    def _check_same(self, connection: sa.Connection) -> None:
        """Refuse a ledger in whose history the query was not charged.

        Raises:
            LedgerDamaged: it is another one, or was restored since.
        """
        if connection.scalar(HASH, {"sequence": self._since.sequence}) != self._since.hash:
            raise LedgerDamaged(
                "this is not the ledger in which the running query was charged",
                cause="a copy of the ledger was restored, or another was put in its place, while the query ran",
                remedy="run it again: it goes on from what the ledger has of it, or is charged anew",
            )

    @row_decoding()
    def _outcome_of(self, connection: sa.Connection, what: str) -> Mapping[str, Any] | None:
        """The recorded outcome of the draw named `what`; None before it was drawn."""
        outcome: Mapping[str, Any] | None = connection.scalar(OUTCOME, {"reservation": self._id, "what": what})
        return outcome

    @row_decoding()
    def _draws_by_name(self, connection: sa.Connection) -> Mapping[str, Mapping[str, Any]]:
        """The recorded outcome of each of the charge's noise draws, by the draw's name."""
        rows = connection.execute(DRAWN, {"reservation": self._id})
        return {str(row.what): dict(row.outcome) for row in rows}
