"""A margin score that rises in a straight line."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.models.scores.declared import Declared
from dpbo_core.models.scores.margin import Steep, steep


@dataclass(frozen=True)
class Ramp(Steep):
    """φ(t) = clip((1 + s·t)/2, 0, 1)."""

    @property
    def lipschitz(self) -> float:
        """L = s/2: the Lipschitz constant of one record's score in w, for ‖x‖₂ ≤ 1."""
        return self.steepness / 2.0

    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """φ of each margin, (m,)."""
        with np.errstate(under="ignore"):
            return np.clip(0.5 + 0.5 * steep(margins, self.steepness), 0.0, 1.0)

    @property
    def rounding(self) -> float:
        """η: how far `phi` and `overwrite` may be from φ of a finite margin.

        s·t errs by 2⁻⁵³ of itself and matters up to ±1 alone, its half by half of that, the sum by 2⁻⁵³.
        """
        return 2.0**-50

    def overwrite(self, margins: NDArray[np.float64]) -> None:
        """Puts φ in the place of finite margins."""
        margins *= self.steepness
        margins *= 0.5
        margins += 0.5
        np.clip(margins, 0.0, 1.0, out=margins)

    def span(self, norm: float) -> float:
        """R = min(1, s·‖w‖₂): how far apart two records' scores can be at weights w."""
        reach = self.steepness * norm
        return reach if reach < 1.0 else 1.0


RAMP = Declared(
    "ramp",
    earns="½ + ½·s·margin, cut to the range (`logistic` and `hinge` alone)",
    between="0 and 1",
    of_margin=lambda numbers: Ramp(float(numbers.steepness)),
)
