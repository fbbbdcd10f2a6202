"""A dataset's account in the ledger: its cap is opened here, and read back with its spends and its history.

A row that does not hold what was written there is damage, and says so; what it holds is not repeated.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import sqlalchemy as sa

from dpbo_core.errors import PolicyRefused, no_budget
from dpbo_core.ledger.accounting import admission
from dpbo_core.ledger.accounting.account import (
    ASKED_FACT,
    TAKEN_OVER,
    Account,
    Entry,
    PrivacyBudget,
    Totals,
    cap_in,
    facts_hash,
    filter_of,
)
from dpbo_core.ledger.accounting.composition import ZERO_TOTAL, Draw, Total, draws_in
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.history import NEWEST_QUERY, Writer, row_decoding, utc_now
from dpbo_core.ledger.policy import (
    A_DAY,
    ALLOWED,
    CAP_SET_BY,
    CODE,
    MAX_CALLER_LENGTH,
    PUBLISHED,
    SCORE,
    SHARES,
    SOURCE,
    Approved,
    facts_about,
    largest_epsilon,
    records_of,
    sources_under,
    template_of,
    write_fact,
    write_source,
)
from dpbo_core.ledger.policy import CAP as CAP_FACT
from dpbo_core.ledger.schema import DATASETS, DRAWS, RELEASES, RESERVATIONS
from dpbo_core.ledger.sources import Source
from dpbo_core.privacy.amounts import count_of, from_units, text_of
from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyGuarantee, PrivacyUnit

Reading = Callable[[], AbstractContextManager[sa.Connection]]  # opens a snapshot of the ledger

# Built once: building a statement takes longer than running it, and a reservation is made while others wait.
CAP_QUERY = sa.select(DATASETS).where(DATASETS.c.name == sa.bindparam("dataset"))
AMOUNT_COLUMNS = tuple(RESERVATIONS.c[name] for name in ("epsilon_units", "delta_units", "rho_units"))
PRICES_QUERY = (  # in the index's order: few charges of a dataset have a price of their own
    sa.select(RESERVATIONS.c.unit, *AMOUNT_COLUMNS, sa.func.count())
    .where(RESERVATIONS.c.dataset == sa.bindparam("dataset"))
    .group_by(RESERVATIONS.c.unit, *AMOUNT_COLUMNS)
)
_SPENDS = sa.cast(RESERVATIONS.c.spends, sa.Text)
PLANS_QUERY = (
    sa.select(_SPENDS, sa.func.count()).where(RESERVATIONS.c.dataset == sa.bindparam("dataset")).group_by(_SPENDS)
)
ENTRIES_QUERY = (
    sa.select(
        *(RESERVATIONS.c[name] for name in ("id", "study", "edition", "method", "fingerprint", "reserved_at")),
        *AMOUNT_COLUMNS,
        *(sa.cast(RESERVATIONS.c[name], sa.Text).label(name) for name in ("guarantee", "spends")),
        RELEASES.c.released_at,
    )
    .join(RELEASES, isouter=True)
    .where(RESERVATIONS.c.dataset == sa.bindparam("dataset"))
    .order_by(RESERVATIONS.c.id)
)
UNRELEASED_QUERY = (
    sa.select(DRAWS.c.reservation, DRAWS.c.what)
    .join(RESERVATIONS)
    .where(
        RESERVATIONS.c.dataset == sa.bindparam("dataset"),
        DRAWS.c.reservation.not_in(sa.select(RELEASES.c.reservation)),
    )
)


@dataclass(frozen=True)
class DatasetAccount(Account):
    """The account of a dataset with everything that its owner approved."""

    sources: tuple[Approved, ...] = ()  # what it may be scored on
    published: tuple[str, ...] = ()  # the files whose records are public as the owner states
    shares: tuple[str, ...] = ()  # other datasets that the same people pay
    largest: int | None = None  # ε in 10⁻¹² of a study that Prefect starts; None for no limit
    scores: tuple[str, ...] = ()  # import paths of the functions that its studies may be scored by
    readable: tuple[str, ...] = ()  # training files and saved models that studies which Prefect starts may read
    estimators: tuple[str, ...] = ()  # import paths that they may name
    a_day: int | None = None  # ε in 10⁻¹² of all charges of a day, where Prefect starts the last; None for no limit
    opened_at: str = ""  # when its cap was set, UTC; "" of one that is not recorded
    cap_set_by: str = ""  # whose account set it; "" where that is not recorded

    @property
    def draws(self) -> Counter[Draw]:
        """How many draws there are at each price; counted by the database where no study was read."""
        counted = self.entries.draws if isinstance(self.entries, StoredEntries) else None
        return super().draws if counted is None else counted


@row_decoding()
def cap_of(connection: sa.Connection, dataset: str) -> PrivacyBudget | None:
    """Return the dataset's cap, or None; the smallest one recorded, if a recovery of lost entries added others."""
    row = connection.execute(CAP_QUERY, {"dataset": dataset}).one_or_none()
    if row is None:
        return None
    relation, accepts = NeighboringRelation(row.relation), tuple(map(text_of, row.accepts))
    epsilon, delta = count_of(row.epsilon_units), count_of(row.delta_units)
    cap = PrivacyBudget(dataset, epsilon, delta, relation, accepts, row.public)
    for other in facts_about(connection, dataset, CAP_FACT).values():
        epsilon = min(cap.epsilon_units, count_of(other["epsilon_units"]))
        delta = min(cap.delta_units, count_of(other["delta_units"]))
        cap = replace(cap, epsilon_units=epsilon, delta_units=delta, public=False)
    return cap


