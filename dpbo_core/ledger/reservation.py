"""A study's claim on its budget: a draw is recorded in the transaction that draws it, and the release once."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from dpbo_core.errors import DpboError, LedgerDamaged
from dpbo_core.ledger.charge import QueryKey, WarmStart
from dpbo_core.ledger.history import HASH_QUERY, Place, Writer, row_decoding, utc_now
from dpbo_core.ledger.policy import as_published
from dpbo_core.ledger.schema import DRAWS, RELEASES
from dpbo_core.ledger.store import LedgerStore
from dpbo_core.ledger.takeover import mark_opened
from dpbo_core.privacy.guarantee import PrivacyGuarantee
from dpbo_core.privacy.release import Release, Spend

OUTCOME_QUERY = sa.select(DRAWS.c.outcome).where(
    DRAWS.c.reservation == sa.bindparam("reservation"), DRAWS.c.what == sa.bindparam("what")
)
RELEASE_QUERY = sa.select(RELEASES.c.release).where(RELEASES.c.reservation == sa.bindparam("reservation"))
DRAWS_QUERY = sa.select(DRAWS.c.what, DRAWS.c.outcome).where(DRAWS.c.reservation == sa.bindparam("reservation"))

Check = Callable[[Mapping[str, Mapping[str, Any]]], None]  # of every draw that was recorded, by name


def recorded_release(writer: Writer, identity: str, number: int, key: QueryKey, release: Release) -> Release:
    """Return the release of charge `number` in the ledger `identity`; `release`, recorded now, if it has none."""
    stored = writer.connection.scalar(RELEASE_QUERY, {"reservation": number})
    if stored is None:
        now = utc_now()
        release = replace(release, guarantee=as_published(writer.connection, key.dataset, release.guarantee))
        place = {"identity": identity, "head": writer.last.hash}
        final = replace(release, release_id=key.fingerprint[:16], released_at=now, ledger=place)
        stored = final.to_json()
        writer.write(RELEASES, {"reservation": number, "release": stored, "released_at": now})
    return Release.from_json(json.loads(json.dumps(stored)))


class Reservation:
    """A query's claim on its budget, and the record of its draws. This is the recorder a method draws through.

    A ledger may be restored or replaced while it lives, and its row's number is another query's there: every use
    asks for the entry `since`, which no other history has.

    Attributes:
        noise: standing of the noise source that it was charged with.
        warm_start: what its search begins with, as it was fixed with the charge; None if it begins afresh.
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
        """Return the recorded outcome of the noise draw named `what`; None before it was drawn."""
        with self._reading() as connection:
            return self._outcome_of(connection, what)

    def record(
        self, spend: Spend, draw: Callable[[], Mapping[str, Any]], *, check: Check | None = None
    ) -> Mapping[str, Any]:
        """Return the recorded outcome of a priced noise draw. Without one, `draw` is called and its result recorded
        in one transaction.

        The transaction is never retried: if it fails, the draw is discarded unseen.

        Args:
            spend: of the draw, whose name it has.
            draw: makes it.
            check: sees every draw of this study that was recorded before, by name, and refuses by raising.
        """
        with self._writing() as writer:
            outcome = self._outcome_of(writer.connection, spend.what)
            if outcome is None:
                if self._until_released and writer.connection.scalar(RELEASE_QUERY, {"reservation": self._id}):
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
        """Record durably that sensitive bytes are about to be opened under the charge, unless it was recorded."""
        with self._writing() as writer:
            mark_opened(writer, self._key)

    def conclude(self, release: Release, *, check: Check | None = None) -> Release:
        """Record the finished release, unless one was: that one. `check` sees a new one's draws and may refuse."""
        with self._writing() as writer:
            stored = writer.connection.scalar(RELEASE_QUERY, {"reservation": self._id})
            if stored is None and check is not None:
                check(self._draws_by_name(writer.connection))
            return recorded_release(writer, self._store.identity, self._id, self._key, release)

    def assumed(self, guarantee: PrivacyGuarantee) -> PrivacyGuarantee:
        """Return the guarantee as a release states it: with `published_records` if the owner published any."""
        with self._reading() as connection:
            return as_published(connection, self._key.dataset, guarantee)

    @contextmanager
    def _reading(self) -> Iterator[sa.Connection]:
        with self._store.reading() as connection:
            self._check_same(connection)
            yield connection

    @contextmanager
    def _writing(self) -> Iterator[Writer]:
        with self._store.writing() as writer:
            self._check_same(writer.connection)
            yield writer

    def _check_same(self, connection: sa.Connection) -> None:
        if connection.scalar(HASH_QUERY, {"sequence": self._since.sequence}) != self._since.hash:
            raise LedgerDamaged(
                "this is not the ledger in which the running query was charged",
                cause="a copy of the ledger was restored, or another was put in its place, while the query ran",
                remedy="run it again: it goes on from what the ledger has of it, or is charged anew",
            )

    @row_decoding()
    def _outcome_of(self, connection: sa.Connection, what: str) -> Mapping[str, Any] | None:
        outcome: Mapping[str, Any] | None = connection.scalar(
            OUTCOME_QUERY, {"reservation": self._id, "what": what}
        )
        return outcome

    @row_decoding()
    def _draws_by_name(self, connection: sa.Connection) -> Mapping[str, Mapping[str, Any]]:
        rows = connection.execute(DRAWS_QUERY, {"reservation": self._id})
        return {str(row.what): dict(row.outcome) for row in rows}
