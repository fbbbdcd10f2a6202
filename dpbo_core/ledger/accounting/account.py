"""A dataset's account: its cap, what is spent of it, its history, and the totals that its history seals.

`Account` is the whole, with an `Entry` a study and the `Balance` after each. `PrivacyBudget` is the cap, in the
parts that admission compares with what is spent:

| symbol | name here | meaning |
|---|---|---|
| ε, δ | `epsilon_units`, `delta_units` | the cap, in 10⁻¹², as people typed it |
| δ_x | `delta_only_units` | the part kept for spends that are only (ε, δ); 0 unless an assumption needs them |
| δ_z | `delta_conversion` | the part at which zCDP is converted, fixed at opening |
| ρ* | `largest_rho` | the largest ρ whose conversion at δ_z is at most ε, rounded down |

Admit iff Σδ_i ≤ δ_x and (Σr_i ≤ ρ*, or no draw is Gaussian and Σε_i ≤ ε), with r_i of `Filter`. On a path
admitted by pure ε alone the loss never exceeds ε; the rest is bounded by δ_z at one fixed order, so the rule is
sound for spends chosen adaptively.

Where the guarantees are about training records, δ_x = δ and δ_z = 0: every spend there is pure or only (ε, δ), and
(Σε_i, Σδ_i) is basic composition. A cap holds guarantees of one unit only, and which one its first spend decides
before anything was drawn, so this split too is fixed before there is anything to protect. (A split that changed
later, or lent δ_z to δ_x on some paths, would be unsound: an adversary crosses over where the conversion can no
longer fail.)

`Totals` is what admission uses of an account,
in one small value that every entry of the history about the dataset carries:

| total | from which rows |
|---|---|
| `cap` | its row in `datasets` |
| `charges`, `spent`, `units`, `person` | of the reservations: number, sums, units, the column of persons |
| `filter` | of the reservations' draws, at the order that the cap's row fixed |
| `facts` | SHA-256 of the sorted hashes of its rows in `dataset_facts`, without those of `STUDY_FACTS` |

An entry's totals follow from those of the dataset's entry before it and the row it writes. They are never read from
the tables, so that what somebody changed there is never sealed.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from dpbo_core.ledger.accounting.composition import (
    NOT_FILTERED,
    ZERO_TOTAL,
    Draw,
    Filter,
    Total,
    compose_all,
    draws_in,
)
from dpbo_core.privacy.amounts import allowed_units, from_units
from dpbo_core.privacy.guarantee import NeighboringRelation, PrivacyUnit

NEEDS_ONLY_DELTA = frozenset({"gp_prior", "de_freitas_constants", "charge_fixed_beforehand"})
REPORT_SUFFIX = "/evaluation"  # after a study's name, in the name of its evaluation
MAX_COUNTED_ROOM = 10_000  # studies: more room than that is not counted
CAP_FIELDS = ("accepts", "delta_units", "epsilon_units", "public", "relation")
LEARNED, ASKED_FACT, OPENED, TAKEN_OVER = "learned", "asked_by", "opened", "taken_over"
STUDY_FACTS = (LEARNED, ASKED_FACT, OPENED, TAKEN_OVER)  # facts of a study, of which no total depends on any
LEDGER_ENTRY = ""  # of an entry about the ledger itself
DECLARED_METHOD = "declared"  # the method of a spend that was made elsewhere
DECLARED_STANDING = "as declared by CALLER, not checked by dpbo"


@dataclass(frozen=True)
class PrivacyBudget:
    """One dataset's cap. It never changes; `public` means there is nothing to protect and no limit."""

    dataset: str
    epsilon_units: int
    delta_units: int
    relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE
    accepts: tuple[str, ...] = ()
    public: bool = False

    @classmethod
    def of(
        cls,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        relation: NeighboringRelation = NeighboringRelation.REPLACE_ONE,
        accepts: tuple[str, ...] = (),
    ) -> "PrivacyBudget":
        """Return a dataset's budget cap from the ε and δ that a person typed, rounded down to 10⁻¹²."""
        return cls(dataset, allowed_units(epsilon), allowed_units(delta), relation, tuple(sorted(set(accepts))))

    @classmethod
    def without_limit(cls, dataset: str) -> "PrivacyBudget":
        """Return the budget cap of a dataset declared public, which limits nothing."""
        return cls(dataset, 0, 0, public=True)

    @property
    def delta_only_units(self) -> int:
        """The part of δ, in 10⁻¹², for draws that are only (ε, δ)-private: half if the cap accepts them, else 0."""
        return self.delta_units // 2 if NEEDS_ONLY_DELTA & set(self.accepts) else 0

    @property
    def delta_conversion(self) -> float:
        """Return δ_z, the part of the cap's δ at which the summed zCDP costs ρ are converted to an ε."""
        return self.conversion_for(None)

    def conversion_for(self, unit: PrivacyUnit | None) -> float:
        """Return δ_z, or 0 for guarantees about training records, whose costs are only summed as (ε, δ)."""
        if unit is PrivacyUnit.TRAINING_RECORD:
            return 0.0
        return from_units(self.delta_units - self.delta_only_units)

    def admits(self, total: Total, unit: PrivacyUnit | None, filtered: Filter) -> bool:
        """Return whether the cap admits a dataset's spends, the new query's among them: `total` is their sum,
        `filtered` that of their Rényi prices, at the order fixed when the cap was opened. Always if public.
        """
        if self.public:
            return True
        pure = total.epsilon_units is not None and total.epsilon_units <= self.epsilon_units
        if unit is PrivacyUnit.TRAINING_RECORD:
            return pure and total.delta_units <= self.delta_units
        if total.delta_units > self.delta_only_units:
            return False
        return pure or filtered.fits(self.epsilon_units, self.delta_conversion)


