"""What every door checks before it draws; OpenDP accepts most of these silently."""

import math

from dpbo_core.errors import MechanismRefused, StudyInvalid
from dpbo_core.privacy.amounts import spent_units

LARGEST_SCALE = 2.0**55  # 64-bit noise saturates with probability below e^−128 there
SMALLEST_SCALE = 2.0**-256  # OpenDP 0.16 makes, prices and draws every kind from 1e-100 on, and fails below 1e-154
LARGEST_SUM = 2**61

_LETTER = "the noise door refused to draw"


def check_scale(scale: float, sensitivity: int) -> None:
    """Finite, positive, within 64-bit integers; a sensitivity of at least one grid step.

    Every mechanism checks this when it is made, so an impossible scale is refused with the plan, uncharged.
    """
    if not SMALLEST_SCALE <= scale <= LARGEST_SCALE:  # NaN fails too
        raise StudyInvalid(
            "the noise this study asks for cannot be drawn",
            cause="the noise scale is zero, infinite or beyond 64-bit integers: ε is far too small or large",
            remedy="choose ε between 1e-6 and 1e3",
        )
    if not (isinstance(sensitivity, int) and 1 <= sensitivity <= LARGEST_SUM):
        raise MechanismRefused(_LETTER, cause="the sensitivity is not a positive integer")


def check_integer(value: object) -> int:
    """An exact integer in range. The letter does not say which value it was."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST_SUM:
        raise MechanismRefused(_LETTER, cause="the query is not an exact integer in range")
    return value


def within_range(drawn: int) -> int:
    """`drawn` clamped to ±2⁶²: post-processing, so that noise that saturated at 2⁶³ tells nothing of the value."""
    return max(-(2**62), min(2**62, drawn))


def check_price(price: float, planned_units: int | None) -> None:
    """The mechanism's own privacy map at the sensitivity, against the plan; NaN is above every plan."""
    affordable = planned_units is not None and math.isfinite(price) and spent_units(price) <= planned_units
    if not affordable:
        raise MechanismRefused(
            _LETTER,
            cause="its own privacy map is above the planned spend: the calibration is wrong",
            remedy="report this; nothing was drawn",
        )
