"""Regularised logistic regression with noise on its weights: pure DP (Chaudhuri et al. 2011, Algorithm 1).

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε | `epsilon` | of one training | scalar > 0 |
| λ | `point["lambda"]` | regularisation | scalar > 0 |
| Δ₂ | — | 2/(nλ) + 2τ: most the weights move in ℓ₂ | scalar |
| h | — | the grid, a power of two near Δ₂·2⁻²⁰ | scalar |

Guarantee: ε-DP under replace-one. Weights are rounded to the grid; their ℓ₁ sensitivity is at most √d·Δ₂/h + d
steps, and every coordinate gets the discrete Laplace at it. (The paper's noise, of density exp(−ε‖b‖/Δ₂), is
shorter by √2 on average and has no exact sampler.)
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dpbo.features.private_training.base import Axis, Base, PrivateModel, Sizes, pure_trial
from dpbo.features.private_training.solving import (
    LOGISTIC_ONLY_MESSAGE,
    check_solvable,
    noise_of,
    noised,
    tolerance,
)
from dpbo_core.data import Encoded
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.trial_cost import TrialCost
from dpbo_core.mechanisms.vectors import check_vector
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.linear.tilted import minimise_tilted
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.theorems.chaudhuri_2011 import corollary_8_sensitivity

AXES = {"lambda": Axis(None)}


@dataclass(frozen=True)
class OutputPerturbation:
    """ε-DP training of a logistic model by noise on its weights."""

    epsilon: float

    @property
    def cost(self) -> TrialCost:
        """The cost of one training, which is a pure ε."""
        return TrialCost(RenyiCurve(epsilon=self.epsilon))

    def check(self, sizes: Sizes, point: Mapping[str, Any]) -> None:
        """Refuse a λ at which some data set cannot be solved, or whose noise cannot be drawn."""
        n, d, regularization = sizes.n_records, sizes.n_features, float(point["lambda"])
        check_solvable(OUTPUT_PERTURBATION.name, n_records=n, n_features=d, regularization=regularization)
        check_vector(noise_of(self._sensitivity(n, d, regularization), self.epsilon, d)[0])

    def _sensitivity(self, n_records: int, n_features: int, regularization: float) -> float:
        """Return the ℓ₂ sensitivity Δ₂ of the trained weights."""
        tau = tolerance(n_records=n_records, n_features=n_features, regularization=regularization)
        return corollary_8_sensitivity(n_records=n_records, regularization=regularization, solver_tolerance=tau)

    def train(self, records: Encoded, point: Mapping[str, Any], source: NoiseSource) -> PrivateModel:
        """Return the minimiser of the regularised loss, plus discrete Laplace noise on every weight."""
        n, d = records.X.shape
        regularization = float(point["lambda"])
        tau = tolerance(n_records=n, n_features=d, regularization=regularization)
        w = minimise_tilted(records.X * records.signs[:, None], regularization, np.zeros(d), tau)
        weights = noised(
            w, sensitivity=self._sensitivity(n, d, regularization), epsilon=self.epsilon, source=source
        )
        return LinearModel(weights, regularization, math.inf)


OUTPUT_PERTURBATION = Base(
    "output_perturbation",
    partial(pure_trial, OutputPerturbation),
    AXES,
    pure=True,
    models=("logistic",),
    why_models=LOGISTIC_ONLY_MESSAGE,
)
