"""A linear model along the noisy difference of the class means: pure DP, without assumptions.

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε | `epsilon` | of one training | scalar > 0 |
| v | — | Σ y_i x_i, rows of norm at most 1; zero where a record is broken | (d,) |
| L | `point["length"]` | norm of the released weights | scalar > 0 |

Guarantee: ε-DP under replace-one. v changes by at most 2 in ℓ₂. Rounding adds at most γ_n·n to an entry on both
sides, in any order of summation, with γ_n = nu/(1−nu). The weights L·v/‖v‖ are post-processing of the noisy v.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpbo.features.private_training.base import (
    Axis,
    Base,
    PrivateModel,
    Sizes,
    check_moderate,
    pure_trial,
    value_of,
)
from dpbo.features.private_training.solving import noise_of, noised
from dpbo_core.data import Encoded
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.trial_cost import TrialCost
from dpbo_core.mechanisms.vectors import check_vector
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.privacy.renyi import RenyiCurve

AXES = {"length": Axis(1.0)}


@dataclass(frozen=True)
class ClassMeans:
    """ε-DP training of a logistic model."""

    epsilon: float

    @property
    def cost(self) -> TrialCost:
        """Return the cost, which is pure and the same at every point of Λ."""
        return TrialCost(RenyiCurve(epsilon=self.epsilon))

    def check(self, sizes: Sizes, point: Mapping[str, Any]) -> None:
        """Refuse sizes for which the noise could not be drawn on every data set."""
        check_moderate("length", value_of("length", AXES, point))
        check_vector(noise_of(_sensitivity(sizes.n_records, sizes.n_features), self.epsilon, sizes.n_features)[0])

    def train(self, records: Encoded, point: Mapping[str, Any], source: NoiseSource) -> PrivateModel:
        """L·v/‖v‖; the zero vector where the noise left nothing."""
        n, d = records.X.shape
        v = noised(records.signs @ records.X, sensitivity=_sensitivity(n, d), epsilon=self.epsilon, source=source)
        norm = float(np.linalg.norm(v))
        length = value_of("length", AXES, point)
        return LinearModel(v * (length / norm) if norm > 0.0 else v, 0.0, math.inf)


def _sensitivity(n: int, d: int) -> float:
    """Δ₂, rounded up."""
    gamma = (n + 4) * 2.0**-53 / (1.0 - (n + 4) * 2.0**-53)
    return (2.0 + 2.0 * math.sqrt(d) * gamma * n) * (1.0 + 1e-9)


CLASS_MEANS = Base(
    "class_means",
    partial(pure_trial, ClassMeans),
    AXES,
    pure=True,
    models=("logistic",),
    why_models="it separates two classes",
)
