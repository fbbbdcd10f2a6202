"""The durable history of every promise: reserve first, record each draw once, never give back.

The protocol, keyed by a study's fingerprint (its whole spec, its edition and the public training data):

    reserve    the whole plan, durably, before any record's content is used
    record     a draw, its spend and its outcome in ONE transaction, committed before a byte of it is shown
    conclude   the release, once
    rerun      takes over its own reservation, reads recorded draws back, continues after them
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting import admission
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.composition import NOTHING, Total, compose
from dpbo_core.accounting.store import LedgerStore, Pen, legible
from dpbo_core.accounting.tables import DATASETS, DRAWS, RELEASES, RESERVATIONS
from dpbo_core.errors import NoBudget
from dpbo_core.privacy.plan import PrivacyPlan, Spend
from dpbo_core.privacy.release import Release
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit

HALF = 10**9  # sums are made of two halves, which no number of reservations takes over 64 bits

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
CAP = sa.select(DATASETS).where(DATASETS.c.name == sa.bindparam("dataset"))
EARLIER = sa.select(RESERVATIONS.c.id, RESERVATIONS.c.spends, RESERVATIONS.c.noise).where(
    RESERVATIONS.c.fingerprint == sa.bindparam("fingerprint")
)
SPENT = (
    sa.select(
        RESERVATIONS.c.unit,
        sa.func.count() - sa.func.count(RESERVATIONS.c.epsilon_units),  # those without a pure ε
        *(
            half
            for amount in (RESERVATIONS.c.epsilon_units, RESERVATIONS.c.delta_units, RESERVATIONS.c.rho_units)
            for half in (sa.func.sum(amount // HALF), sa.func.sum(amount % HALF))
        ),
    )
    .where(RESERVATIONS.c.dataset == sa.bindparam("dataset"))
    .group_by(RESERVATIONS.c.unit)
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


@dataclass(frozen=True)
class Entry:
    """One line of a dataset's history; `cost` is its whole plan in the ledger's unit."""

    study: str
    edition: str
    method: str
    epsilon: float | None
    delta: float
    rho: float
    assumptions: tuple[str, ...]
    reserved_at: str
    released_at: str | None
    release_id: str | None
    cost: Total


@dataclass(frozen=True)
class Account:
    """A dataset's cap, what is spent of it, its history, and the one unit of its promises (None before any)."""

    budget: PrivacyBudget
    spent: Total
    entries: tuple[Entry, ...]
    unit: PrivacyUnit | None = None

    @property
    def spent_epsilon(self) -> tuple[float, float]:
        """What is spent as (ε, δ): the smaller of the two routes of composition."""
        return self.spent.epsilon(self.budget.conversion_for(self.unit))


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
            found = _budget(pen.connection, budget.dataset)
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
            return _budget(connection, dataset)

    def reserve(
        self, key: StudyKey, plan: PrivacyPlan, *, noise: str, opening: PrivacyBudget | None = None
    ) -> "Reservation":
        """Charge the whole plan, or take over the reservation this very study made before.

        Args:
            key: the study.
            plan: its price.
            noise: standing of the noise source, "operating_system" or "injected".
            opening: the cap to open if the dataset has none; it stays unopened if the plan is refused.

        Raises:
            StudyInvalid: `opening` is not the cap the dataset has.
            NoBudget, BudgetExceeded, EvidenceRefuted, NoiseNotPrivate, BudgetRefused: nothing was charged.
            AssumptionNotAccepted: the dataset's cap was not opened with an assumption of the plan.
        """
        asked, spends = compose(plan.spends), [spend.to_json() for spend in plan.spends]
        with self._store.writing() as pen:
            budget = _budget(pen.connection, key.dataset)
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
            spent, units = _spent(pen.connection, key.dataset)
            admission.admit(budget, spent=spent, units=units, asked=asked, guarantee=plan.guarantee, noise=noise)
            first = pen.connection.scalar(FIRST, {"dataset": key.dataset})
            admission.same_persons(budget, first, plan.guarantee)
            row = asdict(key) | asdict(asked)
            row |= {"unit": plan.guarantee.unit.value, "guarantee": plan.guarantee.to_json(), "spends": spends}
            number = pen.write(RESERVATIONS, row | {"noise": noise, "reserved_at": _now()})
            assert number is not None  # noqa: S101  reservations are numbered
        return Reservation(self._store, number, key)

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

    def accounts(self, dataset: str | None = None) -> tuple[Account, ...]:
        """Every dataset's account, or one dataset's; empty if the name is unknown."""
        with self._store.reading() as connection, legible():
            names = connection.scalars(sa.select(DATASETS.c.name).order_by(DATASETS.c.name))
            return tuple(_account(connection, name) for name in names.all() if dataset in (None, name))


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


