"""Whether a plan may be charged to a dataset, and the message that says why not."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from dpbo_core.errors import (
    AssumptionNotAccepted,
    BudgetExceeded,
    BudgetRefused,
    EvidenceRefuted,
    NoiseNotPrivate,
    StudyInvalid,
)
from dpbo_core.ledger.accounting.account import Account, Totals
from dpbo_core.ledger.accounting.budget import PrivacyBudget
from dpbo_core.ledger.accounting.composition import Draw, Total, compose, compose_all
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

    cost: Total  # its total
    draws: tuple[Draw, ...]  # its draws, each at its price
    guarantee: PrivacyGuarantee  # its guarantee
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
    """Refuse, by raising, a plan that the dataset's cap does not admit. Nothing is charged.

    Args:
        budget: the dataset's cap.
        totals: everything reserved on it so far.
        request: the plan.
        fixed: k of the dataset's earlier spends; none before the first. Who has five records pays five times what
            a study of k = 1 says; where a `person` column enforces k, every guarantee is to the person.
        drawn: everything reserved, each draw, for a refusal to state what it comes to.
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
    account = Account.opened(budget)
    totals = Totals(charges=0, spent=account.spent, filter=account.filtered)
    draws = tuple((spend.epsilon_units, spend.rho_units) for spend in plan.spends)
    request = Request(compose(plan.spends), draws, plan.guarantee, OPERATING_SYSTEM)
    admit(budget, totals, request, fixed=(), drawn=Counter)


def _guarantees(units: frozenset[PrivacyUnit], relation: NeighboringRelation) -> str:
    return (
        " and ".join(sorted(unit_in_words(unit) for unit in units) or ["any unit"])
        + f" ({relation.replace('_', ' ')})"
    )


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
