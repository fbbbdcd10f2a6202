"""The cost of several spends together, by two routes that are both always valid.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε_i, δ_i, ρ_i | `Spend` | cost of one draw | T spends |
| ρ* | `largest_rho` | the most ρ that a cap (ε, δ) holds | scalar |

Basic composition adds pure ε. Zero-concentrated composition adds ρ and converts once, at one fixed δ. A Gaussian
has no pure ε and never enters the first sum, not even by its own (ε, δ): that would be unsound.
Source: Dwork, Roth (2014), Theorem 3.16; Bun, Steinke (2016), Lemma 2.3; Canonne, Kamath, Steinke (2020), Prop. 12.

Pure and Gaussian spends in one account without waste: a Rényi filter at one order, fixed before the first spend.

| symbol | name here | meaning | shape |
|---|---|---|---|
| α* | `alpha` | the order at which the cap's (ε, δ_z) holds the most ρ | scalar > 1, or 0: δ_z = 0 |
| ρ_i, ε_i | `Draw` | cost of a draw in zCDP, and its pure ε, None for a Gaussian | integers of 10⁻¹² |
| r_i | `draw_units` | its Rényi divergence at α*, over α*, rounded up; at most ρ_i | integer of 10⁻¹² |
| Σr_i | `units` | of all draws so far; admitted while at most ρ* | integer of 10⁻¹² |

A Gaussian's r_i is its ρ_i, so that datasets with Gaussian spends alone are as they were. A pure ε_i is worth
ε_i²/2 in zCDP, but at α* no more than randomised response is, which is far less where ε_i is large.

Why it is sound for draws and plans that are chosen after seeing earlier ones: at one order, fixed in advance, the
sum of the divergences given the past bounds that of the whole as long as it stays below a number fixed in advance
(Feldman, Zrnic 2021, Theorem 3.1), and α*·ρ* converts to (ε, δ_z) at that order (Canonne, Kamath, Steinke 2020,
Proposition 12). An order chosen afterwards would not do. `budget` says how the rule joins basic composition.

Other spends may come between the answers of one that is interactive: the looks of a watch, the steps of a search.
Each is one mechanism, whose divergence at α* holds whatever it is asked, and all of it is charged before its first
answer. Divergences at one order add under such concurrent composition (Lyu 2022), and a filter of a fixed order
that is valid for single answers is valid for interactive mechanisms that are begun at any time (Haney et al. 2023).
Nothing else of either is used. Both are of data that do not follow the answers: the tables of a watch count as one
data set.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpbo_core.privacy.amounts import UNITS_PER_ONE, allowed_units, from_units, spent_units
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.theorems.canonne_kamath_steinke_2020 import (
    proposition_12_converted,
    proposition_12_cost,
    proposition_12_epsilon,
    proposition_12_rho,
    proposition_12_worth,
)


@dataclass(frozen=True)
class Total:
    """Sums of spends in 10⁻¹²; `epsilon_units` is None as soon as one spend has no pure ε."""

    epsilon_units: int | None
    delta_units: int
    rho_units: int

    def __add__(self, other: "Total") -> "Total":
        pure = None
        if self.epsilon_units is not None and other.epsilon_units is not None:
            pure = self.epsilon_units + other.epsilon_units
        return Total(pure, self.delta_units + other.delta_units, self.rho_units + other.rho_units)

    def epsilon(self, delta: float) -> tuple[float, float]:
        """Return the (ε, δ) of the summed draws, by the cheaper composition: (Σε, Σδ), or (ε(Σρ, δ), δ + Σδ)."""
        basic = math.inf if self.epsilon_units is None else from_units(self.epsilon_units)
        concentrated = proposition_12_epsilon(rho=from_units(self.rho_units), delta=delta)
        only = from_units(self.delta_units)
        return (basic, only) if basic <= concentrated else (concentrated, delta + only)


ZERO_TOTAL = Total(0, 0, 0)


def compose(spends: Iterable[Spend]) -> Total:
    """Return the sums of ε, δ and ρ of priced draws, which hold for draws chosen after earlier results too."""
    total = ZERO_TOTAL
    for spend in spends:
        total += Total(spend.epsilon_units, spend.delta_units, spend.rho_units)
    return total


@lru_cache(maxsize=256)  # a few milliseconds of bisection, asked for while the ledger is locked
def largest_rho(epsilon: float, delta: float) -> int:
    """Return ρ*, the largest zCDP cost whose conversion at δ is at most ε; in 10⁻¹², rounded down."""
    return math.floor(proposition_12_rho(epsilon=epsilon, delta=delta) * UNITS_PER_ONE)


MIN_GAIN_RATIO = 1.01  # basic composition is shown where no order gains a hundredth: it needs no δ
Draw = tuple[int | None, int]  # (ε_i, ρ_i) in 10⁻¹²


@dataclass(frozen=True)
class Filter:
    """A Rényi filter: the sum of a dataset's draws at one Rényi order α*, which is fixed when the cap is opened.
    Every history entry stores it.
    """

    alpha: float  # α*; 0 if the cap has no δ to convert at, and nothing is filtered
    units: int = 0  # Σr_i in 10⁻¹²

    @classmethod
    def of(cls, epsilon_units: int, delta: float) -> "Filter":
        """Return an empty Rényi filter (a sum of prices at one order) for a cap of ε in 10⁻¹² and δ_z = `delta`."""
        return cls(order(epsilon_units, delta))

    def after(self, draws: Iterable[Draw], total: Total, count: int = 1) -> "Filter":
        """Return a filter that also counts `draws` by their cost at α*, `count` times; the larger ρ of `total` if
        their ε and ρ do not add up to it.
        """
        if self.alpha == 0.0:
            return self
        draws = tuple(draws)
        cost = sum(draw_units(draw, self.alpha) for draw in draws)
        return Filter(self.alpha, self.units + count * (cost if _sums_to_total(draws, total) else total.rho_units))

    def fits(self, epsilon_units: int, delta: float) -> bool:
        """Return whether there is an α* at which the summed Rényi costs are within what (ε, δ_z) allows."""
        return self.alpha > 0.0 and self.units <= most_units(self.alpha, epsilon_units, delta)

    def epsilon(self, delta: float) -> float:
        """Return the ε to which the summed Rényi costs convert at α* and δ_z, rounded up; ∞ if α* or δ_z is 0."""
        if self.alpha == 0.0 or delta == 0.0:
            return math.inf
        return proposition_12_worth(alpha=self.alpha, cost=self.alpha * from_units(self.units), delta=delta)


NOT_FILTERED = Filter(0.0)


@lru_cache(maxsize=256)  # milliseconds of bisection, asked for while the ledger is locked
def order(epsilon_units: int, delta: float) -> float:
    """Return the Rényi order α* at which the cap's largest zCDP cost ρ* converts to ε; 0 if δ_z = 0 or ρ* = 0.

    At this order a filter admits as many Gaussian draws as zCDP does, and pure draws at less than their ρ.
    """
    epsilon = from_units(epsilon_units)
    rho = from_units(largest_rho(epsilon, delta))
    if delta == 0.0 or rho == 0.0:
        return 0.0
    return proposition_12_converted(lambda alpha: alpha * rho, delta=delta)[1]


@lru_cache(maxsize=256)
def most_units(alpha: float, epsilon_units: int, delta: float) -> int:
    """Return the largest sum of `draw_units` that (ε, δ_z) allows at order `alpha`, in 10⁻¹²; −1 if none fits."""
    epsilon = from_units(epsilon_units)
    if alpha == order(epsilon_units, delta):
        return largest_rho(epsilon, delta)
    if delta == 0.0:
        return -1
    return math.floor(proposition_12_cost(alpha=alpha, epsilon=epsilon, delta=delta) / alpha * UNITS_PER_ONE)


@lru_cache(maxsize=4096)
def draw_units(draw: Draw, alpha: float) -> int:
    """Return a draw's Rényi cost at order α divided by α, in 10⁻¹² and rounded up. It is at most the draw's ρ."""
    epsilon_units, rho_units = draw
    if epsilon_units is None:
        return rho_units
    pure = RenyiCurve(epsilon=from_units(epsilon_units)).at(alpha) / alpha
    return min(rho_units, spent_units(pure * (1.0 + 1e-12)))


def compose_all(draws: Mapping[Draw, int], delta_units: int, delta: float) -> tuple[float, float]:
    """Return the smallest (ε, δ) to which the counted draws compose, with Σδ of `delta_units` and δ_z = `delta`.

    It is for display only: the Rényi order is chosen after the draws are known, so it must not decide an admission.
    """
    pure = {epsilon: n for (epsilon, _), n in draws.items()}
    basic = math.inf if None in pure else from_units(sum((epsilon or 0) * n for (epsilon, _), n in draws.items()))
    gaussian = from_units(sum(rho * n for (epsilon, rho), n in draws.items() if epsilon is None))
    others = [
        (RenyiCurve(epsilon=from_units(epsilon)), from_units(rho), n)
        for (epsilon, rho), n in draws.items()
        if epsilon is not None
    ]

    def cost(alpha: float) -> float:
        return alpha * gaussian + sum(n * min(alpha * rho, curve.at(alpha)) for curve, rho, n in others)

    best = proposition_12_converted(cost, delta=delta)[0] if draws else 0.0
    only = from_units(delta_units)
    return (basic, only) if basic <= MIN_GAIN_RATIO * best else (best, delta + only)


def price_of(spends: Sequence[Spend], epsilon: float, delta: float) -> tuple[float, float]:
    """Return the (ε, δ) that draws cost together, by the cheapest of sums of ε, zCDP, and a Rényi filter.

    `epsilon` and `delta`, of the guarantee that must cover them, fix the filter's order and the δ of conversion.
    """
    total = compose(spends)
    left = max(0.0, delta - from_units(total.delta_units))
    filtered = Filter.of(allowed_units(epsilon), left).after(draws_of_spends(spends), total)
    return min(total.epsilon(left), (filtered.epsilon(left), left + from_units(total.delta_units)))


def draws_of_spends(spends: Iterable[Spend]) -> tuple[Draw, ...]:
    """Return the price (ε_i or None, ρ_i), in 10⁻¹², of each noise draw."""
    return tuple((spend.epsilon_units, spend.rho_units) for spend in spends)


def draws_in(spends: Iterable[Mapping[str, Any]]) -> tuple[Draw, ...]:
    """Return the prices (ε_i or None, ρ_i), in 10⁻¹², of the noise draws in the column `spends` of a charge."""
    return tuple((_as_units(spend["epsilon"]), _as_units(spend["rho"]) or 0) for spend in spends)


def _sums_to_total(draws: tuple[Draw, ...], total: Total) -> bool:
    """Return whether the ε and ρ of the draws add up to those of `total`, which has no ε if a draw has none."""
    pure = [epsilon for epsilon, _ in draws if epsilon is not None]
    epsilon = sum(pure) if len(pure) == len(draws) else None
    return (epsilon, sum(rho for _, rho in draws)) == (total.epsilon_units, total.rho_units)


def _as_units(amount: float | None) -> int | None:
    return None if amount is None else round(amount * UNITS_PER_ONE)
