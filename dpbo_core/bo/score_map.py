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

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.gp.mixture import Mixture

LEVEL = 0.9
_HALVINGS = 60
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


def bounded_interval(seen: float, deviation: float, top: float) -> tuple[float, float]:
    """The 90% interval of f in [0, G] from y ~ N(f, σ²): those f under which y is among the likeliest 90%.

    Likeliest by the ratio of y's density under f to that under the best f in [0, G].
    Source: Feldman and Cousins (1998), section IV.B, with a bound on both sides.
    """
    best = min(max(seen, 0.0), top)

    def end(bound: float) -> float:
        if _likelier(bound, seen, deviation, top) <= LEVEL:
            return bound
        inside, outside = best, bound
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2.0
            if _likelier(middle, seen, deviation, top) <= LEVEL:
                inside = middle
            else:
                outside = middle
        return outside  # of the two, the wider interval

    return end(0.0), end(top)


def _likelier(f: float, seen: float, deviation: float, top: float) -> float:
    """The probability under f of values whose likelihood ratio is above that of y."""
    best = min(max(seen, 0.0), top)
    fall = (seen - f) ** 2 - (seen - best) ** 2  # −2σ² times the logarithm of y's ratio
    return _normal(_reach(top - f, fall) / deviation) - _normal(-_reach(f, fall) / deviation)


def _reach(room: float, fall: float) -> float:
    """How far from f the ratio has fallen by `fall`, on a side where f is `room` from its bound."""
    straight = math.sqrt(fall)
    if straight <= room:
        return straight
    return (fall + room**2) / (2.0 * room) if room > 0.0 else math.inf


def _normal(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2.0))