def _check_cells(*, whole: Iterable[Any], texts: Iterable[Any]) -> None:
    """SQLite keeps a text in a column of numbers, if it is told to; and no amount is below 0.

    Raises:
        TypeError: a cell holds what was never written.
    """
    counts = all(isinstance(cell, int) and cell >= 0 for cell in whole)
    if not (counts and all(isinstance(cell, str) for cell in texts)):
        raise TypeError


@legible()
def _budget(connection: sa.Connection, dataset: str) -> PrivacyBudget | None:
    row = connection.execute(CAP, {"dataset": dataset}).one_or_none()
    if row is None:
        return None
    relation = NeighboringRelation(row.relation)
    _check_cells(whole=(row.epsilon_units, row.delta_units), texts=row.accepts)
    return PrivacyBudget(dataset, row.epsilon_units, row.delta_units, relation, tuple(row.accepts), row.public)


@legible()
def _spent(connection: sa.Connection, dataset: str) -> tuple[Total, frozenset[PrivacyUnit]]:
    """Everything reserved on the dataset, and whom it protects; added up by the database, exactly."""
    total, units = NOTHING, set()
    for unit, without, *sums in connection.execute(SPENT, {"dataset": dataset}):
        epsilon, delta, rho = (int(sums[i] or 0) * HALF + int(sums[i + 1] or 0) for i in (0, 2, 4))
        total += Total(None if without else epsilon, delta, rho)
        units.add(PrivacyUnit(unit))
    return total, frozenset(units)


def _account(connection: sa.Connection, dataset: str) -> Account:
    budget = _budget(connection, dataset)
    assert budget is not None  # noqa: S101  the name was just read from the same transaction
    query = (
        sa.select(RESERVATIONS, RELEASES.c.released_at)
        .join(RELEASES, isouter=True)
        .where(RESERVATIONS.c.dataset == dataset)
        .order_by(RESERVATIONS.c.id)
    )
    rows = connection.execute(query).all()
    for row in rows:
        amounts = (row.epsilon_units or 0, row.delta_units, row.rho_units)
        numbers = (row.guarantee["epsilon"] or 0.0, row.guarantee["delta"])
        _check_cells(whole=amounts, texts=(row.study, row.edition, row.method, row.reserved_at, row.fingerprint))
        _check_cells(whole=(), texts=(row.released_at or "", *row.guarantee["assumptions"]))
        if not all(isinstance(number, int | float) for number in numbers):
            raise TypeError
    entries = tuple(
        Entry(
            study=row.study,
            edition=row.edition,
            method=row.method,
            epsilon=row.guarantee["epsilon"],
            delta=row.guarantee["delta"],
            rho=row.rho_units / 10**12,
            assumptions=tuple(row.guarantee["assumptions"]),
            reserved_at=row.reserved_at,
            released_at=row.released_at,
            release_id=row.fingerprint[:16] if row.released_at else None,
            cost=Total(row.epsilon_units, row.delta_units, row.rho_units),
        )
        for row in rows
    )
    spent, units = _spent(connection, dataset)
    return Account(budget, spent, entries, next(iter(units), None) if len(units) == 1 else None)