@row_decoding()
def spent_of(connection: sa.Connection, dataset: str) -> tuple[Total, frozenset[PrivacyUnit], int]:
    """Return the sums of a dataset's charges (ε None if one has none), their privacy units and their number."""
    total, units, charges = ZERO_TOTAL, set(), 0
    for unit, epsilon, delta, rho, count in connection.execute(PRICES_QUERY, {"dataset": dataset}):
        pure = None if epsilon is None else count_of(epsilon) * count
        total += Total(pure, count_of(delta) * count, count_of(rho) * count)
        units.add(PrivacyUnit(unit))
        charges += count
    return total, frozenset(units), charges


@row_decoding()
def check_sealed(writer: Writer, dataset: str) -> None:
    """Refuse a ledger whose tables disagree with what the dataset's newest history entry states: a raised cap, a
    reduced spend, an inserted or deleted row. `dpbo budget verify` checks the rest.
    """
    sealed = writer.totals_of(dataset)
    cap = writer.connection.execute(CAP_QUERY, {"dataset": dataset}).one_or_none()
    spent, units, charges = spent_of(writer.connection, dataset)
    compared = {
        "the cap": (None if cap is None else cap_in(cap._asdict()), sealed.cap),
        "the number of charges": (charges, sealed.charges),
        "what is spent": (spent, sealed.spent),
        "the unit of what is spent": ({unit.value for unit in units}, sealed.units),
        "what its owner approved": (facts_hash(writer.facts_of(dataset)), sealed.facts),
    }
    others = [what for what, (in_tables, in_history) in compared.items() if in_tables != in_history]
    if others:
        raise writer.differs(f"{' and '.join(others)} of dataset {dataset!r} is not what its history sealed")


@row_decoding()
def draws_of(connection: sa.Connection, dataset: str) -> Counter[Draw]:
    """Return how many noise draws the dataset was charged for at each price (ε or None, ρ), in 10⁻¹²."""
    draws = Counter[Draw]()
    for spends, count in connection.execute(PLANS_QUERY, {"dataset": dataset}):
        draws.update({draw: n * count for draw, n in Counter(draws_in(json.loads(spends))).items()})
    return draws


