"""What people are told of a budget: what is left of it, in one line, and when it is nearly spent."""

import math
import os
import re

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.ledger.accounting.edition_price import room_text
from dpbo_core.ledger.accounting.forecast import Forecast
from dpbo_core.privacy.amounts import from_units

SETTING, SHARE = "DPBO_BUDGET_ALERT", "0.8"


def alert_share() -> float:
    """The share of a budget from which people are told that it is nearly spent: DPBO_BUDGET_ALERT, else 0.8."""
    text = os.environ.get(SETTING) or SHARE
    if not re.fullmatch(r"0?\.\d+|1(\.0*)?", text):
        raise StudyInvalid(f"{SETTING} is no share of a budget", remedy="set it to 0.8, say")
    return float(text)


def account_line(account: Account, *, study: str = "") -> str:
    """A dataset's budget now, in one line: spent, limit and left, and how many more editions of `study` fit."""
    cap, spent = account.budget, account.spent_epsilon[0]
    limit = from_units(cap.epsilon_units)
    if cap.public:
        return f"{cap.dataset}: declared public, no limit"
    if math.isinf(spent):
        return f"{cap.dataset}: ε without end of {limit:g} spent, nothing left"
    stated, more = account.sum_of_entries, account.editions.get(study)
    composed = (
        f" (the ε of its releases sum to {stated:.3g}; many draws cost less together)"
        if stated > 1.05 * spent
        else ""
    )
    fits = "" if more is None else f", {room_text(more)}"
    return f"{cap.dataset}: ε {spent:.3g} of {limit:g} spent{composed}, {max(0.0, limit - spent):.3g} left{fits}"


def end_line(burn_down: Forecast | None) -> str:
    """When a budget ends if its studies continue as they did, in one line; or why that is unknown. Not escaped."""
    if burn_down is None:
        return "no forecast: it has no limit, or nothing has been spent yet"
    if not burn_down.streams:
        return "no forecast: no study has run twice yet"
    if burn_down.ends is None or burn_down.refused is None:
        return "the budget lasts longer than ten years"
    return f"the budget ends on {burn_down.ends:%Y-%m-%d}, when {burn_down.refused.name} is refused"
