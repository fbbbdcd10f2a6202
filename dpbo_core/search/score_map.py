"""The map between a score and the Gaussian process's units, and the final estimate of the chosen score.

| symbol | name here | meaning | shape |
|---|---|---|---|
| G | `top` | scores lie in [0, G] | scalar |
| — | `centre`, `scale` | the prior's mean and unit, in units of the score; public | scalars |
| y, σ | `observed`, `deviation` | a fresh look at the choice's score, and the deviation of its noise | scalars |
| m, s | `posterior` | mean and deviation of the choice's score by the noised path alone | scalars |
| τ² | `doubt` | how much further apart path and look are than their noise explains | scalar |

A look is one fresh noisy score of the chosen candidate, after the choice. Its noise does not depend on the earlier
scores (the path), so an interval about it covers the score with probability 0.9, whatever the model is. y ± 1.645σ,
cut to [0, G], would too, but it is empty or a point if y is far outside [0, G], which looks like certainty. The
interval of Feldman and Cousins is never empty, has the same coverage, and is y ± 1.645σ well inside the range.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.mixture import Mixture, range_probability
from dpbo_core.theorems.feldman_cousins_1998 import CONFIDENCE_LEVEL, bounded_interval

NORMAL_90 = 1.6448536269514722  # a normal variable lies within so many deviations with probability 0.9
CENTRE, SPREAD = 0.5, 0.25  # the prior's default mean and unit, as shares of G

ScoreInterval = tuple[float, tuple[float, float]]  # a score and its interval


@dataclass(frozen=True)
class ScoreMap:
    """The affine map between a score and the Gaussian process's units: score = centre + scale · unit."""

    centre: float
    scale: float
    top: float

    def mapped(self, score: float) -> float:
        """Return the score in the Gaussian process prior's units, (score − centre)/scale, not clamped."""
        return (score - self.centre) / self.scale

    def unmapped(self, value: float) -> float:
        """Return the score that a value in the prior's units stands for."""
        return self.centre + self.scale * value

    def posterior(
        self, mixture: Mixture, means: NDArray[np.float64], deviations: NDArray[np.float64]
    ) -> ScoreInterval:
        """Return the mean and central 90% interval of one candidate's score, which lies in [0, G], as scores."""
        ends = (self.mapped(0.0), self.mapped(self.top))
        mean, (low, high) = range_probability(mixture.weights, means, deviations, ends, CONFIDENCE_LEVEL)
        return self.unmapped(mean), (self.unmapped(low), self.unmapped(high))

    def with_look(
        self,
        observed: float,
        deviation: float,
        posterior: ScoreInterval,
        interval: tuple[float, float] | None = None,
    ) -> ScoreInterval:
        """Return the estimate of the chosen candidate's score, and its 90% interval, after one fresh noisy score.

        The estimate combines the fresh score and the posterior, weighted by their precisions. If they differ by
        more than noise explains in nine cases of ten, the posterior's variance is increased by the excess τ² =
        max(0, (m − y)² − 1.645²·(s² + σ²)), so that a wrong model has little weight. The result is the mean of that
        normal distribution truncated to the interval.

        Args:
            observed: y, the fresh score.
            deviation: σ of its noise.
            posterior: mean and 90% interval of the score by the earlier scores alone.
            interval: the 90% interval to return; None for the one that follows from the fresh score alone.
        """
        low, high = interval or bounded_interval(observed, deviation, self.top)
        mean, ends = posterior
        s2, noise = ((ends[1] - ends[0]) / (2.0 * NORMAL_90)) ** 2, deviation**2
        doubt = max(0.0, (mean - observed) ** 2 - NORMAL_90**2 * (s2 + noise))
        trust = noise / (noise + s2 + doubt)
        combined, spread = trust * mean + (1.0 - trust) * observed, math.sqrt(trust * (s2 + doubt))
        return _mean_inside(combined, spread, low, high), (low, high)


def _mean_inside(mean: float, deviation: float, low: float, high: float) -> float:
    """Return the mean of N(mean, deviation²) truncated to [low, high]; the nearest end if it has no mass there."""
    if deviation <= 0.0:
        return min(max(mean, low), high)
    a, b = (low - mean) / deviation, (high - mean) / deviation
    inside = 0.5 * (math.erf(b / math.sqrt(2.0)) - math.erf(a / math.sqrt(2.0)))
    if inside < 1e-9:
        return min(max(mean, low), high)
    shift = (math.exp(-0.5 * a * a) - math.exp(-0.5 * b * b)) / (math.sqrt(2.0 * math.pi) * inside)
    return min(max(mean + deviation * shift, low), high)
