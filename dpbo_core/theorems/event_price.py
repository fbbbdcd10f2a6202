"""The ε of one private training or of the best of several, from a `dp_accounting` event, and the noise for an ε."""

import math
from collections.abc import Callable
from typing import Any

from dpbo_core.theorems.loss_profile import LossProfile
from dpbo_core.theorems.selection_price import selection_epsilon
from dpbo_core.theorems.trial_counts import Fixed, TrialCount, TruncatedNegativeBinomial

SHAPE = 2.0  # η of the usual law: for an equal chance of missing the best, less noise than η = 1 or Poisson


def price(
    event: Any,
    trials: float | TrialCount = 10,
    delta: float = 1e-5,
    *,
    neighbours: str = "add_or_remove",
    replaced_moves: float | None = None,
) -> float:
    """Return the ε at `delta` of releasing only the best of a hidden random number of private trainings.

    Args:
        event: one training, with the private score that it is chosen by, as a `dp_accounting` event.
        trials: the expected number of trainings, drawn from a truncated negative binomial law with η = 2; 1 prices
            a single training; or a law of `dpbo_core.theorems.trial_counts`.
        delta: δ of the whole, at least 1e-10.
        neighbours: "add_or_remove", "replace_one" or "zero_out".
        replaced_moves: under "replace_one", how far one replaced record moves the noised sum, in units of its
            sensitivity: 2 for clipped gradients.

    Raises:
        ValueError: an event of a class that is not supported, or an argument out of range.

    >>> import dp_accounting
    >>> round(price(dp_accounting.GaussianDpEvent(10.0), trials=1, delta=1e-5), 3)
    0.341
    """
    profile = LossProfile.of_event(event, neighbours=neighbours, replaced_moves=replaced_moves)
    return selection_epsilon(profile, _law(trials), delta)


def calibrate(
    event_of_noise: Callable[[float], Any],
    epsilon: float,
    trials: float | TrialCount = 10,
    delta: float = 1e-5,
    *,
    neighbours: str = "add_or_remove",
    replaced_moves: float | None = None,
) -> float:
    """Return a noise whose `price` is at most `epsilon`, within 0.1% of the least one.

    Args:
        event_of_noise: makes the event of one training from its noise multiplier; more noise must cost less.
        epsilon: ε of the whole.
        trials: as in `price`.
        delta: as in `price`.
        neighbours: as in `price`.
        replaced_moves: as in `price`.

    Raises:
        ValueError: no noise up to 1e6 has this price, or what `price` raises.

    >>> import dp_accounting
    >>> 3.7 < calibrate(dp_accounting.GaussianDpEvent, 1.0, trials=1, delta=1e-5) < 3.75
    True
    """
    return least_noise(
        lambda noise: price(
            event_of_noise(noise), trials, delta, neighbours=neighbours, replaced_moves=replaced_moves
        ),
        epsilon,
    )


def least_noise(
    price: Callable[[float], float],
    epsilon: float,
    *,
    lowest: float = 1e-3,
    highest: float = 1e6,
    precision: float = 1e-3,
) -> float:
    """Return a noise whose price is at most ε, within a relative `precision` of the least; ValueError if none is.

    `price` falls as noise rises. The noise lies between `lowest` and `highest`, and was itself found affordable.
    The root of log price is found by the Illinois method: importing SciPy's takes longer than most of a plan.
    """
    if not epsilon > 0.0:
        raise ValueError("ε must be positive")

    def excess(log_noise: float) -> float:
        return math.log(min(max(price(math.exp(log_noise)), 1e-9), 1e9) / epsilon)

    least, most = math.log(lowest), math.log(highest)
    low, high, step = 0.0, 0.0, 1.0
    above = below = excess(0.0)
    if above > 0.0:
        while (below := excess(high := min(most, high + step))) > 0.0:
            if high == most:
                raise ValueError(f"no noise up to {highest:g} has this ε")
            low, above, step = high, below, 2.0 * step
    else:
        while (above := excess(low := max(least, low - step))) <= 0.0:
            if low == least:
                return lowest
            high, below, step = low, above, 2.0 * step
    last: bool | None = None
    while high - low > precision:  # not affordable at `low`, affordable at `high`
        place = high - below * (high - low) / (below - above)
        place = min(max(place, low + 0.5 * precision), high - 0.5 * precision)
        value = excess(place)
        same, last = last is (value > 0.0), value > 0.0
        if value > 0.0:
            low, above, below = place, value, below / 2.0 if same else below
        else:
            high, below, above = place, value, above / 2.0 if same else above
    return math.exp(high)


def _law(trials: float | TrialCount) -> TrialCount:
    """Return the law of the number of trials: `trials` itself, or the law whose mean `trials` is."""
    if isinstance(trials, TrialCount):
        return trials
    return Fixed(1) if trials == 1 else TruncatedNegativeBinomial(SHAPE, float(trials))
