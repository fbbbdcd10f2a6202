"""The best of a hidden random number of private trials, or the only one, priced as one draw.

| symbol | name here | meaning | shape |
|---|---|---|---|
| K | `stopping` | the number of trials, hidden | law |
| c, C | `lower`, `upper` | bounds on the density of a trial's candidate, over the prior | scalars, c ≤ 1 ≤ C |
| — | `trial` | costs of one trial, model and quality together, the supremum over Λ, for each pair | costs |
| (ε, δ) | `epsilon_units`, `delta_units` | the guarantee for the whole, in 10⁻¹² | integers |
| n | `cap` | trials always run where the duration is hidden; min(K, n) count | integer or None |

Sources: `theorems.selection_price`; as published, Wang et al. (2023), Theorems 1 and 2.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from dpbo_core.mechanisms.drawing import check_cost, check_price
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.random_stopping import OneTrial, Stopping
from dpbo_core.mechanisms.trial_cost import TrialCost
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.certified import Worth
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems import selection_price, wang_2023
from dpbo_core.theorems.trial_counts import CappedCount, Fixed, TrialCount, TruncatedNegativeBinomial

Procedure = Callable[[NoiseSource], Any]
LARGEST_RENYI_DELTA = 1e-8  # below it the error of a composed profile is felt, and Rényi costs are tried too
_ORDER_STEP = 6  # of the orders, where each asks for a supremum over all cells


def trial_epsilon(trial: Sequence[TrialCost], delta: float) -> float:
    """The ε at `delta` of one trial of this cost, rounded up: its pure ε if it has one, else infinite at δ = 0."""
    return selection_epsilon(OneTrial(), trial, lower=1.0, upper=1.0, delta=delta)


def selection_epsilon(
    trials: TrialCount,
    trial: Sequence[TrialCost],
    *,
    lower: float,
    upper: float,
    delta: float,
    calibration: wang_2023.Calibration = "corrected",
) -> float:
    """Return the ε at `delta` of releasing only the best of K trials, rounded up; ∞ where no ε has δ = 0.

    `trial` lists one cost for each kind of pair of neighbours; the most expensive one counts.
    """
    if isinstance(trials, Fixed) and trials.n == 1:
        lower = upper = 1.0  # nothing is selected, and the first density is fixed beforehand
    elif calibration == "published":
        return max(_published_epsilon(trials, cost.curve, lower, upper, delta) for cost in trial)
    return max(_epsilon(trials, cost, lower, upper, delta) for cost in trial)


def _epsilon(trials: TrialCount, cost: TrialCost, lower: float, upper: float, delta: float) -> float:
    """Return the ε at `delta` of selecting the best trial, for one kind of neighbours: the smallest valid of three
    bounds.

    They are the pure bound, that by the privacy profile, and (for a tiny δ, which the profile does not reach) Rényi
    costs.
    """
    curve, least = cost.curve, math.inf
    if curve.pure:
        least = selection_price.pure_selection_epsilon(curve.epsilon, trials, lower, upper)
    if delta == 0.0:
        return least
    if delta >= selection_price.SMALLEST_DELTA:
        least = min(least, selection_price.selection_epsilon(cost.profile, trials, delta, lower, upper))
    if delta > LARGEST_RENYI_DELTA:
        return least
    orders = curve.orders
    costs = [curve.at(alpha) for alpha in orders]

    def renyi(alpha: float) -> float:
        return selection_price.renyi_selection_cost(alpha, curve.at(alpha), orders, costs, trials, lower, upper)

    return min(least, wang_2023.best_epsilon(renyi, orders[::_ORDER_STEP], delta=delta))


def _published_epsilon(trials: TrialCount, curve: RenyiCurve, lower: float, upper: float, delta: float) -> float:
    """Return the ε at δ by Theorems 1 and 2 of Wang et al. (2023) as printed.

    `lower` and `upper` are the paper's c and C, bounds on π_j/π₀, a later law of candidates over the first.
    """
    if not isinstance(trials, TruncatedNegativeBinomial):
        raise ValueError("Theorem 1 as printed is for the truncated negative binomial law")
    shape, gamma, pure = trials.shape, trials.gamma, math.inf
    if curve.pure:
        pure = wang_2023.theorem_2_epsilon(base_epsilon=curve.epsilon, shape=shape, lower=lower, upper=upper)
        pure *= 1.0 + 1e-15
    if delta == 0.0:
        return pure
    first = partial(wang_2023.terms_in_alpha, bounds=(lower, upper), calibration="published")
    second = partial(wang_2023.terms_in_alpha_hat, bounds=(lower, upper), calibration="published")
    log_mean = math.log(trials.expected)
    others = min(
        second(alpha_hat=alpha, base_epsilon_hat=curve.at(alpha), shape=shape, gamma=gamma)
        for alpha in curve.orders
    )
    best = wang_2023.best_epsilon(
        lambda alpha: others + first(alpha=alpha, base_epsilon=curve.at(alpha), log_mean=log_mean),
        curve.orders,
        delta=delta,
    )
    return min(pure, best)


@dataclass(frozen=True)
class RepeatAndSelect:
    """(ε, δ)-DP release of the best trial alone. What it draws, it draws through the procedure it is applied to.

    `sensitivity` and `noise_scale` are of a trial's quality, in units of the score; `calibration` is of Theorem 1.
    """

    WORTH: ClassVar = {
        "best of private trials": Worth(lambda spend: (spend.epsilon, spend.epsilon**2 / 2.0), by_price=True)
    }

    stopping: Stopping
    lower: float
    upper: float
    trial: tuple[TrialCost, ...]
    epsilon_units: int
    delta_units: int
    cap: int | None
    sensitivity: float
    noise_scale: float
    calibration: wang_2023.Calibration = "corrected"

    def spend(self, what: str) -> Spend:
        """Return the price (ε, δ) of the whole selection; its ρ = ε²/2 is only ever used together with its δ."""
        epsilon = from_units(self.epsilon_units)
        return Spend(
            what=what,
            mechanism="best of private trials",
            epsilon_units=self.epsilon_units,
            delta_units=self.delta_units,
            rho_units=spent_units(0.5 * epsilon**2 * (1.0 + 1e-12)),
            sensitivity=self.sensitivity,
            noise_scale=self.noise_scale,
        )

    def price(self) -> float:
        """The ε of the whole choice among K trials by the theorems; min(K, cap) of them count where all run."""
        trials: TrialCount = self.stopping if self.cap is None else CappedCount(self.stopping, self.cap)
        return selection_epsilon(
            trials,
            self.trial,
            lower=self.lower,
            upper=self.upper,
            delta=from_units(self.delta_units),
            calibration=self.calibration,
        )

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[Procedure]], Any]:
        """Check the price `spend`: a function that runs a sensitive procedure, all trials, for its best trial."""
        check_price(self.price(), spend.epsilon_units)
        check_cost(self.delta_units, spend.delta_units)
        return lambda value: value.expose()(source)