@dataclass(frozen=True)
class Entry:
    """One study of a dataset's history."""

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
    cost: Total  # its whole plan, in the ledger's unit
    draws: tuple[Draw, ...] = ()  # the price of each draw of that plan
    recorded: tuple[str, ...] = ()  # names of the draws that it recorded so far, while it has not released
    # who charged it: the owner's account, or the creator, deployment and host of a flow run; "" of old
    asked_by: str = ""
    taken_over: bool = False  # whether a corrected study took over what it had paid for

    @property
    def declared(self) -> bool:
        """Whether it is a spend of another tool, at the price that its caller declared."""
        return self.method == DECLARED_METHOD

    @property
    def moment(self) -> datetime:
        """When the study was charged, UTC."""
        moment = datetime.fromisoformat(self.reserved_at)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Account:
    """A dataset's cap, what is spent of it, and its history."""

    budget: PrivacyBudget
    spent: Total
    entries: Sequence[Entry]
    unit: PrivacyUnit | None = None  # whom its guarantees protect; None before any
    records: tuple[int, ...] = ()  # the k of its spends; none before the first
    filtered: Filter = NOT_FILTERED  # its draws at the order that admission uses

    @classmethod
    def opened(cls, cap: PrivacyBudget) -> Self:
        """Return the account of a cap that was opened just now: nothing is spent."""
        return cls(cap, ZERO_TOTAL, (), filtered=Filter.of(cap.epsilon_units, cap.delta_conversion))

    @property
    def sum_of_entries(self) -> float:
        """The sum of the ε that the guarantees state; Gaussian noise composes to less (`spent_epsilon`)."""
        return sum(entry.epsilon or 0.0 for entry in self.entries if not entry.taken_over)

    @property
    def draws(self) -> Counter[Draw]:
        """How many draws are charged at each price (ε or None, ρ), in 10⁻¹²."""
        return Counter(draw for entry in self.entries for draw in entry.draws)

    @property
    def spent_epsilon(self) -> tuple[float, float]:
        """The (ε, δ) of all charged draws, also of those not made yet, by the cheaper composition: for display."""
        return compose_all(self.draws, self.spent.delta_units, self.budget.conversion_for(self.unit))

    @property
    def left(self) -> float:
        """The ε of the cap that is not spent, at least 0; infinite for a dataset declared public."""
        if self.budget.public:
            return float("inf")
        return max(0.0, from_units(self.budget.epsilon_units) - self.spent_epsilon[0])

    def report_on(self, study: str, edition: str) -> str:
        """Return NAME:EDITION of the report that was charged for an edition of a study; "" if none was."""
        name = study + REPORT_SUFFIX
        return f"{name}:{edition}" if (name, edition) in {(e.study, e.edition) for e in self.entries} else ""

    @property
    def rooms(self) -> dict[str, int]:
        """By method, how many more studies at its newest price the cap admits if no others run; empty if public."""
        newest = {entry.method: entry for entry in self.entries if entry.draws}  # none of one that took over
        return {} if self.budget.public else {kind: self.room_for(e.cost, e.draws) for kind, e in newest.items()}

    @property
    def editions(self) -> dict[str, int]:
        """By study, how many more editions at its newest price the cap admits if no others run; empty if public."""
        priced = with_reports([entry for entry in self.entries if entry.draws])  # none of one that took over
        newest = {entry.study: entry for entry in priced if not entry.study.endswith(REPORT_SUFFIX)}
        return {} if self.budget.public else {study: self.room_for(e.cost, e.draws) for study, e in newest.items()}

    def room_for(self, cost: Total, draws: Sequence[Draw]) -> int:
        """Return how many more such charges the cap admits if nothing else is charged meanwhile; at most 10,000."""
        total, filtered = self.spent, self.filtered
        more = filtered.after(draws, cost).units - filtered.units
        for count in range(MAX_COUNTED_ROOM):
            total, filtered = total + cost, Filter(filtered.alpha, filtered.units + more)
            if not self.budget.admits(total, self.unit, filtered):
                return count
        return MAX_COUNTED_ROOM


