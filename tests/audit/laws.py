"""What a worst pair truly loses, from the mechanisms' own probabilities and without a run of the product.

| symbol | name here | meaning | shape |
|---|---|---|---|
| c | `weaker` | every noise scale is divided by c; 1 is the honest mechanism | scalar |
| ε(c) | `epsilon` | the exact ε at δ of the pair | scalar |
| μ(c) | `separation` | what `bounds.separation` bounds, where a Gaussian part decides | scalar |

A pure law is tested by events alone. A Gaussian one is tested by μ: a lower bound on μ is one on c, and so on ε(c).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, ndtr, ndtri

from audit.bounds import gaussian_delta, gaussian_epsilon

Values = NDArray[np.float64]
_STRONGEST = 64.0


@dataclass(frozen=True)
class Pure:
    """A pair whose greatest loss at noise divided by c is `loss(c)`, δ = 0; None where only its bound is known."""

    loss: Callable[[float], float] | None = None

    def epsilon(self, weaker: float = 1.0) -> float | None:
        return None if self.loss is None else self.loss(weaker)


@dataclass(frozen=True)
class Gaussian:
    """Gaussian observations μ deviations apart in all: the discrete ones, of σ above 10⁷ steps, are as good."""

    mu: float
    delta: float

    def epsilon(self, weaker: float = 1.0) -> float:
        return gaussian_epsilon(weaker * self.mu, self.delta)

    def separation(self, weaker: float) -> float:
        return weaker * self.mu


@dataclass(frozen=True)
class GaussianAndChoice:
    """The same beside a choice by permute-and-flip of one of two, which are Δ apart, and then Δ the other way.

    Whichever is behind is chosen with probability e^(−ε_c/2)/2: log-odds from −b to b, b = log(2e^(ε_c/2) − 1).
    """

    mu: float
    choice: float
    delta: float

    def log_odds(self, weaker: float = 1.0) -> float:
        """The log-odds b, with noise `weaker` times weaker."""
        return math.log(2.0 * math.exp(weaker * self.choice / 2.0) - 1.0)

    def epsilon(self, weaker: float = 1.0) -> float:
        half, mu = self.log_odds(weaker), weaker * self.mu
        if weaker == 0.0:
            return 0.0

        def delta(epsilon: float) -> float:  # given the choice the rest is Gaussian, its loss moved by ±half
            return sum(
                float(expit(sign * half)) * gaussian_delta(mu, epsilon - sign * half) for sign in (1.0, -1.0)
            )

        return float(brentq(lambda e: delta(e) - self.delta, 0.0, mu * mu + 40.0 * mu + half))

    def separation(self, weaker: float) -> float:
        """Of the event {ℓ > 0}, ℓ with the honest weights; the pair is symmetric."""
        b, seen, mu = self.log_odds(weaker), self.log_odds(), self.mu
        p = sum(
            float(expit(sign * b) * ndtr((mu * mu / 2.0 + sign * seen) / (mu / weaker))) for sign in (1.0, -1.0)
        )
        return 2.0 * float(ndtri(p))


Parametric = Gaussian | GaussianAndChoice


def weaker_than(law: Parametric, separation: float) -> float:
    """The c of which this is the separation: 0 where there is none, and never above 64."""
    if separation <= 0.0:
        return 0.0
    if law.separation(_STRONGEST) <= separation:
        return _STRONGEST
    if law.separation(1e-3) >= separation:
        return 0.0
    return float(brentq(lambda c: law.separation(c) - separation, 1e-3, _STRONGEST))


@dataclass(frozen=True)
class BestOfTwo:
    """Best of K trials, each of one of two candidates alike, its quality with Laplace noise of scale 1/`base`.

    Attributes:
        tops: the two exact qualities, in units of what one record moves.
        base: ε of one trial.
        shape: η of K's law.
        mean: E[K].
    """

    tops: tuple[float, float]
    base: float
    shape: float
    mean: float

    @cached_property
    def gamma(self) -> float:
        """γ, from E[K]: Papernot and Steinke (2022), Definition 1."""

        def mean(log_gamma: float) -> float:
            g = math.exp(log_gamma)
            if self.shape == 0.0:
                return (1.0 / g - 1.0) / -log_gamma
            return self.shape * (1.0 - g) / (g * -math.expm1(self.shape * log_gamma))

        return math.exp(float(brentq(lambda x: mean(x) - self.mean, -30.0, -1e-9)))

    def log_density(self, candidate: NDArray[np.int64], quality: Values, trials: Values | None = None) -> Values:
        """Of (which, its quality) at the best of K: f′(F(q))·m(q)/2; or given K, K·F(q)^(K−1)·m(q)/2."""
        scaled = [(quality - top) * self.base for top in self.tops]
        F = (
            sum(
                np.where(x < 0.0, 0.5 * np.exp(np.minimum(x, 0.0)), 1.0 - 0.5 * np.exp(-np.maximum(x, 0.0)))
                for x in scaled
            )
            / 2.0
        )
        own = -np.abs(np.where(candidate == 0, scaled[0], scaled[1]))
        if trials is not None:
            return own + (trials - 1.0) * np.log(np.maximum(F, 1e-300))
        return own - (1.0 + self.shape) * np.log1p(-(1.0 - self.gamma) * F) + math.log(self.base / 4.0)


def best_of_two_loss(here: BestOfTwo, there: BestOfTwo) -> float:
    """The greatest |log-likelihood ratio| over all outcomes."""
    q = np.linspace(min(*here.tops, *there.tops) - 5.0, max(*here.tops, *there.tops) + 60.0 / here.base, 200_001)
    found = [here.log_density(np.full(q.shape, i), q) - there.log_density(np.full(q.shape, i), q) for i in (0, 1)]
    return float(max(np.abs(ratio).max() for ratio in found))
