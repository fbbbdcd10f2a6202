"""Privacy in the ledger's unit: integers of 10⁻¹².

A number a person typed is taken as the decimal they typed (0.1 is one tenth, not the nearest double), so
that ten spends of 0.1 fill a cap of 1 exactly. What is spent rounds up, what is allowed rounds down.

Values of a JSON document or a database's row that somebody else may have written are of their type, or refused; no
message repeats what it refuses.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction
from typing import Any

UNITS_PER_ONE = 10**12


def spent_units(amount: float) -> int:
    """An amount ≥ 0 of ε, δ or ρ in whole units of 10⁻¹², rounded up, so that a spend never looks smaller."""
    return int((Decimal(repr(float(amount))) * UNITS_PER_ONE).to_integral_value(ROUND_CEILING))


def allowed_units(amount: float) -> int:
    """Return an amount ≥ 0 of ε, δ or ρ in whole units of 10⁻¹², rounded down, so that a cap never looks larger."""
    return int((Decimal(repr(float(amount))) * UNITS_PER_ONE).to_integral_value(ROUND_FLOOR))


def from_units(units: int) -> float:
    """Return the amount of ε, δ or ρ that whole units of 10⁻¹² stand for, for people and JSON alone."""
    return units / UNITS_PER_ONE


def split_units(total: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Whole numbers above 0 by `shares` that sum exactly to `total`, the last with the remainder; or ValueError."""
    weights = [Fraction(share) for share in shares]
    whole = sum(weights)
    parts = [int(total * weight / whole) for weight in weights[:-1]]
    parts.append(total - sum(parts))
    if min(parts) <= 0:
        raise ValueError("the amount is too small to be split")
    return tuple(parts)


def text_of(value: object) -> str:
    """Return the value, refused unless it is a text."""
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def amount_of(value: object) -> float:
    """Return the value as a number, refused unless finite and at least 0, as a privacy price must be."""
    if not (isinstance(value, int | float) and type(value) is not bool and 0 <= value < math.inf):
        raise TypeError("no amount")
    return float(value)


def count_of(value: object) -> int:
    """Return the value as a whole number from 0; anything else is refused, such as a text in SQLite's column."""
    if not (type(value) is int and value >= 0):
        raise TypeError("no count")
    return value


def list_of(value: object) -> list[Any]:
    """Return the value, refused unless it is a list."""
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can write a text: no lone half of a pair of surrogates is in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
