"""Whether a plan may be charged to a dataset, the message that says why not, and what one edition of a study costs.

The price is said once: `plan`, `tune`, `serve`, `budget` and refusals all show a `Price`.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dpbo_core.errors import (
    AssumptionNotAccepted,
    BudgetExceeded,
    BudgetRefused,
    EvidenceRefuted,
    NoiseNotPrivate,
    StudyChanged,
    StudyInvalid,
)
from dpbo_core.ledger.accounting.account import MAX_COUNTED_ROOM, Account, Entry, PrivacyBudget, Totals
from dpbo_core.ledger.accounting.composition import Draw, Total, compose, compose_all, draws_of_spends
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.guarantee import (
    OPERATING_SYSTEM,
    ROWWISE_PREDICTIONS,
    ROWWISE_REMEDY,
    STATED_BY_CALLING,
    NeighboringRelation,
    PrivacyGuarantee,
    PrivacyUnit,
    unit_in_words,
)
from dpbo_core.privacy.release import PrivacyPlan

SHOWN_TOLERANCE = 0.005  # of ε: amounts that differ by less are one number on a screen


def refusal_text(budget: PrivacyBudget) -> str:
    """Return a dataset's budget cap in a few words, such as "ε = 5, δ = 1e-05, replace_one"."""
    if budget.public:
        return "declared public, no limit"
    words = f"ε = {from_units(budget.epsilon_units):g}, δ = {from_units(budget.delta_units):g}, {budget.relation}"
    return words + (f", accepting {', '.join(budget.accepts)}" if budget.accepts else "")


def another_cap_error(budget: PrivacyBudget) -> StudyInvalid:
    """The error to raise where other numbers are requested than those of `budget`, the cap that the dataset has."""
    return StudyInvalid(
        f"dataset {budget.dataset!r} already has a cap ({refusal_text(budget)}), and caps never change",
        cause="it was opened earlier with other numbers",
        remedy="keep the first cap, or leave [budget] out of the study",
    )


@dataclass(frozen=True)
class Request:
    """A plan as admission judges it."""

    cost: Total
    draws: tuple[Draw, ...]
    guarantee: PrivacyGuarantee
    noise: str  # standing of the noise source
    max_records_per_person: int = 1  # k of the study


def admit(
    budget: PrivacyBudget,
    totals: Totals,
    request: Request,
    *,
    fixed: tuple[int, ...],
    drawn: Callable[[], Counter[Draw]],
) -> None:
    """Refuse, by raising, a plan that the dataset's cap does not admit beside `totals`. Nothing is charged.

    `fixed` is k of the dataset's earlier spends: who has five records pays five times what a study of k = 1 says.
    Where a `person` column enforces k, every guarantee is to the person. `drawn` is for a refusal's text.
    """
    if budget.public:
        return
    name, guarantee = budget.dataset, request.guarantee
    if guarantee.evidence.refuted:
        raise EvidenceRefuted(
            f"the guarantee is known to be false (ε = ∞): {guarantee.evidence.note}",
            cause="the published calibration or transform was requested, which the paper states wrongly",
            remedy='leave it out, or set calibration = "corrected"; to reproduce the paper, use a dataset declared '
            "public (dpbo budget set NAME --public)",
        )
    if request.noise != OPERATING_SYSTEM:
        raise NoiseNotPrivate(
            f"the noise source is {request.noise}, and dataset {name!r} has a finite budget",
            cause="a test's noise source was passed to a real study",
            remedy="leave the noise source out, or use a dataset declared public",
        )
    units = frozenset(map(PrivacyUnit, totals.units))
    if guarantee.relation is not budget.relation or units - {guarantee.unit}:
        raise BudgetRefused(
            f"dataset {name!r} keeps guarantees about {_guarantees(units, budget.relation)}; this study makes "
            f"another kind, about {_guarantees(frozenset((guarantee.unit,)), guarantee.relation)}",
            cause="[privacy] person was added or left out, or the neighbouring relation differs from the cap's",
            remedy="give this kind of guarantee a dataset name and a cap of its own; people in both pay twice",
        )
    missing = sorted(set(guarantee.assumptions) - set(budget.accepts) - STATED_BY_CALLING)
    if missing:
        rowwise = missing == [ROWWISE_PREDICTIONS.name]
        instead = ROWWISE_REMEDY if rowwise else "choose a method and a model that need none"
        raise AssumptionNotAccepted(
            f"the guarantee holds only under {', '.join(missing)}, and the cap of {name!r} was not opened with it",
            cause="conditional guarantees add up with unconditional ones only where the cap did so from the start: "
            "no command adds an assumption to a cap that is open",
            remedy=f"{instead}; for data of other people, open their cap with it: "
            f"dpbo budget set NAME --epsilon E --delta D {' '.join(f'--accept {name}' for name in missing)}",
        )
    refusal = exceeded_error(budget, totals, request, drawn)
    if refusal is not None:
        raise refusal
    if totals.charges and totals.person != guarantee.person:
        raise BudgetRefused(
            f"dataset {name!r} keeps guarantees to the persons of column {totals.person!r}; "
            f"this study's persons are those of column {guarantee.person!r}",
            cause="[privacy] person names another column than the dataset's earlier studies",
            remedy="name the same column, or give the other persons a dataset name and a cap of their own",
        )
    k = request.max_records_per_person
    if guarantee.unit is not PrivacyUnit.PERSON and fixed and k != fixed[-1]:
        raise BudgetRefused(
            f"dataset {name!r} keeps guarantees to persons of at most {fixed[-1]} records; this study "
            f"has max_records_per_person = {k}",
            cause="the first study of a dataset fixes max_records_per_person, or the account would say less than "
            "the person with the most records pays",
            remedy=f"set max_records_per_person = {fixed[-1]}, or give the others a dataset and a cap of their own",
        )


