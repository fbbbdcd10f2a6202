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
from typing import Any

import numpy as np

from dpbo_core.data import Encoded
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.mechanisms.vectors import DiscreteLaplaceVector
from dpbo_core.models.linear import LinearModel
from dpbo_core.models.tilted import minimise_tilted
from dpbo_core.privacy.renyi import RenyiCurve
from dpbo_core.privacy.unit import NeighboringRelation
from dpbo_core.private_training.contract import Axis, PrivateModel
from dpbo_core.private_training.output_perturbation import noised
from dpbo_core.theorems.chaudhuri_2011 import theorem_9_jacobian

AXES = {"lambda": Axis(None)}
OUTPUT_SHARE = 0.01
CURVATURE = 0.25  # of the logistic loss
GRID = 2.0**-20
TOLERANCE = 1e-4  # of 1/(nλ): the rounding of a gradient, about d·‖w‖·2⁻⁵³, stays far below its λ-fold


@dataclass(frozen=True)
class ObjectivePerturbation:
    """ε-DP training of a logistic model."""

    epsilon: float

    @property
    def relation(self) -> NeighboringRelation:
        """Replace one."""
        return NeighboringRelation.REPLACE_ONE

    @property
    def curve(self) -> RenyiCurve:
        """Pure."""
        return RenyiCurve(epsilon=self.epsilon)

    def tilt_epsilon(self, *, n_records: int, regularization: float) -> float:
        """ε_Z, rounded down; 0 or less where λ is too small for this ε."""
        jacobian = theorem_9_jacobian(n_records=n_records, regularization=regularization, curvature=CURVATURE)
        return (self.epsilon * (1.0 - OUTPUT_SHARE) - jacobian) * (1.0 - 1e-12)

    def train(self, records: Encoded, point: Mapping[str, Any], source: NoiseSource) -> PrivateModel:
        """The minimiser of the tilted objective, plus the noise that hides how it was computed."""
        n, d = records.X.shape
        regularization = float(point["lambda"])
        steps = math.ceil(2.0 * math.sqrt(d) / GRID * (1.0 + 1e-12)) + d
        epsilon = self.tilt_epsilon(n_records=n, regularization=regularization)
        Z = DiscreteLaplaceVector(steps, epsilon, d).draw(source)
        tilt = Z.astype(np.float64) * GRID
        tau = TOLERANCE / (n * regularization)
        w = minimise_tilted(records.X * records.signs[:, None], regularization, tilt, tau)
        reach = (tau + GRID * math.sqrt(d) / (2.0 * n * regularization)) * (1.0 + 1e-9)
        weights = noised(w, sensitivity=2.0 * reach, epsilon=self.epsilon * OUTPUT_SHARE, source=source)
        return LinearModel(weights, regularization, math.inf)
