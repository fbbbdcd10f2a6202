"""What was left of a budget after each of its studies: the numbers of a burn-down."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dpbo_core.accounting.accounts import Account, Entry
from dpbo_core.accounting.renyi_filter import Draw, together
from dpbo_core.privacy.amounts import from_units


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
