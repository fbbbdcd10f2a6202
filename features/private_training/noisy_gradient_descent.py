"""Full-batch gradient descent on noised sums of clipped gradients: the simple honest default.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ρ | `rho` | zCDP of one whole training, the same at every point of Λ | scalar > 0 |
| T | `epochs` | steps; each costs ρ/T | scalar |
| η | `learning_rate` | W ← W − η·(noised sum)/n | scalar |
| C | `clipping_norm` | per-example clipping | scalar |

Guarantee: ρ-zCDP under replace-one (n is public). Each step releases a rounded sum of sensitivity
`sum_sensitivity(moves=2)` with the discrete Gaussian at ρ/T; steps compose by adding; the rest is post-processing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
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
from dpbo_core.mechanisms.trial_cost import VECTOR_TAU, TrialCost, gaussian_cost
from dpbo_core.mechanisms.vectors import DiscreteGaussianVector, check_vector
from dpbo_core.privacy.amounts import from_units
from dpbo_core.theorems.canonne_kamath_steinke_2020 import theorem_14_sigma

# for rows of ‖x‖ ≤ 1
AXES = {"learning_rate": Axis(20.0), "clipping_norm": Axis(0.4), "epochs": Axis(40.0, integer=True)}


@dataclass(frozen=True)
class NoisyGradientDescent:
    """ρ-zCDP training of a logistic or softmax model by full-batch noised gradient steps."""

    estimator: str
    rho: float

    @property
    def cost(self) -> TrialCost:
        """Return the cost of one training: T Gaussian steps of ρ/T cost as much as one of ρ, but for rounding.

        σ is at least 10⁴ grid steps for every ρ/T that is searched, so τ = 3 steps change μ² = (Δ/σ)² by less than
        10⁻⁶.
        """
        scale = theorem_14_sigma(rho=self.rho, sensitivity=1.0) * STEPS
        return gaussian_cost(rho=self.rho, sensitivity=float(STEPS), scale=scale, tau=VECTOR_TAU)

    def check(self, sizes: Sizes, point: Mapping[str, Any]) -> None:
        """Refuse hyperparameters whose numbers overflow, or whose noise cannot be drawn, at these sizes."""
        for name in ("learning_rate", "clipping_norm"):
            check_moderate(name, value_of(name, AXES, point))
        check_vector(self._noise(sizes, value_of("epochs", AXES, point)))

    def _noise(self, sizes: Sizes, epochs: float) -> DiscreteGaussianVector:
        size = sizes.n_features * n_columns(self.estimator, sizes.n_classes)
        sensitivity = sum_sensitivity(moves=2, n_records=sizes.n_records, size=size)
        return DiscreteGaussianVector(sensitivity, self.rho / epochs * (1.0 - 1e-14), size)

    def train(self, records: Encoded, point: Mapping[str, Any], source: NoiseSource) -> PrivateModel:
        """Return the model after `point`'s number T of epochs from W = 0, each one noised step on all records."""
        n, d = records.X.shape
        K = n_columns(self.estimator, records.n_classes)
        eta, C, T = (value_of(name, AXES, point) for name in ("learning_rate", "clipping_norm", "epochs"))
        noise = self._noise(Sizes(n, d, records.n_classes), T)
        W = np.zeros((d, K))
        for _ in range(int(T)):
            noised = clipped_sum(records, W, C) + noise.draw(source)
            W = bounded(W - eta * (C / STEPS / n) * noised.reshape(d, K).astype(np.float64))
        return model_of(W)


def _trial_at_rho(rho: float, facts: TrialFacts) -> Trial:
    """The trial of zCDP cost ρ: a share for the score's Gaussian noise, the rest (all if disjoint) for training."""
    score = facts.gaussian(facts.score_share * rho)
    training = NoisyGradientDescent(facts.estimator, facts.training_cost(rho, from_units(score.rho_units)))
    return with_score(training, score, facts)


NOISY_GRADIENT_DESCENT = Base("noisy_gradient_descent", _trial_at_rho, AXES, pure=False)
