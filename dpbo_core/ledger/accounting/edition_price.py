"""What one edition of a study costs, said once: `plan`, `tune`, `serve`, `budget` and refusals all show this.

price = Price(account, {"choice": plan, "report": evaluation})
price.epsilon       the sum of what its parts guarantee
price.counted       by how much the account grows, which is less where Gaussian noise is added up together
price.left          of the cap, once this is charged
price.more          further editions at the same price that still fit then
price.change        the error of a study that was changed after its edition was released; None if it was not
price.refusal       the error that a charge would raise; None if there is room
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dpbo_core.errors import BudgetExceeded, StudyChanged
from dpbo_core.ledger.accounting import admission
from dpbo_core.ledger.accounting.account import MAX_COUNTED_ROOM, Account, Entry, Totals
from dpbo_core.ledger.accounting.composition import Draw, compose, compose_all
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.guarantee import OPERATING_SYSTEM, PrivacyUnit
from dpbo_core.privacy.release import PrivacyPlan

SHOWN_TOLERANCE = 0.005  # of ε: amounts that differ by less are one number on a screen


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
        """Return how much ε the account's spent total grows by when this price is charged; None without an account,
        or for public data.
        """
        if self.account is None or self.account.budget.public or not math.isfinite(self.epsilon):
            return None
        return 0.0 if self.paid else self._spent_after() - self.account.spent_epsilon[0]

    @property
    def left(self) -> float | None:
        """Return the ε of the cap that is left after this price is charged, at least 0; None without an account, or
        for public data.
        """
        if self.account is None or self.counted is None:
            return None
        return max(0.0, self.account.left - self.counted)

    @cached_property
    def more(self) -> int | None:
        """Return how many further editions at this price the cap admits afterwards, at most 10,000; None without an
        account, for public data, or for a report whose choice was charged before.
        """
        if self.account is None or self.counted is None or [*self.parts] == ["report"]:
            return None
        spends = [spend for plan in self.parts.values() for spend in plan.spends]
        account = replace(self.account, unit=self._unit)  # before its first spend an account has none
        return max(0, account.room_for(compose(spends), self._draws) - (not self.paid))

    @cached_property
    def refusal(self) -> BudgetExceeded | None:
        """Return, without raising it, the error that charging would raise because the account lacks room; None if
        there is room, or if the edition is paid for.
        """
        account = self.account
        if account is None or account.budget.public or self.paid or not math.isfinite(self.epsilon):
            return None
        plans = list(self.parts.values())
        cost = compose(spend for plan in plans for spend in plan.spends)
        guarantee = replace(plans[0].guarantee, epsilon=self.epsilon, delta=self.delta)
        totals = Totals(charges=len(account.entries), spent=account.spent, filter=account.filtered)
        request = admission.Request(cost, self._draws, guarantee, OPERATING_SYSTEM)
        return admission.exceeded_error(account.budget, totals, request, lambda: self._drawn)

    def account_after(self) -> Account | None:
        """Return the account as it will be after the charge. It is unchanged if the edition is paid for or the
        charge would be refused.
        """
        account = self.account
        if account is None or self.paid or self.refusal is not None:
            return account
        plans = tuple(self.parts.values())
        cost, guarantee = compose(spend for plan in plans for spend in plan.spends), plans[0].guarantee
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
        """Return, as text, the ε by which the account grows, the ε left then, and how many more editions fit.

        It is "" if no account pays or the charge would be refused.
        """
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
    def _draws(self) -> tuple[Draw, ...]:
        spends = (spend for plan in self.parts.values() for spend in plan.spends)
        return tuple((spend.epsilon_units, spend.rho_units) for spend in spends)

    @property
    def _unit(self) -> PrivacyUnit:
        return next(iter(self.parts.values())).guarantee.unit

    @property
    def _drawn(self) -> Counter[Draw]:
        entries = () if self.account is None else self.account.entries
        return Counter(draw for entry in entries for draw in entry.draws)

    def _spent_after(self) -> float:
        account = self.account
        if account is None:
            raise TypeError("no account pays")
        cost = compose(spend for plan in self.parts.values() for spend in plan.spends)
        only = account.spent.delta_units + cost.delta_units
        return compose_all(self._drawn + Counter(self._draws), only, account.budget.conversion_for(self._unit))[0]


def room_text(more: int) -> str:
    """Return how many more editions fit, as text."""
    number = f"{more:,}" if more < MAX_COUNTED_ROOM else f"{MAX_COUNTED_ROOM:,} or"
    return f"{number} more {'edition fits' if more == 1 else 'editions fit'}" if more else "no further edition fits"
