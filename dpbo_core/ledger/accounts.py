"""What a dataset's rows in the ledger say, read back: its cap, what is spent of it, its history and burn-down.

A row that does not hold what was written there is damage, and says so; what it holds is not repeated.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.composition import NOTHING, Total
from dpbo_core.accounting.renyi_filter import NOT_FILTERED, Draw, Filter, draws_in, together
from dpbo_core.accounting.totals import Totals, cap_in, facts_hash, filter_of
from dpbo_core.ledger.approvals import NOTHING_APPROVED, Approvals, approvals_of
from dpbo_core.ledger.dataset_metadata import CAP as CAP_FACT
from dpbo_core.ledger.dataset_metadata import facts_about, records_of
from dpbo_core.ledger.row_decoding import row_decoding
from dpbo_core.ledger.tables import DATASETS, DRAWS, RELEASES, RESERVATIONS
from dpbo_core.ledger.writer import Writer
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit

MOST_ROOM = 10_000
HALF = 10**9  # sums are made of two halves, which no number of reservations takes over 64 bits

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
CAP = sa.select(DATASETS).where(DATASETS.c.name == sa.bindparam("dataset"))
SPENT = (
    sa.select(
        RESERVATIONS.c.unit,
        sa.func.count(),
        sa.func.count() - sa.func.count(RESERVATIONS.c.epsilon_units),  # those without a pure ε
        *(
            half
            for amount in (RESERVATIONS.c.epsilon_units, RESERVATIONS.c.delta_units, RESERVATIONS.c.rho_units)
            for half in (sa.func.sum(amount // HALF), sa.func.sum(amount % HALF))
        ),
        *(
            bound(amount)  # of which none may be below 0, or no whole number
            for amount in (RESERVATIONS.c.epsilon_units, RESERVATIONS.c.delta_units, RESERVATIONS.c.rho_units)
            for bound in (sa.func.min, sa.func.max)
        ),
    )
    .where(RESERVATIONS.c.dataset == sa.bindparam("dataset"))
    .group_by(RESERVATIONS.c.unit)
)


@dataclass(frozen=True)
class Entry:
    """One line of a dataset's history; `cost` is its whole plan in the ledger's unit, `draws` each draw of it.

    `recorded` names what it recorded so far, while it has not released.
    """

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
    draws: tuple[Draw, ...] = ()
    recorded: tuple[str, ...] = ()


@dataclass(frozen=True)
class Account:
    """A dataset's cap, what is spent of it, its history, and the one unit of its guarantees (None before any).

    `records` is the k of its spends, none before the first.
    `approvals` are what its owner approved: what it may be scored on, its group, the largest ε of one run.
    `filtered` are its draws at the order that admission uses.
    """

    budget: PrivacyBudget
    spent: Total
    entries: tuple[Entry, ...]
    unit: PrivacyUnit | None = None
    records: tuple[int, ...] = ()
    approvals: Approvals = NOTHING_APPROVED
    filtered: Filter = NOT_FILTERED

    @property
    def spent_epsilon(self) -> tuple[float, float]:
        """What is spent as (ε, δ): the smaller of the routes of composition, by the draws as they were."""
        draws = Counter(draw for entry in self.entries for draw in entry.draws)
        return together(draws, self.spent.delta_units, self.budget.conversion_for(self.unit))

    @property
    def rooms(self) -> dict[str, int]:
        """Method → how many more studies at the price of its newest the cap admits, and no others beside them."""
        newest = {entry.method: entry for entry in self.entries}
        return {} if self.budget.public else {method: self.room(entry) for method, entry in newest.items()}

    def room(self, entry: Entry) -> int:
        """How many more studies at the price of `entry` the cap admits, and no others; at most `MOST_ROOM`."""
        total, filtered, found = self.spent, self.filtered, 0
        more = filtered.after(entry.draws, entry.cost).units - filtered.units
        while found < MOST_ROOM:
            total, filtered = total + entry.cost, Filter(filtered.alpha, filtered.units + more)
            if not self.budget.admits(total, self.unit, filtered):
                break
            found += 1
        return found


def _check_cells(*, whole: Iterable[Any], texts: Iterable[Any]) -> None:
    """SQLite keeps a text in a column of numbers, if it is told to; and no amount is below 0.

    Raises:
        TypeError: a cell holds what was never written.
    """
    counts = all(type(cell) is int and cell >= 0 for cell in whole)
    if not (counts and all(isinstance(cell, str) for cell in texts)):
        raise TypeError


@row_decoding()
def cap_of(connection: sa.Connection, dataset: str) -> PrivacyBudget | None:
    """The dataset's cap, if it has one; the smaller of all that it ever had, where lost entries were recovered."""
    row = connection.execute(CAP, {"dataset": dataset}).one_or_none()
    if row is None:
        return None
    relation = NeighboringRelation(row.relation)
    _check_cells(whole=(row.epsilon_units, row.delta_units), texts=row.accepts)
    cap = PrivacyBudget(dataset, row.epsilon_units, row.delta_units, relation, tuple(row.accepts), row.public)
    for other in facts_about(connection, dataset, CAP_FACT).values():
        epsilon, delta = other["epsilon_units"], other["delta_units"]
        _check_cells(whole=(epsilon, delta), texts=())
        cap = replace(
            cap,
            epsilon_units=min(cap.epsilon_units, epsilon),
            delta_units=min(cap.delta_units, delta),
            public=False,
        )
    return cap