@lru_cache(maxsize=1024)  # most charges of a dataset share a few plans
def _plan_in(guarantee: str, spends: str) -> tuple[PrivacyGuarantee, tuple[Draw, ...]]:
    return PrivacyGuarantee.from_json(json.loads(guarantee)), draws_in(json.loads(spends))


def _entry(row: Any, recorded: tuple[str, ...], asked_by: str, *, taken_over: bool) -> Entry:
    guarantee, draws = _plan_in(row.guarantee, row.spends)
    pure = None if row.epsilon_units is None else count_of(row.epsilon_units)
    return Entry(
        study=text_of(row.study),
        edition=text_of(row.edition),
        method=text_of(row.method),
        epsilon=None if guarantee.epsilon == math.inf else guarantee.epsilon,
        delta=guarantee.delta,
        rho=from_units(count_of(row.rho_units)),
        assumptions=guarantee.assumptions,
        reserved_at=text_of(row.reserved_at),
        released_at=None if row.released_at is None else text_of(row.released_at),
        release_id=None if row.released_at is None else text_of(row.fingerprint)[:16],
        cost=Total(pure, count_of(row.delta_units), row.rho_units),
        draws=draws,
        recorded=recorded,
        asked_by=asked_by,
        taken_over=taken_over,
    )


class StoredEntries(Sequence[Entry]):
    """A dataset's studies, oldest first, which are read from the ledger when one of them is asked for."""

    def __init__(self, dataset: str, state: tuple[int, str], reading: Reading) -> None:
        """`state`: the number of studies, and the hash of the newest entry of the dataset's history."""
        self._dataset, self.state, self._reading = dataset, state, reading

    def __len__(self) -> int:
        return self.state[0]

    def __getitem__(self, position: Any) -> Any:
        return self._entries[position]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and (*self,) == (*other,)

    def __hash__(self) -> int:
        return hash((self._dataset, self.state))

    def __repr__(self) -> str:
        return repr((*self,))

    @cached_property
    def _entries(self) -> tuple[Entry, ...]:
        with self._reading() as connection, row_decoding():
            return _entries_of(connection, self._dataset)[: len(self)]  # without those that came meanwhile

    @cached_property
    def draws(self) -> Counter[Draw] | None:
        """How many draws there are at each price; None if more were charged meanwhile."""
        if "_entries" in self.__dict__:
            return None
        with self._reading() as connection:
            same = spent_of(connection, self._dataset)[2] == len(self)
            return draws_of(connection, self._dataset) if same else None


def _entries_of(connection: sa.Connection, dataset: str) -> tuple[Entry, ...]:
    rows = connection.execute(ENTRIES_QUERY, {"dataset": dataset}).all()
    recorded: dict[int, tuple[str, ...]] = {}  # of studies that have not released
    for number, what in connection.execute(UNRELEASED_QUERY, {"dataset": dataset}):
        recorded[count_of(number)] = (*recorded.get(number, ()), text_of(what))
    callers = {item: text_of(value["by"]) for item, value in facts_about(connection, dataset, ASKED_FACT).items()}
    taken = facts_about(connection, dataset, TAKEN_OVER)
    return tuple(
        _entry(row, recorded.get(row.id, ()), callers.get(row.fingerprint, ""), taken_over=row.fingerprint in taken)
        for row in rows
    )


