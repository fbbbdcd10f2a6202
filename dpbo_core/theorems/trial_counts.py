"""Laws of the number K of trials in a private selection, by their probability generating functions.

| symbol | name here | meaning | shape |
|---|---|---|---|
| K | a `TrialCount` | number of trials, drawn independently of the data and kept hidden | integer ≥ 0 |
| f(x) | `generating(r)` | E[x^K], evaluated at x = 1 − r | as r |
| f′(x) | `slope(r)` | E[K x^(K−1)], evaluated at x = 1 − r | as r |
| E[K] | `expected` | f′(1) | scalar |
| η, γ | `shape`, `gamma` | parameters of the truncated negative binomial law | scalars > −1, in (0, 1) |
| n | `n`, `limit` | trials of a binomial law, the most trials of a capped one | integer |

The functions take r = 1 − x because r may be as small as 10⁻¹⁴.

Sources: Papernot, Steinke (2022), Definition 1 and Section 3; a cap gives the law of min(K, n).
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, getcontext
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.theorems import papernot_steinke_2022

Floats = NDArray[np.float64]
_NO_SHAPE = 1e-40  # |η| below which γ^−η − 1 would lose its digits; the law differs from η = 0 by as little


class TrialCount(ABC):
    """A law of the number of trials K.

    `linear_fractional` says that the ratio f′(x)/f′(x′) is monotone while x and x′ move along straight lines.
    """

    name: ClassVar[str]
    linear_fractional: ClassVar[bool] = True

    @property
    def expected(self) -> float:
        """The expected number of trials E[K] = f′(1)."""
        return float(self.slope(np.zeros(1))[0])

    @abstractmethod
    def generating(self, r: Floats) -> Floats:
        """Return f(1 − r), the chance that none of the K trials is in an event of probability r."""

    @abstractmethod
    def slope(self, r: Floats) -> Floats:
        """Return f′(1 − r), which falls as r rises."""

    @abstractmethod
    def masses(self) -> Iterator[tuple[int, Decimal]]:
        """Yield pairs (k, Pr[K = k]) from the least k on, in the caller's decimal context."""

    def probabilities(self, n: int) -> Floats:
        """Return the probabilities of K = 0, …, n − 1, shape (n,)."""
        masses = np.zeros(n)
        for k, mass in takewhile(lambda pair: pair[0] < n, self.masses()):
            masses[k] = mass
        return masses


@dataclass(frozen=True)
class TruncatedNegativeBinomial(TrialCount):
    """K ≥ 1 with shape η > −1 and the γ that gives `mean`; η = 1 is the geometric and η = 0 the logarithmic law."""

    shape: float
    mean: float
    name: ClassVar[str] = "truncated negative binomial"

    def __post_init__(self) -> None:
        self.gamma  # noqa: B018  refuses a mean that no γ gives

    @cached_property
    def gamma(self) -> float:
        """The parameter γ in (0, 1) at which the law has this mean."""
        return papernot_steinke_2022.negative_binomial_gamma(shape=self.shape, mean=self.mean)

    def generating(self, r: Floats) -> Floats:
        """Return f(1 − r) = (u^−η − 1)/(γ^−η − 1), u = γ + (1−γ)r; log u / log γ for η = 0."""
        log_u, log_gamma = np.log(self.gamma + (1.0 - self.gamma) * r), math.log(self.gamma)
        if abs(self.shape) < 1e-12:  # the two forms differ by as little
            return np.asarray(log_u / log_gamma)
        return np.asarray(np.expm1(-self.shape * log_u) / math.expm1(-self.shape * log_gamma))

    def slope(self, r: Floats) -> Floats:
        """Return f′(1 − r) = E[K](γ/u)^(1+η)."""
        relative = 1.0 / (1.0 + (1.0 - self.gamma) / self.gamma * r)
        return np.asarray(self.mean * relative ** (1.0 + self.shape))

    def masses(self) -> Iterator[tuple[int, Decimal]]:
        """Yield pairs (k, Pr[K = k]) from k = 1 on, by Pr[K = k+1] = Pr[K = k]·(1−γ)(k+η)/(k+1)."""
        gamma, eta = Decimal(self.gamma), Decimal(self.shape if abs(self.shape) >= _NO_SHAPE else 0.0)
        mass, k = _probability_of_one(gamma, eta, getcontext().prec), 1
        while True:
            yield k, mass
            mass = mass * (1 - gamma) * (k + eta) / (k + 1)
            k += 1