@row_decoding()
def spent_of(connection: sa.Connection, dataset: str) -> tuple[Total, frozenset[PrivacyUnit], int]:
    """Everything reserved on the dataset, whom it protects, how many charges; summed by the database, exactly."""
    total, units, charges = NOTHING, set(), 0
    for unit, count, without, *sums in connection.execute(SPENT, {"dataset": dataset}):
        _check_cells(whole=[bound or 0 for bound in sums[6:]], texts=())
        epsilon, delta, rho = (int(sums[i] or 0) * HALF + int(sums[i + 1] or 0) for i in (0, 2, 4))
        total += Total(None if without else epsilon, delta, rho)
        units.add(PrivacyUnit(unit))
        charges += count
    return total, frozenset(units), charges


@row_decoding()
def sealed_totals(writer: Writer, dataset: str) -> Totals:
    """What admission uses of a dataset, as its newest entry carries it, once the tables were found to say the same.

    So a raised cap, a spend that was made smaller, however old, a row that was put in or taken out, are refused
    before a study is admitted. What is not looked at here `dpbo budget verify` finds.

    Args:
        writer: of the transaction that will charge.
        dataset: whose cap pays.

    Raises:
        LedgerDamaged: the tables say something else, or the history since the dataset's newest entry is not whole.
    """
    sealed = writer.totals_of(dataset)
    cap = writer.connection.execute(CAP, {"dataset": dataset}).one_or_none()
    spent, units, charges = spent_of(writer.connection, dataset)
    told = {
        "the cap": (None if cap is None else cap_in(cap._asdict()), sealed.cap),
        "the number of charges": (charges, sealed.charges),
        "what is spent": (spent, sealed.spent),
        "the unit of what is spent": ({unit.value for unit in units}, sealed.units),
        "what its owner approved": (facts_hash(writer.facts_of(dataset)), sealed.facts),
    }
    others = [what for what, (in_tables, in_history) in told.items() if in_tables != in_history]
    if others:
        raise writer.differs(f"{' and '.join(others)} of dataset {dataset!r} is not what its history sealed")
    return sealed


@row_decoding()
def draws_of(connection: sa.Connection, dataset: str) -> Counter[Draw]:
    """How many draws of each price are reserved on the dataset."""
    query = sa.select(RESERVATIONS.c.spends).where(RESERVATIONS.c.dataset == dataset)
    return Counter(draw for spends in connection.scalars(query) for draw in draws_in(spends))


def _recorded_of(connection: sa.Connection, reservations: list[int]) -> dict[int, list[str]]:
    """Reservation → what it recorded.

    Raises:
        TypeError: a cell holds what was never written.
    """
    query = sa.select(DRAWS.c.reservation, DRAWS.c.what).where(DRAWS.c.reservation.in_(reservations))
    found: dict[int, list[str]] = {}
    for reservation, what in connection.execute(query) if reservations else ():
        _check_cells(whole=(reservation,), texts=(what,))
        found.setdefault(reservation, []).append(what)
    return found


def account_of(connection: sa.Connection, budget: PrivacyBudget) -> Account:
    """The whole account of a cap's dataset; for inside `row_decoding`, as every cell is checked.

    Raises:
        TypeError: a cell holds what was never written.
    """
    dataset = budget.dataset
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
    recorded = _recorded_of(connection, [row.id for row in rows if row.released_at is None])
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
            draws=draws_in(row.spends),
            recorded=tuple(recorded.get(row.id, ())),
        )
        for row in rows
    )
    opened = connection.execute(CAP, {"dataset": dataset}).one()
    filtered = filter_of(opened._asdict())
    for entry in entries:
        filtered = filtered.after(entry.draws, entry.cost)
    spent, units, _ = spent_of(connection, dataset)
    unit = next(iter(units), None) if len(units) == 1 else None
    records, approvals = records_of(connection, dataset), approvals_of(connection, dataset)
    return Account(budget, spent, entries, unit, records, approvals, filtered)


@dataclass(frozen=True)
class Balance:
    """An account just after one of its studies was reserved.

    Attributes:
        position: which study of the dataset this is, from 1.
        entry: the study.
        spent: ε of everything reserved so far, by its draws as they were; may be infinite.
        limit: the cap's ε; infinite for a dataset declared public.
    """

    position: int
    entry: Entry
    spent: float
    limit: float

    @property
    def remaining(self) -> float:
        """ε still free, at least 0."""
        return max(0.0, self.limit - self.spent) if self.spent < float("inf") else 0.0

    @property
    def share(self) -> float:
        """Share of the cap that is spent, in [0, 1]; 0 for a dataset declared public."""
        return 0.0 if self.limit == float("inf") else min(1.0, self.spent / self.limit)


def balances(account: Account) -> Iterator[Balance]:
    """The account after each of its studies, oldest first."""
    budget, draws, only = account.budget, Counter[Draw](), 0
    limit = float("inf") if budget.public else from_units(budget.epsilon_units)
    for position, entry in enumerate(account.entries, start=1):
        draws.update(entry.draws)
        only += entry.cost.delta_units
        yield Balance(position, entry, together(draws, only, budget.delta_conversion)[0], limit)


def balance_after(account: Account, release_id: str) -> Balance | None:
    """The account just after the study that gave `release_id`; None if the account does not know it."""
    return next((item for item in balances(account) if item.entry.release_id == release_id), None)
