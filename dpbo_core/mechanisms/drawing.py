"""What the mechanisms share: their checks before a draw, and many draws of integer noise made at once.

OpenDP accepts most of what is checked here silently.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Δ | `sensitivity` | most the integer query moves between neighbours | integer ≥ 1 |
| — | `planned` | what each draw may cost, in 10⁻¹² | integers |
"""

import math
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import MechanismRefused, StudyInvalid
from dpbo_core.mechanisms.noise import Imitation, NoiseSource
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.privacy.sensitive import Sensitive

MAX_SCALE = 2.0**55  # 64-bit noise saturates with probability below e^−128 there
MIN_SCALE = 2.0**-256  # OpenDP 0.16 makes, prices and draws every kind from 1e-100 on, and fails below 1e-154
MAX_SUM = 2**61
MAX_NOISE = 2**62  # 128σ at the largest scale: reached with probability below e^−8000
Sampler = Callable[[np.random.Generator, int], NDArray[np.float64]]


def mechanism_error(cause: str, remedy: str = "") -> MechanismRefused:
    """Return the error of a mechanism that refuses to draw; it tells no number that depends on a record."""
    return MechanismRefused("the mechanism refused to draw", cause=cause, remedy=remedy)


def is_drawable(scale: float) -> bool:
    """Return whether OpenDP can draw noise of this scale within 64-bit integers."""
    return MIN_SCALE <= scale <= MAX_SCALE


def check_drawable(scale: float) -> None:
    """Refuse a noise scale that cannot be drawn within 64 bits; its price is checked elsewhere."""
    if not is_drawable(scale):
        raise mechanism_error("a scale beyond 64-bit integers")


def check_scale(scale: float, sensitivity: int) -> None:
    """Refuse a scale that is not finite, positive and within 64 bits, or a sensitivity below one step.

    Every mechanism checks this when it is made, so an impossible scale is refused with the plan, uncharged.
    """
    if not is_drawable(scale):
        raise StudyInvalid(
            "the noise this study asks for cannot be drawn",
            cause="the noise scale is zero, infinite or beyond 64-bit integers: ε is far too small or large",
            remedy="choose ε between 1e-6 and 1e3",
        )
    if not (isinstance(sensitivity, int) and 1 <= sensitivity <= MAX_SUM):
        raise mechanism_error("the sensitivity is not a positive integer")


def check_integer(value: object) -> int:
    """Return the value, refused unless an integer in range; the message does not tell which it was."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_SUM:
        raise mechanism_error("the query is not an exact integer in range")
    return value


def check_table(table: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """The table, refused unless of this shape and of integers in range; the message does not tell which was not."""
    sound = table.dtype == np.int64 and table.shape == shape
    if not sound or (table.size and max(int(table.max()), -int(table.min())) > MAX_SUM):
        raise mechanism_error("the table is not one of exact integers in range")
    return table


def check_price(price: float, planned_units: int | None) -> None:
    """Refuse an ε or ρ, of the mechanism's own privacy map, above the planned one in 10⁻¹²; None admits none."""
    if planned_units is None or not math.isfinite(price) or spent_units(price) > planned_units:
        raise _price_above_plan()


def check_cost(price: float, planned: float) -> None:
    """Refuse a price (δ, or a vector's ε or ρ) above the planned one, both in the same unit, whichever it is."""
    if not price <= planned:
        raise _price_above_plan()


def _price_above_plan() -> MechanismRefused:
    return mechanism_error(
        "its own privacy map is above the planned spend: the calibration is wrong",
        remedy="report this; nothing was drawn",
    )


def draw_each(
    measurement: Any, *, sensitivity: int, planned: Collection[int | None], imitated: Sampler, source: NoiseSource
) -> list[Callable[[Sensitive[int]], int]]:
    """Draw integer noise once for each planned price; return one function for each draw.

    Each function adds its noise to a sensitive integer, and may be called once only. If OpenDP's `measurement`
    costs more than one of the `planned` ε or ρ, nothing is drawn; `imitated` draws the same noise for tests.
    """
    price = measurement.map(sensitivity)
    for units in set(planned):
        check_price(price, units)
    noises = source.draw_many(measurement, len(planned), rounded(imitated))
    return [partial(_noisy_sum, Sensitive(noise)) for noise in noises.tolist()]


def rounded(imitated: Sampler) -> Imitation:
    """Return a sampler of integer noise for tests: that of real noise `imitated`, times a factor, rounded."""

    def imitation(rng: np.random.Generator, factor: float, size: int) -> NDArray[np.int64]:
        drawn: NDArray[np.int64] = np.rint(factor * imitated(rng, size)).astype(np.int64)
        return drawn

    return imitation


def _noisy_sum(noise: Sensitive[int], value: Sensitive[int]) -> int:
    """Return the exact integer plus the noise, clamped to ±2⁶²: an overflow would depend on the exact value."""
    return max(-MAX_NOISE, min(MAX_NOISE, check_integer(value.expose()) + noise.expose()))
