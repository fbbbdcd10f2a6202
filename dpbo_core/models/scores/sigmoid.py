"""A smooth margin score."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.models.scores.declared import Declared
from dpbo_core.models.scores.margin import Steep, steep


@dataclass(frozen=True)
class Sigmoid(Steep):
    """φ(t) = 1/(1 + e^(−s·t))."""

    @property
    def lipschitz(self) -> float:
        """L = s/4: the Lipschitz constant of one record's score in w, for ‖x‖₂ ≤ 1."""
        return self.steepness / 4.0

    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """φ of each margin, (m,); where e^(−s·t) overflows, 0."""
        t = steep(margins, -self.steepness)
        with np.errstate(over="ignore", under="ignore"):
            np.exp(t, out=t)
            t += 1.0
            scores: NDArray[np.float64] = np.divide(1.0, t, out=t)
        return scores

    def span(self, norm: float) -> float:
        """φ(‖w‖) − φ(−‖w‖) = tanh(s·‖w‖/2), without the cancellation."""
        reach = 0.5 * self.steepness * norm
        return 1.0 if math.isnan(reach) else math.tanh(reach)


SIGMOID = Declared(
    "sigmoid",
    earns="1/(1 + e^(−s·margin)), s the `steepness` (`logistic` and `hinge` alone)",
    between="0 and 1",
    of_margin=lambda numbers: Sigmoid(float(numbers.steepness)),
)
