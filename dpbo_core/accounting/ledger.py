"""The durable history of every promise: reserve first, record each draw once, never give back.

The protocol, keyed by a study's fingerprint (its whole spec, its edition and the public training data):

    reserve    the whole plan, durably, before any record's content is used
    record     a draw, its spend and its outcome in ONE transaction, committed before a byte of it is shown
    conclude   the release, once
    rerun      takes over its own reservation, reads recorded draws back, continues after them
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting import admission, lookup
from dpbo_core.accounting.accounts import Account, account_of, cap_of, spent_of
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.composition import compose
from dpbo_core.accounting.facts import ANSWERS, RECORDS, facts_about, records_of, write_fact
from dpbo_core.accounting.lookup import Recorded
from dpbo_core.accounting.store import LedgerStore, Pen, legible
from dpbo_core.accounting.tables import DATASETS, DRAWS, RELEASES, RESERVATIONS
from dpbo_core.errors import NoBudget
from dpbo_core.privacy.plan import PrivacyPlan, Spend
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.unit import PrivacyUnit

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
EARLIER = sa.select(RESERVATIONS.c.id, RESERVATIONS.c.spends, RESERVATIONS.c.noise).where(
    RESERVATIONS.c.fingerprint == sa.bindparam("fingerprint")
)
FIRST = (
    sa.select(RESERVATIONS.c.guarantee)
    .where(RESERVATIONS.c.dataset == sa.bindparam("dataset"))
    .order_by(RESERVATIONS.c.id)
    .limit(1)
)
OUTCOME = sa.select(DRAWS.c.outcome).where(
    DRAWS.c.reservation == sa.bindparam("reservation"), DRAWS.c.what == sa.bindparam("what")
)


@dataclass(frozen=True)
class StudyKey:
    """Which study edition this is. `fingerprint` is a SHA-256 in hex; the rest is for people."""

    fingerprint: str
    dataset: str
    study: str
    edition: str
    method: str


class PrivacyLedger:
    """The ledger in one database: a SQLite file, or a PostgreSQL database that a team shares.

    Raises:
        LedgerDamaged: an old copy of it was restored.
    """

    def __init__(self, url: str) -> None:
        self._store = LedgerStore(url)

    def set_budget(self, budget: PrivacyBudget) -> bool:
        """Open a cap; True if it is new, False if the very same cap was open already.

        Raises:
            StudyInvalid: the dataset has another cap. A cap never changes.
        """
        with self._store.writing() as pen:
            found = cap_of(pen.connection, budget.dataset)
            if found is None:
                _open(pen, budget)
        if found is None:
            return True
        if found != budget:
            raise admission.another_cap(found)
        return False

    def budget(self, dataset: str) -> PrivacyBudget | None:
        """The dataset's cap, if it has one."""
        with self._store.reading() as connection:
            return cap_of(connection, dataset)

    def reserve(
        self,
        key: StudyKey,
        plan: PrivacyPlan,
        *,
        noise: str,
        opening: PrivacyBudget | None = None,
        max_records_per_person: int = 1,
    ) -> "Reservation":
        """Charge the whole plan, or take over the reservation this very study made before.

        Args:
            key: the study.
            plan: its price.
            noise: standing of the noise source, "operating_system" or "injected".
            opening: the cap to open if the dataset has none; it stays unopened if the plan is refused.
            max_records_per_person: k, which the dataset's first spend fixes for all.

        Raises:
            StudyInvalid: `opening` is not the cap the dataset has.
            NoBudget, BudgetExceeded, EvidenceRefuted, NoiseNotPrivate, BudgetRefused: nothing was charged.
            AssumptionNotAccepted: the dataset's cap was not opened with an assumption of the plan.
        """
        asked, spends = compose(plan.spends), [spend.to_json() for spend in plan.spends]
        with self._store.writing() as pen:
            budget = cap_of(pen.connection, key.dataset)
            if budget is None and opening is not None:
                _open(pen, opening)
                budget = opening
            if budget is None:
                raise NoBudget(
                    f"dataset {key.dataset!r} has no privacy budget, so nothing may be spent on it",
                    cause="this is its first study",
                    remedy=f"add [budget] to the study, or: dpbo budget set {key.dataset} --epsilon 5 --delta 1e-5",
                )
            if opening is not None:
                admission.same_cap(budget, opening)
            earlier = pen.connection.execute(EARLIER, {"fingerprint": key.fingerprint}).one_or_none()
            if earlier is not None:
                admission.same_plan(earlier.spends == spends and earlier.noise == noise)
                return Reservation(self._store, earlier.id, key)
            spent, units = spent_of(pen.connection, key.dataset)
            admission.admit(budget, spent=spent, units=units, asked=asked, guarantee=plan.guarantee, noise=noise)
            first = pen.connection.scalar(FIRST, {"dataset": key.dataset})
            admission.same_persons(budget, first, plan.guarantee)
            fixed = records_of(pen.connection, key.dataset)
            admission.same_records(budget, fixed, plan.guarantee, max_records_per_person)
            row = asdict(key) | asdict(asked)
            row |= {"unit": plan.guarantee.unit.value, "guarantee": plan.guarantee.to_json(), "spends": spends}
            number = pen.write(RESERVATIONS, row | {"noise": noise, "reserved_at": _now()})
            assert number is not None  # noqa: S101  reservations are numbered
            if not (fixed or budget.public or plan.guarantee.unit is PrivacyUnit.PERSON):
                write_fact(pen, key.dataset, RECORDS, str(max_records_per_person), {})
        return Reservation(self._store, number, key)

    def way_of_answers(self, dataset: str, publication: str) -> Mapping[str, Any] | None:
        """How a published table's rows are answered; None before the first answer."""
        with self._store.reading() as connection:
            return facts_about(connection, dataset, ANSWERS).get(publication)

    def fix_answers(self, dataset: str, publication: str, way: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same, and `way` from now on if this is the first."""
        with self._store.writing() as pen:
            found = facts_about(pen.connection, dataset, ANSWERS).get(publication)
            if found is None:
                write_fact(pen, dataset, ANSWERS, publication, way)
        return way if found is None else found

    def reserved(self, fingerprint: str) -> bool:
        """Whether this very study was charged."""
        with self._store.reading() as connection:
            return connection.execute(EARLIER, {"fingerprint": fingerprint}).one_or_none() is not None

    def release_of(self, fingerprint: str) -> Release | None:
        """The recorded release of this very study, if it has finished."""
        query = sa.select(RELEASES.c.release).join(RESERVATIONS).where(RESERVATIONS.c.fingerprint == fingerprint)
        with self._store.reading() as connection, legible():
            found = connection.scalar(query)
            return None if found is None else Release.from_json(found)

    def release_named(self, release_id: str) -> Release | None:
        """The recorded release of that id (the first 16 digits of its study's fingerprint), if there is one."""
        query = sa.select(RELEASES.c.release).join(RESERVATIONS)
        query = query.where(sa.func.substr(RESERVATIONS.c.fingerprint, 1, len(release_id)) == release_id)
        with self._store.reading() as connection, legible():
            found = connection.scalar(query)
            return None if found is None else Release.from_json(found)

    def recorded(self, word: str) -> tuple[Recorded, ...]:
        """The charged studies of which `word` is NAME, NAME:EDITION or the release's id."""
        with self._store.reading() as connection, legible():
            return lookup.matching(connection, word)

    def editions(
        self, study: str, *, edition: str | None = None, dataset: str | None = None
    ) -> tuple[Recorded, ...]:
        """The charged studies of that name, of one edition and one dataset unless they are None."""
        with self._store.reading() as connection, legible():
            return lookup.editions_of(connection, study, edition, dataset)

    def study_names(self) -> tuple[str, ...]:
        """The names of all studies that were charged."""
        with self._store.reading() as connection:
            return lookup.names(connection)

    def accounts(self, dataset: str | None = None) -> tuple[Account, ...]:
        """Every dataset's account, or one dataset's; empty if the name is unknown."""
        with self._store.reading() as connection, legible():
            names = connection.scalars(sa.select(DATASETS.c.name).order_by(DATASETS.c.name))
            return tuple(account_of(connection, name) for name in names.all() if dataset in (None, name))


class Reservation:
    """A study's claim on its budget, and the record of its draws. This is the recorder a method draws through."""

    __slots__ = ("_id", "_key", "_store")

    def __init__(self, store: LedgerStore, identity: int, key: StudyKey) -> None:
        self._store, self._id, self._key = store, identity, key

    def recorded(self, what: str) -> Mapping[str, Any] | None:
        """The outcome of an earlier draw of this name, if there is one."""
        with self._store.reading() as connection:
            return self._outcome(connection, what)

    def record(self, spend: Spend, draw: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Read the draw, or make it and write it with its spend, in one transaction; return it after the commit.

        The transaction is never tried again: if it fails, the draw in it is discarded, and nobody saw it.
        """
        with self._store.writing() as pen:
            outcome = self._outcome(pen.connection, spend.what)
            if outcome is None:
                outcome = dict(draw())
                row = {"reservation": self._id, "what": spend.what, "spend": spend.to_json()}
                pen.write(DRAWS, row | {"outcome": outcome, "drawn_at": _now()})
        return outcome

    def conclude(self, release: Release) -> Release:
        """Record the finished release, or read back the one that was recorded first."""
        query = sa.select(RELEASES.c.release).where(RELEASES.c.reservation == self._id)
        with self._store.writing() as pen:
            stored = pen.connection.scalar(query)
            if stored is None:
                now = _now()
                final = replace(release, release_id=self._key.fingerprint[:16], released_at=now)
                stored = final.to_json()
                pen.write(RELEASES, {"reservation": self._id, "release": stored, "released_at": now})
        return Release.from_json(json.loads(json.dumps(stored)))

    @legible()
    def _outcome(self, connection: sa.Connection, what: str) -> Mapping[str, Any] | None:
        outcome: Mapping[str, Any] | None = connection.scalar(OUTCOME, {"reservation": self._id, "what": what})
        return outcome


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _open(pen: Pen, budget: PrivacyBudget) -> None:
    row = asdict(budget) | {"name": budget.dataset, "accepts": list(budget.accepts), "opened_at": _now()}
    del row["dataset"]
    row["relation"] = budget.relation.value
    pen.write(DATASETS, row)