def with_reports(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Yield the entries, each edition's report added to its choice, with which it was charged."""
    study_of = {entry.study: entry.study.removesuffix(REPORT_SUFFIX) for entry in entries}
    choices = {(entry.study, entry.edition) for entry in entries if study_of[entry.study] == entry.study}
    reports = {(study_of[e.study], e.edition): e for e in entries if study_of[e.study] != e.study}
    for entry in entries:
        key = study_of[entry.study], entry.edition
        report = reports.get(key)
        if entry.study == key[0] and report is not None:
            yield replace(entry, cost=entry.cost + report.cost, draws=entry.draws + report.draws)
        elif entry.study == key[0] or key not in choices:
            yield entry


@dataclass(frozen=True)
class Balance:
    """An account just after one of its studies was reserved."""

    position: int  # which study of the dataset this is, from 1
    entry: Entry  # the study
    spent: float  # ε of everything reserved so far, by its draws as they were; may be infinite
    limit: float  # the cap's ε; infinite for a dataset declared public

    @property
    def remaining(self) -> float:
        """The unspent ε of the cap, at least 0: infinite if public, 0 if the spends have no finite ε."""
        return float("inf") if self.limit == float("inf") else max(0.0, self.limit - self.spent)

    @property
    def share(self) -> float:
        """The share of the dataset's cap that is spent, in [0, 1]; 0 for a dataset declared public."""
        return 0.0 if self.limit == float("inf") else min(1.0, self.spent / self.limit)


def balances(account: Account, wanted: Callable[[Entry], bool] = lambda _: True) -> Iterator[Balance]:
    """Yield the balance after each wanted study, oldest first; each costs a composition of all draws until then."""
    budget, draws, only = account.budget, Counter[Draw](), 0
    limit = float("inf") if budget.public else from_units(budget.epsilon_units)
    for position, entry in enumerate(account.entries, start=1):
        draws.update(entry.draws)
        only += entry.cost.delta_units
        if wanted(entry):
            yield Balance(position, entry, compose_all(draws, only, budget.delta_conversion)[0], limit)


def balance_after(account: Account, release_id: str) -> Balance | None:
    """Return the balance just after the study that released `release_id` and its report; None if unknown."""
    place = next((i for i, entry in enumerate(account.entries) if entry.release_id == release_id), None)
    if place is None:
        return None
    last, *later = account.entries[place : place + 2]
    report = account.report_on(last.study, last.edition)
    last = next((entry for entry in later if f"{entry.study}:{entry.edition}" == report), last)
    return next(balances(account, lambda entry: entry is last), None)


@dataclass(frozen=True)
class Totals:
    """A dataset's totals after an entry; the default is a dataset of which nothing was ever written."""

    cap: Mapping[str, Any] | None = None
    charges: int = 0
    spent: Total = ZERO_TOTAL
    units: frozenset[str] = frozenset()
    person: str | None = None
    facts: str | None = None
    filter: Filter = NOT_FILTERED

    def text(self) -> str:
        """Return these totals as the JSON text that a history entry hashes."""
        return canonical(
            {
                "cap": None if self.cap is None else dict(self.cap),
                "charges": self.charges,
                **asdict(self.spent),
                "units": sorted(self.units),
                "person": self.person,
                "facts": self.facts,
                "filter": [self.filter.alpha, self.filter.units],
            }
        )

    @classmethod
    def from_text(cls, text: str) -> "Totals":
        """Return the totals in a text that the method `text` wrote."""
        data = json.loads(text)
        spent = Total(data["epsilon_units"], data["delta_units"], data["rho_units"])
        units, filtered = frozenset(data["units"]), Filter(*data["filter"])
        return cls(data["cap"], data["charges"], spent, units, data["person"], data["facts"], filtered)

    def after(self, about: str, row: Mapping[str, Any], facts: str | None = None) -> "Totals":
        """Return new totals that also count `row` of the table `about`; `facts`: the hash of all, if it is one."""
        if about == "datasets":
            if self.cap is not None:
                raise ValueError("a second cap")
            return replace(self, cap=cap_in(row), filter=filter_of(row))
        if about == "reservations":
            amounts = Total(row["epsilon_units"], row["delta_units"], row["rho_units"])
            return replace(
                self,
                charges=self.charges + 1,
                spent=self.spent + amounts,
                units=self.units | {str(row["unit"])},
                person=self.person if self.charges else row["guarantee"].get("person"),
                filter=self.filter.after(draws_in(row["spends"]), amounts),
            )
        if about == "dataset_facts" and row["about"] not in STUDY_FACTS:
            return replace(self, facts=facts)
        return self


def canonical(row: Any) -> str:
    """A ledger's row as canonical JSON text, with sorted keys and no spaces; ValueError for a NaN or infinity."""
    return json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def cap_in(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the budget cap (ε, δ, relation, accepted assumptions) in a row of the table `datasets`."""
    return {name: row[name] for name in CAP_FIELDS}


def filter_of(cap: Mapping[str, Any]) -> Filter:
    """Return a Rényi filter, which sums spends at one order, for a dataset with this cap before any spend."""
    if cap["public"]:
        return NOT_FILTERED
    budget = PrivacyBudget("", cap["epsilon_units"], cap["delta_units"], accepts=tuple(cap["accepts"]))
    return Filter.of(budget.epsilon_units, budget.delta_conversion)


def facts_hash(rows: Iterable[str]) -> str | None:
    """Return a hash of a dataset's facts in canonical JSON, whatever their order; None if there are none."""
    leaves = sorted(hashlib.sha256(row.encode()).hexdigest() for row in rows)
    return hashlib.sha256("".join(leaves).encode()).hexdigest() if leaves else None


def dataset_of(about: str, row: Mapping[str, Any], reserved: Mapping[int, str]) -> str:
    """Return the dataset of a row of table `about`, "" for the ledger itself; `reserved`: each charge's dataset."""
    if about == "datasets":
        return str(row["name"])
    if about in ("reservations", "dataset_facts"):
        return str(row["dataset"])
    if about in ("draws", "releases"):
        return reserved[row["reservation"]]
    return LEDGER_ENTRY


def replayed(entries: Iterable[tuple[str, str]]) -> Iterator[tuple[str, Totals]]:
    """Yield each history entry's dataset and that dataset's totals after it, from the rows (as JSON) alone."""
    newest: dict[str, Totals] = {}
    facts: dict[str, list[str]] = {}
    reserved: dict[int, str] = {}
    for about, text in entries:
        row = json.loads(text)
        dataset = dataset_of(about, row, reserved)
        if about == "reservations":
            reserved[row["id"]] = dataset
        hash_of_all = None
        if about == "dataset_facts" and row["about"] not in STUDY_FACTS:
            facts.setdefault(dataset, []).append(text)
            hash_of_all = facts_hash(facts[dataset])
        newest[dataset] = newest.get(dataset, Totals()).after(about, row, hash_of_all)
        yield dataset, newest[dataset]