def account_of(
    connection: sa.Connection, budget: PrivacyBudget, reading: Reading, cache: dict[str, StoredEntries]
) -> DatasetAccount:
    """Return the account of the dataset with this cap, by sums that an index holds; its studies are read by
    `reading` when they are asked for, and kept in `cache` until the dataset's history has another entry. Call it
    inside `row_decoding`, which turns the errors of damaged cells into `LedgerDamaged`.
    """
    dataset = budget.dataset
    opened = connection.execute(CAP_QUERY, {"dataset": dataset}).one()
    spent, units, charges = spent_of(connection, dataset)
    newest = connection.execute(NEWEST_QUERY, {"dataset": dataset}).one_or_none()
    filtered = filter_of(opened._asdict()) if newest is None else Totals.from_text(newest.totals).filter
    state = (charges, "" if newest is None else newest.hash)
    if dataset not in cache or cache[dataset].state != state:
        cache[dataset] = StoredEntries(dataset, state, reading)
    entries = cache[dataset] if charges else ()
    unit = next(iter(units), None) if len(units) == 1 else None
    records = records_of(connection, dataset)
    sources, published, readable = (
        tuple(item for item in sources_under(connection, heading) if item.dataset == dataset)
        for heading in (SOURCE, PUBLISHED, ALLOWED)
    )
    shares, scores, estimators = (
        tuple(sorted(facts_about(connection, dataset, heading))) for heading in (SHARES, SCORE, CODE)
    )
    return DatasetAccount(
        *(budget, spent, entries, unit, records, filtered, sources),
        published=tuple(sorted({item.source.name for item in published})),
        shares=shares,
        largest=largest_epsilon(connection, dataset),
        scores=scores,
        readable=tuple(sorted({item.source.name for item in readable})),
        estimators=estimators,
        a_day=largest_epsilon(connection, dataset, A_DAY),
        opened_at=text_of(opened.opened_at),
        cap_set_by=", ".join(facts_about(connection, dataset, CAP_SET_BY)),
    )


def dataset_with_cap(
    writer: Writer,
    name: str,
    cap: PrivacyBudget | None,
    sources: tuple[Source, ...],
    caller: Caller = Caller.OWNER,
    *,
    set_by: str = "",
) -> PrivacyBudget | None:
    """Return the dataset's budget cap, opened now if need be; None if there is none.

    A dataset without a cap gets that of the name pattern which it matches. Without one, the owner, and no operator,
    opens `cap`, as `set_by`. A `cap` other than the dataset's own is refused.
    """
    check_sealed(writer, name)
    budget = cap_of(writer.connection, name)
    served = None if budget is not None else template_of(writer.connection, name, sources)
    if served is not None:
        template, approved = served
        owners = cap_of(writer.connection, template)
        if owners is None:  # its sources stand under its cap
            raise no_budget(template)
        budget = replace(owners, dataset=name)
        open_cap(writer, budget, set_by="".join(facts_about(writer.connection, template, CAP_SET_BY)))
        for item in approved:
            write_source(writer, SOURCE, item, {})
    elif budget is None and cap is not None:
        if caller is not Caller.OWNER:
            raise cap_refusal(name)
        open_cap(writer, cap, set_by)
        budget = cap
    if budget is not None and cap is not None:
        same = (budget.epsilon_units, budget.delta_units) == (cap.epsilon_units, cap.delta_units)
        if budget.public or not same:
            raise admission.another_cap_error(budget)
    return budget


def cap_refusal(name: str) -> PolicyRefused:
    """Return the error for a dataset without a budget cap, raised in a run that Prefect started."""
    return PolicyRefused(
        f"dataset {name!r} has no cap, and a run that Prefect started cannot open one",
        cause="a person who may start runs need not be the data owner",
        remedy=f"its owner runs the study once with dpbo tune, or: dpbo budget set {name} --epsilon 5 --delta 1e-5 "
        f"--file VALIDATION, and dpbo budget allow {name} TRAINING --as training",
    )


def open_cap(writer: Writer, budget: PrivacyBudget, set_by: str = "") -> None:
    """Write a dataset's new budget cap into the table `datasets`, and who set it, "" where nobody is named."""
    row = asdict(budget) | {"name": budget.dataset, "accepts": list(budget.accepts), "opened_at": utc_now()}
    del row["dataset"]
    writer.write(DATASETS, row | {"relation": budget.relation.value})
    if set_by:
        write_fact(writer, budget.dataset, CAP_SET_BY, set_by[:MAX_CALLER_LENGTH], {})
