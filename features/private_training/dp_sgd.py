"""DP-SGD: noised sums of clipped gradients over Poisson-sampled batches.

| symbol | name here | meaning | shape |
|---|---|---|---|
| q | `rate` | probability that a record joins a step | scalar in (0, 1] |
| σ | `noise_multiplier` | noise over the most one record adds | scalar > 0 |
| T | `steps(epochs)` | ⌈epochs/q⌉ | scalar |
| — | `cost` | for the largest T of Λ | cost |

Guarantee: for one record replaced, T times one step's price by the pair that dominates it, with what the discrete
Gaussian that is really drawn may cost beyond the continuous one. Steps divide by the public n·q, and an empty batch
has its noise too.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dpbo.features.private_training.base import (
    Axis,
    Base,
    PrivateModel,
    Sizes,
    Trial,
    TrialFacts,
    check_moderate,
    n_columns,
    value_of,
    with_score,
)
from dpbo.features.private_training.gradients import (
    STEPS,
    bounded,
    clipped_sum,
    model_of,
    sum_sensitivity,
)
from dpbo_core.data import Encoded
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.trial_cost import VECTOR_TAU, TrialCost
from dpbo_core.mechanisms.vectors import DiscreteGaussianVector, check_vector, poisson_sample
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.theorems.sampled_gaussian import discrete_replace_one_renyi

AXES = {"learning_rate": Axis(1.0), "clipping_norm": Axis(1.0), "epochs": Axis(5.0, integer=True)}
ORDERS = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, *(float(k) for k in (5, 6, 7, 8, 10, 12, 16, 20, 24, 32, 48, 64, 128)))
MAX_WEIGHTS = 2.0**40  # more than memory holds


@dataclass(frozen=True)
class DpSgd:
    """DP-SGD training of a logistic or softmax model, at most `most_epochs` epochs."""

    estimator: str
    noise_multiplier: float
    rate: float
    most_epochs: float

    @property
    def cost(self) -> TrialCost:
        """The cost of the longest training of Λ; a shorter one costs less."""
        T = self.steps(self.most_epochs)
        # of the continuous Gaussian in the discrete one, as `discrete_replace_one_renyi` has it
        rest = self.noise_multiplier**2 * (1.0 - 1e-15) - (VECTOR_TAU / STEPS) ** 2
        sampled = (math.sqrt(rest), self.rate, T) if rest > 0.0 else None
        return TrialCost(_renyi_curve(self.noise_multiplier, self.rate, T), sampled=sampled)

    def steps(self, epochs: float) -> int:
        """Return the number T of noisy gradient steps in so many passes over the data."""
        return math.ceil(epochs / self.rate)

    def check(self, sizes: Sizes, point: Mapping[str, Any]) -> None:
        """Refuse hyperparameters whose numbers overflow, or whose noise cannot be drawn, at these sizes."""
        for name in ("learning_rate", "clipping_norm"):
            check_moderate(name, value_of(name, AXES, point))
        check_vector(self._noise(sizes))

    def _noise(self, sizes: Sizes) -> DiscreteGaussianVector:
        size = sizes.n_features * n_columns(self.estimator, sizes.n_classes)
        sensitivity = sum_sensitivity(moves=1, n_records=sizes.n_records, size=size)
        rho = 1.0 / (2.0 * self.noise_multiplier**2) * (1.0 - 1e-14)  # σ·Δ of noise, rounded up
        return DiscreteGaussianVector(sensitivity, rho, size)

    def train(self, records: Encoded, point: Mapping[str, Any], source: NoiseSource) -> PrivateModel:
        """Return the model after T noised steps from W = 0, each on its own sample of records."""
        n, d = records.X.shape
        K = n_columns(self.estimator, records.n_classes)
        eta, C, epochs = (value_of(name, AXES, point) for name in ("learning_rate", "clipping_norm", "epochs"))
        noise = self._noise(Sizes(n, d, records.n_classes))
        W = np.zeros((d, K))
        for _ in range(self.steps(min(epochs, self.most_epochs))):
            joined = poisson_sample(n, self.rate, source)
            noised = clipped_sum(records, W, C, joined) + noise.draw(source)
            W = bounded(W - eta * (C / STEPS / (n * self.rate)) * noised.reshape(d, K).astype(np.float64))
        return model_of(W)


@lru_cache(maxsize=512)
def _renyi_curve(sigma: float, rate: float, steps: int) -> RenyiCurve:
    def step(alpha: float) -> float:
        return discrete_replace_one_renyi(
            alpha=alpha,
            rate=rate,
            noise_multiplier=sigma,
            sensitivity=STEPS,
            coordinates=MAX_WEIGHTS,
            tau=VECTOR_TAU,
        )

    return RenyiCurve(table=tuple((alpha, steps * step(alpha) * (1.0 + 1e-15)) for alpha in ORDERS))


def _trial(cost: float, facts: TrialFacts) -> Trial:
    """Return the trial (a DP-SGD training and its noisy score) that costs at most what zCDP of ρ = `cost` would."""
    if facts.n_records is None:
        raise ValueError("a sampled training needs the number of its records")
    most = dict(facts.largest)["epochs"]
    rate = min(1.0, facts.batch_size / facts.n_records)
    full = facts.training_cost(cost, facts.score_share * cost)
    # a full-batch training of ρ has σ = √(T/2ρ); a sampled one with the same σ costs less
    sigma = math.sqrt(math.ceil(most / rate) / (2.0 * full))
    training = DpSgd(facts.estimator, sigma, rate, most)
    return with_score(training, facts.gaussian(facts.score_share * cost * rate**2), facts)


DP_SGD = Base("dp_sgd", _trial, AXES, pure=False)
