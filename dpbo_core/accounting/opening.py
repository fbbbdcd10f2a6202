"""Whose cap pays for a dataset, and how a cap is opened: by its owner, or as one run of a name with fields."""

from dataclasses import asdict, replace

from dpbo_core.accounting import approvals, policy
from dpbo_core.accounting.accounts import cap_of
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.accounting.pen import Pen
from dpbo_core.accounting.policy import Use
from dpbo_core.accounting.reservation import utc_now
from dpbo_core.accounting.tables import DATASETS
from dpbo_core.errors import NoBudget


def no_budget(dataset: str) -> NoBudget:
    """The message for a dataset without a cap."""
    return NoBudget(
        f"dataset {dataset!r} has no privacy budget, so nothing may be spent on it",
        cause="this is its first study",
        remedy=f"add [budget] to the study, or: dpbo budget set {dataset} --epsilon 5 --delta 1e-5",
    )


def account_for(
    pen: Pen, dataset: str, opening: PrivacyBudget | None, use: Use
) -> tuple[str, PrivacyBudget | None]:
    """Whose cap pays for the dataset, and the cap: opened now if the owner asks, or served it under a template."""
    account = approvals.account_named(pen.connection, dataset)
    budget = cap_of(pen.connection, account)
    if budget is not None:
        return account, budget
    served = approvals.template_of(pen.connection, dataset, use.sources)
    if served is not None:
        template, sources = served
        owners = cap_of(pen.connection, template)
        if owners is None:  # its sources stand under its cap
            raise no_budget(template)
        budget = replace(owners, dataset=dataset)
        open_cap(pen, budget)
        for item in sources:
            approvals.write_source(pen, item)
    elif opening is not None:
        policy.check_opening(dataset, owner=use.owner)
        open_cap(pen, opening)
        budget = opening
    return dataset, budget


def open_cap(pen: Pen, budget: PrivacyBudget) -> None:
    """Write a new cap.

    Raises:
        PolicyRefused: its name is a member's of a group.
    """
    policy.check_no_member(budget.dataset, approvals.account_named(pen.connection, budget.dataset))
    row = asdict(budget) | {"name": budget.dataset, "accepts": list(budget.accepts), "opened_at": utc_now()}
    del row["dataset"]
    row["relation"] = budget.relation.value
    pen.write(DATASETS, row)