def admit_first(budget: PrivacyBudget, plan: PrivacyPlan) -> None:
    """Refuse, as `admit` would, a plan that a dataset's new cap does not admit as its first charge."""
    totals = Totals(filter=Account.opened(budget).filtered)
    request = Request(compose(plan.spends), draws_of_spends(plan.spends), plan.guarantee, OPERATING_SYSTEM)
    admit(budget, totals, request, fixed=(), drawn=Counter)


def _guarantees(units: frozenset[PrivacyUnit], relation: NeighboringRelation) -> str:
    named = " and ".join(sorted(unit_in_words(unit) for unit in units) or ["any unit"])
    return f"{named} ({relation.replace('_', ' ')})"


def exceeded_error(
    budget: PrivacyBudget, totals: Totals, request: Request, drawn: Callable[[], Counter[Draw]]
) -> BudgetExceeded | None:
    """Return the error where the cap has no room for the plan, else None; its text counts the draws in `drawn`."""
    guarantee, only = request.guarantee, totals.spent.delta_units
    total, filtered = totals.spent + request.cost, totals.filter.after(request.draws, request.cost)
    if budget.admits(total, guarantee.unit, filtered):
        return None
    delta, before = budget.conversion_for(guarantee.unit), drawn()
    spent_epsilon, _ = compose_all(before, only, delta)
    sum_epsilon, _ = compose_all(before + Counter(request.draws), only + request.cost.delta_units, delta)
    left = max(0.0, from_units(budget.epsilon_units) - spent_epsilon)
    asks = f"ε = {guarantee.epsilon:g}" + (f" at δ = {guarantee.delta:g}" if guarantee.delta > 0 else "")
    sums = f"together ε = {sum_epsilon:.4g}"
    if sum_epsilon == float("inf"):
        sums = "and Gaussian noise needs a cap with δ > 0"
    elif sum_epsilon <= from_units(budget.epsilon_units):
        sums += " by what was drawn, but a cap that is fixed beforehand adds up at one order, where it is more"
    return BudgetExceeded(
        f"dataset {budget.dataset!r}: the limit is {refusal_text(budget)}; spent ε = {spent_epsilon:.4g}; "
        f"ε = {left:.4g} is left; this study asks for {asks}; {sums}",
        cause="the budget is used up (Gaussian and pure spends do not add up by their ε)"
        if totals.charges
        else "one study asks for more than the whole budget",
        remedy="lower epsilon in [privacy] or [evaluation]"
        + ("; an open cap never grows" if totals.charges else ", or raise [budget] where no cap is open yet"),
    )


