"""Privacy in the ledger's unit: integers of 10⁻¹².

A number a person typed is taken as the decimal they typed (0.1 is one tenth, not the nearest double), so
that ten spends of 0.1 fill a cap of 1 exactly. What is spent rounds up, what is allowed rounds down.
"""

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from fractions import Fraction

UNITS_PER_ONE = 10**12


def spent_units(amount: float) -> int:
    """An amount ≥ 0 of ε, δ or ρ in whole units of 10⁻¹², rounded up, so that a spend never looks smaller."""
    return int((Decimal(repr(float(amount))) * UNITS_PER_ONE).to_integral_value(ROUND_CEILING))


def allowed_units(amount: float) -> int:
    """An amount ≥ 0 of ε, δ or ρ in whole units of 10⁻¹², rounded down, so that a cap never looks larger."""
    return int((Decimal(repr(float(amount))) * UNITS_PER_ONE).to_integral_value(ROUND_FLOOR))


def from_units(units: int) -> float:
    """The amount of ε, δ or ρ that whole units of 10⁻¹² stand for, for people and JSON alone."""
    return units / UNITS_PER_ONE


def split_units(total: int, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Whole numbers above 0 by `shares` that sum exactly to `total`, the last with the remainder; or ValueError.

    Raises:
        ValueError: if a part would be zero: the total is too small to be split so.
    """
    weights = [Fraction(share) for share in shares]
    whole = sum(weights)
    parts = [int(total * weight / whole) for weight in weights[:-1]]
    parts.append(total - sum(parts))
    if min(parts) <= 0:
        raise ValueError("the amount is too small to be split")
    return tuple(parts)
