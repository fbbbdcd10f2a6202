"""A smooth margin score."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.models.scores.kinds import Declared, Steep, steep


@dataclass(frozen=True)
class Sigmoid(Steep):
    """φ(t) = 1/(1 + e^(−s·t))."""

    slope: ClassVar[float] = 0.25
    rounding: ClassVar[float] = 2.0**-48
    # φ(1 − φ) ≤ ¼ times the relative error of e^u, plus φ(1 − φ)|u| ≤ ¼ times that of u = −s·t, plus those of the
    # sum and the quotient, of 2⁻⁵³ each: 2⁻⁴⁸ leaves 2⁻⁴⁷ for e^u, 32 units in its last place, where NumPy's errs
    # by one or two

    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """Return the score of each margin, (m,): the sigmoid φ, 0 if e^(−s·t) overflows."""
        t = steep(margins, -self.steepness)
        _overwrite(t)
        return t

    def overwrite(self, margins: NDArray[np.float64]) -> None:
        """Replace finite margins by the sigmoid φ of them, in place."""
        margins *= -self.steepness
        _overwrite(margins)

    def span(self, norm: float) -> float:
        """Return R = φ(‖w‖) − φ(−‖w‖), the largest difference of two scores, as tanh(s·‖w‖/2)."""
        reach = 0.5 * self.steepness * norm
        return 1.0 if math.isnan(reach) else math.tanh(reach)


def _overwrite(t: NDArray[np.float64]) -> None:
    with np.errstate(over="ignore", under="ignore"):
        np.exp(t, out=t)
        t += 1.0
        np.divide(1.0, t, out=t)


SIGMOID = Declared(
    "sigmoid",
    earns="1/(1 + e^(−s·margin)), s the `steepness` (`logistic` and `hinge` alone)",
    between="0 and 1",
    of_margin=lambda numbers: Sigmoid(float(numbers.steepness)),
)