@dataclass(frozen=True)
class Price:
    """The price of one edition of a study, beside the account that pays for it."""

    account: Account | None  # of the dataset, before the charge; None if no cap is known
    # what is charged together, by its name for people: the choice, and its report if one is requested
    parts: Mapping[str, PrivacyPlan]
    paid: bool = False  # whether exactly this study was charged before: running it again costs nothing
    changed: str = ""  # what differs from the released study of the same name and edition; "" if nothing does

    @property
    def epsilon(self) -> float:
        """The sum of the parts' ε, as their guarantees state them."""
        return sum(plan.guarantee.epsilon for plan in self.parts.values())

    @property
    def delta(self) -> float:
        """The sum of the parts' δ."""
        return sum(plan.guarantee.delta for plan in self.parts.values())

    @cached_property
    def counted(self) -> float | None:
        """The ε by which the account's spent total grows with this charge; None without one, or for public data."""
        account = self.account
        if account is None or account.budget.public or not math.isfinite(self.epsilon):
            return None
        if self.paid:
            return 0.0
        only, delta = account.spent.delta_units + self._cost.delta_units, account.budget.conversion_for(self._unit)
        after = compose_all(account.draws + Counter(self._draws), only, delta)
        return after[0] - account.spent_epsilon[0]

    @property
    def left(self) -> float | None:
        """The ε of the cap that is left once this is charged, at least 0; None as `counted`."""
        if self.account is None or self.counted is None:
            return None
        return max(0.0, self.account.left - self.counted)

    @cached_property
    def more(self) -> int | None:
        """How many further editions fit afterwards, at most 10,000; None as `counted`, or for a report alone."""
        if self.account is None or self.counted is None or [*self.parts] == ["report"]:
            return None
        account = replace(self.account, unit=self._unit)  # before its first spend an account has none
        return max(0, account.room_for(self._cost, self._draws) - (not self.paid))

    @cached_property
    def refusal(self) -> BudgetExceeded | None:
        """The error that a charge would raise for lack of room; None if there is room, or it is paid for."""
        account = self.account
        if account is None or account.budget.public or self.paid or not math.isfinite(self.epsilon):
            return None
        guarantee = replace(next(iter(self.parts.values())).guarantee, epsilon=self.epsilon, delta=self.delta)
        totals = Totals(charges=len(account.entries), spent=account.spent, filter=account.filtered)
        request = Request(self._cost, self._draws, guarantee, OPERATING_SYSTEM)
        return exceeded_error(account.budget, totals, request, lambda: account.draws)

    def account_after(self) -> Account | None:
        """The account after the charge; as it is if the edition is paid for, or the charge would be refused."""
        account = self.account
        if account is None or self.paid or self.refusal is not None:
            return account
        cost, guarantee = self._cost, next(iter(self.parts.values())).guarantee
        entry = Entry(
            *("", "", "", self.epsilon, self.delta, from_units(cost.rho_units), guarantee.assumptions, ""),
            released_at=None,
            release_id=None,
            cost=cost,
            draws=self._draws,
        )
        return replace(
            account,
            spent=account.spent + cost,
            entries=(*account.entries, entry),
            unit=guarantee.unit,
            filtered=account.filtered.after(self._draws, cost),
        )

    @property
    def change(self) -> StudyChanged | None:
        """Return the error for a changed study whose name and edition were released before; else None."""
        if not self.changed:
            return None
        return StudyChanged(
            f"this edition was already released, with {self.changed}; the changed study spends {self.sums} more",
            cause="the study file was changed after its release",
            remedy="give the study a new edition, change it back, or run dpbo tune --new-spend",
        )

    @property
    def sums(self) -> str:
        """What its parts cost together, as text."""
        total = f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.delta else "")
        if [*self.parts] == ["choice"]:
            return total
        each = " + ".join(f"{plan.guarantee.epsilon:g} ({name})" for name, plan in self.parts.items())
        return f"{total}: {each}"

    @property
    def afterwards(self) -> str:
        """The account's growth, what is left, and how many more editions fit, as text; "" if refused or unknown."""
        if self.account is None or self.counted is None or self.left is None:
            return ""
        if self.paid:
            return f"already charged: running it again costs nothing, and {self.left:.3g} is left"
        if self.refusal is not None:
            return ""
        differs = abs(self.counted - self.epsilon) > SHOWN_TOLERANCE * self.epsilon
        counts = f"counts as ε = {self.counted:.3g} in the account; " if differs else ""
        limit = from_units(self.account.budget.epsilon_units)
        more = "" if self.more is None else f"; {room_text(self.more)}"
        return f"{counts}leaves {self.left:.3g} of {limit:g}{more}"

    def to_json(self) -> dict[str, Any]:
        """Return the price as the object "price" of `dpbo plan --json`."""
        stated = {name: plan.guarantee.epsilon for name, plan in self.parts.items()}
        return {
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else None,
            "delta": self.delta,
            "parts": {name: epsilon if math.isfinite(epsilon) else None for name, epsilon in stated.items()},
            "counted": self.counted,
            "left": self.left,
            "more": self.more,
        }

    @property
    def _cost(self) -> Total:
        return compose(spend for plan in self.parts.values() for spend in plan.spends)

    @property
    def _draws(self) -> tuple[Draw, ...]:
        return draws_of_spends(spend for plan in self.parts.values() for spend in plan.spends)

    @property
    def _unit(self) -> PrivacyUnit:
        return next(iter(self.parts.values())).guarantee.unit


def room_text(more: int) -> str:
    """Return how many more editions fit, as text."""
    number = f"{more:,}" if more < MAX_COUNTED_ROOM else f"{MAX_COUNTED_ROOM:,} or"
    return f"{number} more {'edition fits' if more == 1 else 'editions fit'}" if more else "no further edition fits"
