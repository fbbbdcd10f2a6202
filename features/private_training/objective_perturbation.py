"""Regularised logistic regression with noise in its objective: pure DP (Chaudhuri et al. 2011, Algorithm 2).

| symbol | name here | meaning | shape |
|---|---|---|---|
| ε | `epsilon` | of one training | scalar > 0 |
| λ | `point["lambda"]` | regularisation | scalar > 0 |
| b = h·Z | — | the tilt, Z discrete Laplace of scale s | (d,) |
| ε_J | — | log(1 + 1/(4nλ)), the Jacobian | scalar |
| ε_out | — | share of ε for the distance to the exact minimiser | scalar |
| τ′ | — | τ + h√d/(2nλ) | scalar |

The paper assumes the exact minimiser under continuous noise; no computer has either. Here neither is assumed.
Let b̃ = h(Z + U), U uniform on a cell: a continuous tilt whose density is constant on cells. Its exact minimiser w̃
is a smooth bijection of b̃, and neighbours move b̃(w̃) by at most 2 in ℓ₂, 2√d in ℓ₁, so Z by at most 2√d/h + d steps:
w̃ is (ε_Z + ε_J)-DP with ε_Z = (2√d/h + d)/s. What is solved is the tilt b = hZ to τ: within τ′ of w̃, whatever the
data. Given w̃, the rounded weights of neighbours differ by at most 2τ′, and the discrete Laplace at ε_out hides it.
Guarantee: ε = ε_Z + ε_J + ε_out, pure, under replace-one; no assumption.
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
from dpbo_core.errors import StudyInvalid
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.trial_cost import TrialCost
from dpbo_core.mechanisms.vectors import DiscreteLaplaceVector, check_vector
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.linear.tilted import minimise_tilted
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.theorems.chaudhuri_2011 import theorem_9_jacobian

AXES = {"lambda": Axis(None)}
OUTPUT_SHARE = 0.01
CURVATURE = 0.25  # of the logistic loss
GRID = 2.0**-20


@dataclass(frozen=True)
class ObjectivePerturbation:
    """ε-DP training of a logistic model by noise in its objective."""

    epsilon: float

    @property
    def cost(self) -> TrialCost:
        """The cost of one training, which is a pure ε."""
        return TrialCost(RenyiCurve(epsilon=self.epsilon))

    def tilt_epsilon(self, *, n_records: int, regularization: float) -> float:
        """The part ε_Z of ε that pays for the objective's noise (tilt), rounded down; ≤ 0 if λ is too small."""
        jacobian = theorem_9_jacobian(n_records=n_records, regularization=regularization, curvature=CURVATURE)
        return (self.epsilon * (1.0 - OUTPUT_SHARE) - jacobian) * (1.0 - 1e-12)

    def check(self, sizes: Sizes, point: Mapping[str, Any]) -> None:
        """Refuse a λ that leaves too little of ε, that cannot be solved, or whose noise cannot be drawn."""
        n, d, regularization = sizes.n_records, sizes.n_features, float(point["lambda"])
        if self.tilt_epsilon(n_records=n, regularization=regularization) <= 0.01 * self.epsilon:
            raise StudyInvalid(
                f"lambda = {regularization:g} is too small for objective perturbation at ε = {self.epsilon:.3g} a "
                "trial",
                cause="the change of variables from noise to weights costs log(1 + 1/(4nλ)) of it",
                remedy="raise the low end of lambda, or use a base that noises the weights",
            )
        tilt = self._tilt(n, d, regularization)
        check_vector(tilt)
        check_solvable(
            OBJECTIVE_PERTURBATION.name,
            n_records=n,
            n_features=d,
            regularization=regularization,
            tilt_norm=_longest_tilt(tilt),
        )
        tau = self._tolerance(n, d, regularization)
        check_vector(noise_of(2.0 * _weight_distance(tau, n, d, regularization), self.epsilon * OUTPUT_SHARE, d)[0])

    def _tilt(self, n_records: int, n_features: int, regularization: float) -> DiscreteLaplaceVector:
        """Return the mechanism that draws Z, the objective's linear term (tilt) in grid steps."""
        steps = math.ceil(2.0 * math.sqrt(n_features) / GRID * (1.0 + 1e-12)) + n_features
        epsilon = self.tilt_epsilon(n_records=n_records, regularization=regularization)
        return DiscreteLaplaceVector(steps, epsilon, n_features)

    def _tolerance(self, n_records: int, n_features: int, regularization: float) -> float:
        """Return the solver's tolerance τ from public numbers alone: neighbours must have the same one."""
        tilt_norm = _longest_tilt(self._tilt(n_records, n_features, regularization))
        return tolerance(
            n_records=n_records, n_features=n_features, regularization=regularization, tilt_norm=tilt_norm
        )

    def train(self, records: Encoded, point: Mapping[str, Any], source: NoiseSource) -> PrivateModel:
        """The minimiser of the objective with a random tilt, plus small noise that hides the solver's error."""
        n, d = records.X.shape
        regularization = float(point["lambda"])
        tilt = self._tilt(n, d, regularization).draw(source).astype(np.float64) * GRID
        tau = self._tolerance(n, d, regularization)
        w = minimise_tilted(records.X * records.signs[:, None], regularization, tilt, tau)
        apart = _weight_distance(tau, n, d, regularization)
        weights = noised(w, sensitivity=2.0 * apart, epsilon=self.epsilon * OUTPUT_SHARE, source=source)
        return LinearModel(weights, regularization, math.inf)


def _weight_distance(tau: float, n_records: int, n_features: int, regularization: float) -> float:
    """Return how far solved weights may be from the exact minimiser under continuous noise, τ′, rounded up."""
    return (tau + GRID * math.sqrt(n_features) / (2.0 * n_records * regularization)) * (1.0 + 1e-9)


def _longest_tilt(tilt: DiscreteLaplaceVector) -> float:
    """Return a length that the drawn tilt hZ exceeds with probability 2⁻¹²⁸ at most: Pr[|Z_i| > t] ≤ 2e^{−t/s}."""
    longest = tilt.scale * (129.0 * math.log(2.0) + math.log(tilt.size)) + 1.0
    return GRID * longest * math.sqrt(tilt.size)


OBJECTIVE_PERTURBATION = Base(
    "objective_perturbation",
    partial(pure_trial, ObjectivePerturbation),
    AXES,
    pure=True,
    models=("logistic",),
    why_models=LOGISTIC_ONLY_MESSAGE,
)
