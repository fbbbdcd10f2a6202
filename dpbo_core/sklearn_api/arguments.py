"""The numbers among the arguments of a Python call: whatever is a number there, as a plain one."""

import math
from contextlib import suppress
from typing import Any

from dpbo_core.study.section import no_number


def number_of(key: str, value: Any) -> float:
    """The argument `key` of a Python call as a float; refused where it is none, or too large for one."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise no_number(key)


def whole_number_of(key: str, value: Any) -> int:
    """The argument `key` of a Python call as an integer; refused where it is none, or no double reaches it."""
    with suppress(TypeError, ValueError, ArithmeticError):
        if abs(float(value)) < math.inf and int(value) == value:
            return int(value)
    raise no_number(key)


def number_or_none(key: str, value: Any) -> float | None:
    """As `number_of`; None where the argument `key` is left out."""
    return None if value is None else number_of(key, value)
