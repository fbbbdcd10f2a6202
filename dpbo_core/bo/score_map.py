"""Between a score and the Gaussian process's own units, and what is finally said of one score.

| symbol | name here | meaning | shape |
|---|---|---|---|
| G | `top` | scores lie in [0, G] | scalar |
| — | `centre`, `scale` | the prior's mean and unit, in units of the score; public | scalars |
| y, σ | `seen`, `deviation` | a fresh look at the choice's score, and the deviation of its noise | scalars |

The look owes nothing to the path that made the choice, so an interval about it covers the score nine times in ten
whatever the score's shape. y ± 1.645σ, cut to [0, G], would too; but where y lies outside [0, G] it is empty or a
point, which looks like certainty. Feldman and Cousins' is never empty, covers as often, and is y ± 1.645σ inside.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.gp.mixture import Mixture
from dpbo_core.theorems.feldman_cousins_1998 import LEVEL, bounded_interval

CENTRE, SPREAD = 0.5, 0.25  # the prior's mean and unit where nobody knows better, as shares of G

Said = tuple[float, tuple[float, float]]  # a score and its interval


@dataclass(frozen=True)
class ScoreMap:
    """score = centre + scale · (the prior's units)."""

    centre: float
    scale: float
    top: float

    def mapped(self, score: float) -> float:
        """In the prior's units."""
        return (score - self.centre) / self.scale

    def unmapped(self, value: float) -> float:
        """In units of the score."""
        return self.centre + self.scale * value

    def believed(self, found: Mixture, means: NDArray[np.float64], deviations: NDArray[np.float64]) -> Said:
        """The posterior of one candidate's score, given that it lies in [0, G]: mean and central interval.

        Args:
            found: the posterior over kernels.
            means: of the score under each, in the prior's units, (C,).
            deviations: likewise.
        """
        ends = (self.mapped(0.0), self.mapped(self.top))
        mean, (low, high) = found.within(means, deviations, ends, LEVEL)
        return self.unmapped(mean), (self.unmapped(low), self.unmapped(high))

    def looked(self, seen: float, deviation: float, believed: Said) -> Said:
        """The fresh look's interval, and in it the posterior mean and the look, weighted by their precisions."""
        low, high = bounded_interval(seen, deviation, self.top)
        mean, (lowest, highest) = believed
        reach, half = (high - low) / 2.0, (highest - lowest) / 2.0
        trust = reach**2 / (reach**2 + half**2)
        return min(max(trust * mean + (1.0 - trust) * seen, low), high), (low, high)
