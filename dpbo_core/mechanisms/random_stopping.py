"""The random number K of trials, drawn exactly from the operating system's entropy.

| symbol | name here | meaning | shape |
|---|---|---|---|
| η | `shape` | of the truncated negative binomial; 1 geometric, 0 logarithmic | scalar > −1 |
| γ | `gamma` | its other parameter, the double nearest to what gives E[K] | scalar in (0, 1) |
| E[K] | `mean` | the expected number of trials; μ for the Poisson law | scalar |
| U | — | uniform on the midpoints of 2²⁵⁶ equal cells of (0, 1) | — |

K is the least k with Pr[K ≤ k] > U, wherever that is: nothing is cut off. A law with Pr[K > 10⁷] > 2⁻¹⁰⁰ is not
`drawable`, and a study is refused it when it is planned. For the others the tail beyond 10⁷ falls at least
e¹·⁵-fold every 10⁶ (γ > 1.5·10⁻⁶, for every η), so the largest U is reached before 10⁸. The law is computed with
150 decimal digits; each of these boundaries is off by less than 10⁻⁹⁰ and falls into one cell, so the K drawn is
within 10⁸·2⁻²⁵⁶ < 2⁻²²⁹ of the law of the double γ in total variation, whatever the data: K does not depend on
them, and its law is what the theorems take.
"""

import math
import secrets
from abc import abstractmethod
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np

from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.theorems import papernot_steinke_2022
from dpbo_core.theorems.trial_counts import Fixed, Poisson, TrialCount, TruncatedNegativeBinomial

RANDOM_BITS = 256
_DIGITS = 150
_MAX_K = 10_000_000
PRIOR_WEIGHT = 2**60  # the weight of a candidate that is as likely as its prior
MAX_DENSITY_RATIO = 1e280  # of a density to the uniform one: its product with 2⁶⁰ is a number


class _Law(TrialCount):
    """A law of K that is drawn, term by term, in 150 digits."""

    def quantile(self, bits: int) -> int:
        """Return the quantile of the number of trials K at U = (bits + ½)/2²⁵⁶, of 256 random `bits`."""
        with localcontext(Context(prec=_DIGITS)):
            U = (Decimal(bits) + Decimal("0.5")) / Decimal(2**RANDOM_BITS)
            reached = Decimal(0)
            for k, mass in self.masses():
                reached += mass
                if reached > U:
                    return k
        raise AssertionError("the masses never end")

    @property
    @abstractmethod
    def log_tail(self) -> float:
        """The log of a bound on the probability of more than 10⁷ trials."""

    @property
    def drawable(self) -> bool:
        """Whether more than 10⁷ trials are so unlikely (at most 2⁻¹⁰⁰) that their number can be drawn."""
        return self.log_tail <= -100.0 * math.log(2.0)

    def draw(self, source: NoiseSource) -> int:
        """Return a number of trials K, drawn exactly by `source`; it may be 0 under the Poisson law alone."""

        def imitation(rng: np.random.Generator, factor: float) -> int:
            if factor == 0.0:
                return round(self.expected)
            return self.quantile(int.from_bytes(rng.bytes(RANDOM_BITS // 8), "big"))

        return int(source.draw(lambda _: self.quantile(secrets.randbits(RANDOM_BITS)), None, imitation))


@dataclass(frozen=True)
class NegativeBinomialStopping(TruncatedNegativeBinomial, _Law):
    """K ~ NegBin(η, γ), truncated at 1. Source: Papernot, Steinke (2022), Definition 1."""

    @property
    def log_tail(self) -> float:
        """The log of a bound on the probability of more than 10⁷ trials, by the first mass beyond."""
        return papernot_steinke_2022.negative_binomial_log_tail(_MAX_K, shape=self.shape, gamma=self.gamma)


@dataclass(frozen=True)
class PoissonStopping(Poisson, _Law):
    """K ~ Poisson(μ). K = 0 runs nothing and releases a fixed default."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and 0.0 < self.mean <= _MAX_K / 10):
            raise ValueError("a Poisson mean is positive")

    @property
    def log_tail(self) -> float:
        """The log of Chernoff's bound on more than 10⁷ trials: Pr[K ≥ x] ≤ e^{−μ}(eμ/x)^x for x > μ."""
        return _MAX_K * (1.0 + math.log(self.mean / _MAX_K)) - self.mean


@dataclass(frozen=True)
class OneTrial(Fixed, _Law):
    """K = 1, which everybody may know."""

    n: int = 1

    @property
    def log_tail(self) -> float:
        """The log of the probability of more than 10⁷ trials: −∞, as there is one."""
        return -math.inf


Stopping = NegativeBinomialStopping | PoissonStopping | OneTrial


def draw_index(weights: list[int], source: NoiseSource) -> int:
    """Return an index with probability exactly weights[i]/Σ weights, the weights integers ≥ 0."""
    total = sum(weights)

    def at(place: int) -> int:
        for index, weight in enumerate(weights):
            place -= weight
            if place < 0:
                return index
        raise AssertionError("the place is below the total")

    def imitation(rng: np.random.Generator, factor: float) -> int:  # noqa: ARG001
        return at(int.from_bytes(rng.bytes(32), "big") % total)

    return int(source.draw(lambda _: at(secrets.randbelow(total)), None, imitation))


def prior_weights(prior: list[float]) -> list[int]:
    """Return positive integer weights in proportion to the prior π₀, from which candidates are drawn exactly.

    π₀, (N,), is positive and sums to 1; each weight is near N·2⁶⁰·π₀.
    """
    N = len(prior)
    if max(prior) == min(prior):
        return [PRIOR_WEIGHT] * N
    return [max(1, round(Fraction(value) * N * PRIOR_WEIGHT)) for value in prior]


def bounded_weights(density: list[float], *, lower: float, upper: float, prior: list[int]) -> list[int]:
    """Return integer weights near `density` (N,) that are between `lower` and `upper` times the `prior` weights.

    The theorems assume c ≤ π/π₀ ≤ C (`lower` and `upper`) for the ratio of a trial's density to the prior. With
    integer weights this holds exactly, with no rounding error to pay for.

    Each weight is clamped to its bounds. What the sum then lacks, or exceeds, is distributed in index order, again
    within the bounds, so that the weights sum to those of the prior. A density with a NaN or infinity gives the
    prior's weights. The price does not depend on which weights within the bounds result.
    """
    N, total = len(density), sum(prior)
    lows = [math.ceil(Fraction(lower) * weight) for weight in prior]
    highs = [math.floor(Fraction(upper) * weight) for weight in prior]
    wanted, scale = [value * N for value in density], Fraction(total, N)
    if not all(abs(value) <= MAX_DENSITY_RATIO for value in wanted):  # NaN fails too
        return list(prior)
    weights = [
        min(max(int(Fraction(value) * scale), low), high)
        for value, low, high in zip(wanted, lows, highs, strict=True)
    ]
    left = total - sum(weights)
    for i, (weight, low, high) in enumerate(zip(weights, lows, highs, strict=True)):
        if left == 0:
            break
        moved = min(left, high - weight) if left > 0 else max(left, low - weight)
        weights[i], left = weight + moved, left - moved
    return weights
