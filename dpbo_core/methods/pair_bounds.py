"""What a noised number of pairs and a noised count of those ranked right say of an AUC, whatever the true share.

| symbol | name here | meaning | shape |
|---|---|---|---|
| D, D̂ | `drawn` | number of pairs, in half pairs, without and with noise | (…,) |
| B̂ | `draw` | B = C₂ − ⌊rD⌋ with noise | (…,) |
| r | `beside` | the PUBLIC score that AUCs are counted from | scalar |
| T | `least_shown` | the least D̂ of which an AUC is stated | scalar |
| η | `UNSEEN_CHANCE` | a chance so small that an error as rare is allowed among all runs | scalar |
| S(x) | `NoiseTail.above` | chance that the noise is x or more | scalar |

An AUC is r + B/D. Its interval is that of the ends of B/D over a box: D's interval times B's, clipped to [0, 1].
Which shares of positives are likely does not count: the noise alone decides. Below T nothing is stated, since a
table without one of the classes reaches T with the chance S(T) < η alone. Whoever sees an AUC sees a D̂ ≥ T, so D's
lower end allows for that: D is below the interval if S(D̂ − D) ≤ max(LOW · S(T − D), η). So of the AUCs that are
stated at most LOW have such a D, or they are rarer than η.

S is the continuous law's, and every end is a step further out: a discrete Laplace or Gaussian draw is k or more at
most as often as the continuous one is k − 1 or more (Canonne, Kamath, Steinke 2020), and ⌊rD⌋ is rD but for a step.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.laplace import DiscreteLaplace

Reals = NDArray[np.float64]

# chances that D is below its interval, or above it, and that B is outside its own
LOW, HIGH, COUNT = 0.02, 0.01, 0.07
MAX_STATED_CHANCE = 4.5e-4  # chance that an AUC is stated of a table without one of the classes: S(T)
UNSEEN_CHANCE = 1e-3
_HALVINGS = 60


@dataclass(frozen=True)
class NoiseTail:
    """The upper tail of a draw's noise, whose law is symmetric about 0."""

    scale: float  # b of the Laplace law, or σ
    gaussian: bool  # whether it is the Gaussian law

    @classmethod
    def of(cls, mechanism: DiscreteLaplace | DiscreteGaussian) -> "NoiseTail":
        """Return the tail of the noise that `mechanism` draws, in its integer steps."""
        return cls(mechanism.scale, isinstance(mechanism, DiscreteGaussian))

    def above(self, x: Reals) -> Reals:
        """Return the chance S that the noise is `x` (…,) or more."""
        from scipy.special import ndtr

        if self.gaussian:
            return np.asarray(ndtr(-x / self.scale), dtype=np.float64)
        half = 0.5 * np.exp(-np.abs(x) / self.scale)
        return np.where(x > 0.0, half, 1.0 - half)

    def reach(self, chance: float) -> float:
        """Return the x that the noise exceeds with this `chance` < ½."""
        from scipy.special import ndtri

        return self.scale * (float(-ndtri(chance)) if self.gaussian else -math.log(2.0 * chance))

    @property
    def least_shown(self) -> float:
        """The least noised number of pairs of which an AUC is stated, T."""
        return self.reach(MAX_STATED_CHANCE)


def bounds_of_pairs(drawn: Reals, tail: NoiseTail, most: float) -> tuple[NDArray[np.bool_], Reals, Reals]:
    """Return whether a noisy number of pairs D̂, (…,), allows an AUC to be stated, and a 97% interval of the number
    D.

    D is at most `most`. The lower end allows for the fact that only a D̂ of at least T is ever shown.
    """
    least = tail.least_shown
    drawn = np.asarray(drawn, dtype=np.float64)
    low, high = np.zeros_like(drawn), np.maximum(drawn, 0.0)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        inside = tail.above(drawn - middle) > LOW * tail.above(least - middle)
        low, high = np.where(inside, low, middle), np.where(inside, middle, high)
    low = np.clip(np.maximum(low, drawn - tail.reach(UNSEEN_CHANCE)) - 1.0, 1.0, most)
    return drawn >= least, low, np.clip(drawn + tail.reach(HIGH) + 1.0, low, most)


def bounds_of_count(draw: Reals, tail: NoiseTail, draws: int = 1) -> tuple[Reals, Reals]:
    """Return an interval of the count B given its noisy B̂; `draws` such intervals hold together."""
    reach = tail.reach(COUNT / (2.0 * draws)) + 1.0
    return draw - reach, draw + reach


def auc_interval(
    count: tuple[Reals, Reals], pairs: tuple[Reals, Reals], beside: float | Reals
) -> tuple[Reals, Reals]:
    """Return the smallest and largest AUC `beside` + B/D, in [0, 1], for B within `count` and D within `pairs`."""
    (least, greatest), (few, many) = count, pairs
    low = beside + least / np.where(least < 0.0, few, many)
    high = beside + greatest / np.where(greatest > 0.0, few, many)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
