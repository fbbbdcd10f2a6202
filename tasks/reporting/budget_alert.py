"""From which share of a budget on people are told that it is nearly spent."""

import os
import re

from dpbo_core.errors import StudyInvalid

SETTING, SHARE = "DPBO_BUDGET_ALERT", "0.8"


def alert_share() -> float:
    """The share of a budget from which people are told that it is nearly spent: DPBO_BUDGET_ALERT, else 0.8.

    Raises:
        StudyInvalid: the setting is no share.
    """
    text = os.environ.get(SETTING) or SHARE
    if not re.fullmatch(r"0?\.\d+|1(\.0*)?", text):
        raise StudyInvalid(f"{SETTING} is no share of a budget", remedy="set it to 0.8, say")
    return float(text)
