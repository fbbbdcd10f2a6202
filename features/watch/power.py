"""How often a watch errs, computed before anything is spent: false alarms in a year, and days until a fall is seen.

| symbol | name here | meaning |
|---|---|---|
| d | `drop` | the fall that is to be seen, in units of the score |
| θ | `threshold` | where an alarm is raised, in the same |
| b₁, b₂ | `Noise.of_threshold`, `.of_look` | one-sided noise of the threshold, once, and of every look |
| σ | `Noise.of_sampling` | standard deviation of a table's score, as a sample of all records there could be |
| s | `fallen` | how far below the reference the score of all records there could be really is |
| n | `looks` | looks |
| w | `Noise.pool` | tables, one a day, that a look reads as one |

A look alarms with p(z) = Pr[s + N(0, σ²) + ν ≥ θ + z], in closed form, and n looks at tables of new records with
1 − E_z[(1 − p(z))ⁿ]. θ is chosen by what errs least, a fall that is missed counting twice; it absorbs the mean
b₂ − b₁ of the noise, which is taken for continuous: its steps are 2⁻²⁴ of the score's range.

Pools overlap, so their N are positively correlated: false alarms are at most those of looks at new records
(Slepian's inequality), and a fall is seen within t days at least as often as by the look of day t alone, of whose
records min(t, w)/w have fallen.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
YEAR, SOON = 365, 5  # looks: of a year, one a day, and within which a fall is to be seen
GOOD, FAIR = (0.01, 0.01), (0.12, 0.05)  # false alarms in a year, and falls that are not seen in time
VERDICTS = ("good", "fair", "poor", "useless")
USELESS_ERROR_SUM = 0.5  # of the two together
MISS_WEIGHT = 2.0  # how much worse a fall that is missed is than a false alarm
N_THRESHOLDS = 121  # thresholds, from half the drop to twice


@dataclass(frozen=True)
class Noise:
    """What is added to a fall, in units of the score: two exponential scales and a standard deviation; and w."""

    of_threshold: float
    of_look: float
    of_sampling: float
    pool: int = 1

    @property
    def days(self) -> int:
        """The number of daily checks in which a fall should be detected: 5, or the pool's size if more."""
        return max(SOON, self.pool)

    @property
    def mean(self) -> float:
        """The mean of one check's noise less that of the threshold's."""
        return self.of_look - self.of_threshold


@dataclass(frozen=True)
class Power:
    """How a watch errs, at one look a day."""

    threshold: float  # θ
    # chance of one in a year of looks while nothing fell, each at new records; of pools at most
    false_alarms: float
    # chance that a fall of d is seen within 1, 2, … looks, each at new records; of pools at least
    seen: tuple[float, ...]
    verdict: str  # "good", "fair", "poor" or "useless"


def power(drop: float, noise: Noise, threshold: float | None = None) -> Power:
    """Return how often a watch errs at the threshold θ, or where None at the one that errs least."""
    theta = best_threshold(drop, noise) if threshold is None else threshold
    false = alarms(theta, noise, fallen=0.0, looks=YEAR)
    seen = tuple(_detection_chance(theta, noise, drop, days) for days in range(1, noise.days + 1))
    return Power(theta, false, seen, verdict(false, seen[-1]))


def _detection_chance(threshold: float, noise: Noise, drop: float, days: int) -> float:
    """Return the chance that a fall is seen in `days` looks; of pools, which share records, by the last alone."""
    if noise.pool == 1:
        return alarms(threshold, noise, fallen=drop, looks=days)
    return alarms(threshold, noise, fallen=drop * min(days, noise.pool) / noise.pool, looks=1)


def verdict(false_alarms: float, seen: float) -> str:
    """The verdict, "good", "fair", "poor" or "useless", on a watch with these rates of alarm and detection."""
    for word, (false, missed) in (("good", GOOD), ("fair", FAIR)):
        if false_alarms <= false and 1.0 - seen <= missed:
            return word
    return "useless" if false_alarms + 1.0 - seen > USELESS_ERROR_SUM else "poor"


def smallest_drop(noise: Noise) -> float:
    """Return the smallest fall of the score that a watch detects with a fair verdict, to 1% of itself."""
    low = high = max(noise.of_threshold, noise.of_look, noise.of_sampling)
    while not _is_fair(high, noise):
        low, high = high, 2.0 * high
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _is_fair(middle, noise) else (middle, high)
    return high


def _is_fair(drop: float, noise: Noise) -> bool:
    return power(drop, noise).verdict in ("good", "fair")


@lru_cache(maxsize=256)
def best_threshold(drop: float, noise: Noise) -> float:
    """Return the θ, in units of the score, at which a year's false alarms plus twice the missed falls are least."""
    tried = noise.mean + np.linspace(0.5 * drop, 2.0 * drop, N_THRESHOLDS)
    false = _within(YEAR, above(tried[:, None] + noise.of_threshold * _NODES, noise.of_look, noise.of_sampling))
    gaps = tried[:, None] + noise.of_threshold * _NODES - drop
    missed = 1.0 - _within(SOON if noise.pool == 1 else 1, above(gaps, noise.of_look, noise.of_sampling))
    return float(tried[int(np.argmin(false + MISS_WEIGHT * missed))])


def alarms(threshold: float, noise: Noise, *, fallen: float, looks: int) -> float:
    """The probability of an alarm in `looks` private checks, each on new records, if the score fell by `fallen`."""
    gaps = threshold + noise.of_threshold * _NODES - fallen
    return float(_within(looks, above(gaps, noise.of_look, noise.of_sampling)))


def above(gap: Reals, scale: float, sigma: float) -> Reals:
    """Return the probability that N(0, σ²) plus an exponential variable of this scale is at least `gap`."""
    if sigma == 0.0:
        return np.exp(-np.maximum(gap, 0.0) / scale)
    from scipy.special import log_ndtr, ndtr

    half = 0.5 * (sigma / scale) ** 2
    right = np.exp(half - gap / scale + log_ndtr(gap / sigma - sigma / scale))
    return np.asarray(np.clip(ndtr(-gap / sigma) + right, 0.0, 1.0))


_NODES = np.linspace(0.0125, 39.9875, 1600)  # middles of steps of 1/40
_WEIGHTS = np.exp(-_NODES) / np.exp(-_NODES).sum()


def _within(looks: int, p: Reals) -> Reals:
    """Return the probability of an alarm in n = `looks` checks, 1 − E_z[(1 − p(z))ⁿ].

    p, (…, _NODES), is one check's probability given the threshold's noise z, at the nodes of a quadrature.
    """
    with np.errstate(divide="ignore"):
        return np.asarray(-np.expm1(looks * np.log1p(-p)) @ _WEIGHTS)
