"""Whose cap pays for a dataset, and how a cap is opened: by its owner, or as one run of a name with fields."""

from dataclasses import asdict, replace

from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.errors import NoBudget, PolicyRefused
from dpbo_core.ledger import approvals
from dpbo_core.ledger.accounts import cap_of
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.reservation import utc_now
from dpbo_core.ledger.schema import DATASETS
from dpbo_core.ledger.sources import Source
from dpbo_core.ledger.writer import Writer


def no_budget(dataset: str) -> NoBudget:
    """The message for a dataset without a cap."""
    return NoBudget(
        f"dataset {dataset!r} has no privacy budget, so nothing may be spent on it",
        cause="this is its first study",
        remedy=f"add [budget] to the study, or: dpbo budget set {dataset} --epsilon 5 --delta 1e-5",
    )


def account_for(
    writer: Writer,
    dataset: str,
    opening: PrivacyBudget | None,
    sources: tuple[Source, ...],
    caller: Caller = Caller.OWNER,
) -> tuple[str, PrivacyBudget | None]:
    """Whose cap pays for the dataset, and the cap: opened now if the owner asks, or served it under a template."""
    account = approvals.account_named(writer.connection, dataset)
    budget = cap_of(writer.connection, account)
    if budget is not None:
        return account, budget
    served = approvals.template_of(writer.connection, dataset, sources)
    if served is not None:
        template, approved = served
        owners = cap_of(writer.connection, template)
        if owners is None:  # its sources stand under its cap
            raise no_budget(template)
        budget = replace(owners, dataset=dataset)
        open_cap(writer, budget)
        for item in approved:
            approvals.write_source(writer, item)
    elif opening is not None:
        if caller is not Caller.OWNER:
            raise PolicyRefused(
                f"dataset {dataset!r} has no cap, and a run that Prefect started cannot open one",
                cause="whoever may start runs is not whoever answers for the data",
                remedy=f"its owner runs the study once with dpbo tune, or: dpbo budget set {dataset} --epsilon 5 "
                "--delta 1e-5",
            )
        open_cap(writer, opening)
        budget = opening
    return dataset, budget


def open_cap(writer: Writer, budget: PrivacyBudget) -> None:
    """Write a new cap.

    Raises:
        PolicyRefused: its name is a member's of a group.
    """
    account = approvals.account_named(writer.connection, budget.dataset)
    if account != budget.dataset:
        raise PolicyRefused(
            f"dataset {budget.dataset!r} is in the group {account!r}, whose cap pays for it",
            cause="a second cap would be a second budget for the same people",
            remedy=f"leave it as it is: dpbo budget {account} shows the account",
        )
    row = asdict(budget) | {"name": budget.dataset, "accepts": list(budget.accepts), "opened_at": utc_now()}
    del row["dataset"]
    row["relation"] = budget.relation.value
    writer.write(DATASETS, row)
