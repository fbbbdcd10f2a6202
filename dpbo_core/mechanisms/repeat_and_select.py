"""The best of a hidden random number of private trials, or the only one, priced as one draw.

| symbol | name here | meaning | shape |
|---|---|---|---|
| K | `stopping` | the number of trials, hidden | law |
| c, C | `lower`, `upper` | bounds on the density of a trial's candidate, over the prior | scalars, c ≤ 1 ≤ C |
| ε(α) | `trial` | Rényi cost of one trial, model and quality together, the supremum over Λ | curve |
| (ε, δ) | `epsilon_units`, `delta_units` | the guarantee for the whole, in 10⁻¹² | integers |
| — | `cap` | trials always run where the duration is hidden; δ pays the tail beyond | integer or None |

Sources: Wang et al. (2023), Theorems 1 and 2, tightened; Papernot, Steinke (2022), Theorems 2 and 6.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from dpbo_core.mechanisms.checks import check_cost, check_price
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.random_stopping import NegativeBinomialStopping, OneTrial, Stopping
from dpbo_core.privacy.amounts import from_units, spent_units
from dpbo_core.privacy.certified import Worth
from dpbo_core.privacy.release import Spend
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems import papernot_steinke_2022, wang_2023

Procedure = Callable[[NoiseSource], Any]
_ORDER_STEP = 6  # of the orders, where each asks for a minimum over all of them


def trial_epsilon(curve: RenyiCurve, delta: float) -> float:
    """The ε at `delta` of one trial of this cost, rounded up: its pure ε if it has one, else infinite at δ = 0."""
    if curve.pure:
        return curve.epsilon
    return wang_2023.best_epsilon(curve.at, curve.orders, delta=delta) if delta > 0.0 else math.inf


def selection_epsilon(
    stopping: Stopping,
    trial: RenyiCurve,
    *,
    lower: float,
    upper: float,
    delta: float,
    calibration: wang_2023.Calibration = "corrected",
) -> float:
    """Return the ε at `delta` of choosing the best of K trials, rounded up; ∞ where δ = 0 has none."""
    if isinstance(stopping, OneTrial):  # nothing is selected, and the first density is fixed beforehand
        return trial_epsilon(trial, delta)
    if isinstance(stopping, NegativeBinomialStopping):
        shape = stopping.shape
        pure = math.inf
        if trial.pure:
            pure = wang_2023.theorem_2_epsilon(base_epsilon=trial.epsilon, shape=shape, lower=lower, upper=upper)
            pure *= 1.0 + 1e-15
        if delta == 0.0:
            return pure
        first = partial(wang_2023.terms_in_alpha, bounds=(lower, upper), calibration=calibration)
        second = partial(wang_2023.terms_in_alpha_hat, bounds=(lower, upper), calibration=calibration)
        log_mean = math.log(papernot_steinke_2022.negative_binomial_mean(shape=shape, gamma=stopping.gamma))
        others = min(
            second(alpha_hat=alpha, base_epsilon_hat=trial.at(alpha), shape=shape, gamma=stopping.gamma)
            for alpha in trial.orders
        )
        best = wang_2023.best_epsilon(
            lambda alpha: others + first(alpha=alpha, base_epsilon=trial.at(alpha), log_mean=log_mean),
            trial.orders,
            delta=delta,
        )
        return min(pure, best)
    if delta == 0.0:
        return math.inf

    def renyi(alpha: float) -> float:
        hat = wang_2023.poisson_epsilon_hat(alpha=alpha, lower=lower, upper=upper)
        return wang_2023.poisson_renyi(
            alpha=alpha,
            base_epsilon=trial.at(alpha),
            base_delta_hat=trial.delta(hat),
            mean=stopping.mean,
            lower=lower,
            upper=upper,
        )

    return wang_2023.best_epsilon(renyi, trial.orders[::_ORDER_STEP], delta=delta)


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
    trial: RenyiCurve
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
        """The ε of the whole choice among K trials by the theorems, at the δ a cap on K leaves; ∞ if too low."""
        delta = from_units(self.delta_units)
        if self.cap is not None:
            tail = self.stopping.tail(self.cap)
            delta -= papernot_steinke_2022.capped_delta(epsilon=from_units(self.epsilon_units), tail=tail)
            if delta < 0.0:
                return math.inf
        return selection_epsilon(
            self.stopping, self.trial, lower=self.lower, upper=self.upper, delta=delta, calibration=self.calibration
        )

    def prepare(self, spend: Spend, source: NoiseSource) -> Callable[[Sensitive[Procedure]], Any]:
        """Check the price `spend`: a function that runs a sensitive procedure, all trials, for its best trial."""
        check_price(self.price(), spend.epsilon_units)
        check_cost(self.delta_units, spend.delta_units)
        return lambda value: value.expose()(source)
