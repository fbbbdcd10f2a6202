"""A margin score that rises in a straight line."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.models.scores.kinds import Declared, Steep, steep


@dataclass(frozen=True)
class Ramp(Steep):
    """φ(t) = clip((1 + s·t)/2, 0, 1)."""

    slope: ClassVar[float] = 0.5
    rounding: ClassVar[float] = 2.0**-50
    # s·t errs by 2⁻⁵³ of itself and matters up to ±1 alone, its half by half of that, the sum by 2⁻⁵³

    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """Return the score of each margin, (m,): the ramp φ, linear between 0 and 1."""
        with np.errstate(under="ignore"):
            return np.clip(0.5 + 0.5 * steep(margins, self.steepness), 0.0, 1.0)

    def overwrite(self, margins: NDArray[np.float64]) -> None:
        """Replace margins, which must be finite, in place by φ(m) = clip(½ + steepness·m/2, 0, 1)."""
        margins *= self.steepness
        margins *= 0.5
        margins += 0.5
        np.clip(margins, 0.0, 1.0, out=margins)

    def span(self, norm: float) -> float:
        """Return the largest difference R = min(1, s·‖w‖₂) of two records' scores at weights w."""
        reach = self.steepness * norm
        return reach if reach < 1.0 else 1.0


RAMP = Declared(
    "ramp",
    earns="½ + ½·s·margin, cut to the range (`logistic` and `hinge` alone)",
    between="0 and 1",
    of_margin=lambda numbers: Ramp(float(numbers.steepness)),
)