@lru_cache(maxsize=64)  # a power and a logarithm of 150 digits take longer than all the rest
def _probability_of_one(
    gamma: Decimal, eta: Decimal, _digits: int
) -> Decimal:  # a value is of its context's digits
    return (1 - gamma) / -gamma.ln() if eta == 0 else (1 - gamma) * eta / (gamma ** (-eta) - 1)


@dataclass(frozen=True)
class Poisson(TrialCount):
    """K ~ Poisson(`mean`). K = 0 runs no trial and releases a fixed default."""

    mean: float
    name: ClassVar[str] = "Poisson"

    def generating(self, r: Floats) -> Floats:
        """Return f(1 − r) = e^(−μr)."""
        return np.asarray(np.exp(-self.mean * r))

    def slope(self, r: Floats) -> Floats:
        """Return f′(1 − r) = μe^(−μr)."""
        return np.asarray(self.mean * np.exp(-self.mean * r))

    def masses(self) -> Iterator[tuple[int, Decimal]]:
        """Yield pairs (k, Pr[K = k]) from k = 0 on, by Pr[K = k+1] = Pr[K = k]·μ/(k+1)."""
        mean = Decimal(self.mean)
        mass, k = (-mean).exp(), 0
        while True:
            yield k, mass
            k += 1
            mass = mass * mean / k


@dataclass(frozen=True)
class Binomial(TrialCount):
    """K ~ Binomial(n, p): each of n trials runs with probability p. K = 0 releases a fixed default."""

    n: int
    p: float
    name: ClassVar[str] = "binomial"

    def generating(self, r: Floats) -> Floats:
        """Return f(1 − r) = (1 − pr)ⁿ."""
        return np.asarray((1.0 - self.p * r) ** self.n)

    def slope(self, r: Floats) -> Floats:
        """Return f′(1 − r) = np(1 − pr)^(n−1)."""
        return np.asarray(self.n * self.p * (1.0 - self.p * r) ** (self.n - 1))

    def masses(self) -> Iterator[tuple[int, Decimal]]:
        """Yield pairs (k, Pr[K = k]) for k = 0, …, n."""
        p = Decimal(self.p)
        if self.p == 1.0:  # Decimal has no 0⁰
            yield self.n, Decimal(1)
            return
        for k in range(self.n + 1):
            yield k, math.comb(self.n, k) * p**k * (1 - p) ** (self.n - k)


@dataclass(frozen=True)
class Fixed(TrialCount):
    """K = n for certain, so that the number of trials may be known."""

    n: int
    name: ClassVar[str] = "fixed"

    def generating(self, r: Floats) -> Floats:
        """Return f(1 − r) = (1 − r)ⁿ."""
        return np.asarray((1.0 - r) ** self.n)

    def slope(self, r: Floats) -> Floats:
        """Return f′(1 − r) = n(1 − r)^(n−1)."""
        return np.asarray(self.n * (1.0 - r) ** (self.n - 1))

    def masses(self) -> Iterator[tuple[int, Decimal]]:
        """Yield the one pair (n, 1)."""
        yield self.n, Decimal(1)


@dataclass(frozen=True)
class CappedCount(TrialCount):
    """min(K, n) trials count, for K of any law. Running n trials always hides the number that count, at no δ."""

    law: TrialCount
    limit: int
    name: ClassVar[str] = "capped"
    linear_fractional: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.limit < 1:
            raise ValueError("a cap is at least one trial")

    @cached_property
    def _masses(self) -> Floats:
        """Probabilities of 0, …, n trials, shape (n + 1,)."""
        below = self.law.probabilities(self.limit)
        return np.append(below, max(0.0, 1.0 - float(below.sum())))

    def generating(self, r: Floats) -> Floats:
        """Return f(1 − r) = Σ p_k (1 − r)^k."""
        return np.asarray(np.polynomial.polynomial.polyval(1.0 - r, self._masses))

    def slope(self, r: Floats) -> Floats:
        """Return f′(1 − r) = Σ k p_k (1 − r)^(k−1)."""
        weights = np.arange(1, self.limit + 1) * self._masses[1:]
        return np.asarray(np.polynomial.polynomial.polyval(1.0 - r, weights))

    def masses(self) -> Iterator[tuple[int, Decimal]]:
        """Yield pairs (k, Pr[min(K, n) = k]) for k = 0, …, n."""
        yield from ((k, Decimal(mass)) for k, mass in enumerate(self._masses.tolist()))
