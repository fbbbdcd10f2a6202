"""Bayesian optimisation: acquisitions, the search by one posterior, and the search that finds its kernel.

Each acquisition scores all N candidates, and the search takes the largest. Its loop is turned inside out: ask which
candidate to try, tell what was seen there.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `encoded` | candidates in the unit cube | (N, d) |
| t | `step` | the step that the next `ask` is for, from 1 | scalar |
| λ_t | `ask()` | the candidate to try at step t | index |
| y_t | `tell(index, value)` | what was seen, on the prior's scale | scalar |
| σ² | `noise_variance` | of one told value, known | scalar |
| h | `guess` | a public guess of the score at every candidate, centred, on the prior's scale | (N,) |
| μ, σ | `posterior.mean`, `posterior.std` | posterior of the score | (N,) |
| β_t | `UCB.beta_at` | weight of exploration, under the root: μ + √β_t·σ | scalar ≥ 0 |
| δ′ | `UCB.delta` | failure probability of the confidence bounds | scalar in (0, 1) |
| μ⁺ | `incumbent` | largest posterior mean among the visited | scalar |
| Φ, φ | — | distribution and density of the standard normal | — |

β is that of Srinivas et al. (2010): it multiplies the variance under the root. Some libraries call √β by that name.

Where the kernel is not known, the most probable one is used during the search, which costs O(t·N) a step. At the
end the scores of a few candidates are estimated by the mixture over all kernels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.estimates import KernelMixture, Mixture, Prior, average
from dpbo_core.search.gp import Posterior, kernel_named, typical_lengthscale
from dpbo_core.theorems import srinivas_2010

# ruff: noqa: ARG002  every acquisition takes the protocol's arguments, needed or not


class Surrogate(Protocol):
    """A model of the score at every candidate: its mean and its standard deviation."""

    @property
    def mean(self) -> NDArray[np.float64]:
        """Expected score of each candidate, (N,); read-only."""

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of each candidate's score, (N,); a fresh array at each call."""


class Acquisition(Protocol):
    """A rule for the next candidate, from the posterior, the step and the candidates visited."""

    def scores(self, posterior: Surrogate, step: int, visited: Sequence[int]) -> NDArray[np.float64]:
        """Return how promising each candidate is, shape (N,): the largest is tried next."""


@dataclass(frozen=True)
class UCB:
    """Upper confidence bound μ + √β_t·σ. Source: Srinivas et al. (2010), Algorithm 1."""

    beta: float | None = None  # β, the same at every step; None for β_t = 2 log(N t² π²/(6 δ′))
    delta: float = 0.1  # δ′, used when `beta` is None

    def __post_init__(self) -> None:
        if self.beta is not None and not 0.0 <= self.beta < math.inf:
            raise ValueError(f"UCB with beta = {self.beta}, and not a finite number of at least 0")
        if not 0.0 < self.delta < 1.0:
            raise ValueError(f"UCB with delta = {self.delta}, and not a probability between 0 and 1")

    def beta_at(self, n_candidates: int, step: int) -> float:
        """Return the β_t of the bound μ + √β_t·σ at step t ≥ 1: `beta`, or by Srinivas et al. (2010) if None."""
        if self.beta is not None:
            return self.beta
        return srinivas_2010.beta(n_candidates=n_candidates, step=step, delta=self.delta)

    def scores(self, posterior: Surrogate, step: int, visited: Sequence[int]) -> NDArray[np.float64]:
        """Return each candidate's upper confidence bound μ + √β_t·σ, shape (N,)."""
        bound = posterior.std
        bound *= math.sqrt(self.beta_at(len(bound), step))
        bound += posterior.mean
        return bound


@dataclass(frozen=True)
class ExpectedImprovement:
    """E[max(f(λ) − μ⁺, 0)] = σ(uΦ(u) + φ(u)), u = (μ − μ⁺)/σ.

    Observations are noisy, so the incumbent μ⁺ is the best posterior mean among the visited candidates, never the
    luckiest observation. Before any visit it is the best prior mean. Source: Jones, Schonlau and Welch (1998),
    equation 15, for a maximum and with that incumbent.
    """

    def scores(self, posterior: Surrogate, step: int, visited: Sequence[int]) -> NDArray[np.float64]:
        """Return each candidate's expected improvement over the best posterior mean of those visited, ≥ 0, (N,)."""
        from scipy.special import ndtr

        # In place throughout, because N may be millions: `u` becomes φ(u)·σ and `gain` becomes (μ − μ⁺)·Φ(u).
        incumbent = posterior.mean[list(visited)].max() if visited else posterior.mean.max()
        gain, u = posterior.mean - incumbent, posterior.std
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # σ = 0: u = ±∞, or 0/0
            np.divide(gain, u, out=u)
            gain *= ndtr(u)
            u *= u
            u *= -0.5
            np.exp(u, out=u)
        u *= posterior.std
        u /= math.sqrt(2.0 * math.pi)
        gain += u
        gain[np.isnan(gain)] = 0.0  # the candidate is known, and equal to the incumbent
        improvement: NDArray[np.float64] = np.maximum(gain, 0.0, out=gain)
        return improvement


def acquisition_named(name: str, *, beta: float | None = None) -> Acquisition:
    """Return the acquisition that a study calls `name`; `beta` has an effect on "ucb" alone."""
    acquisitions: dict[str, Acquisition] = {"ucb": UCB(beta), "ei": ExpectedImprovement()}
    return acquisitions[name]


class BayesianSearch:
    """Bayesian optimisation over Λ by ask and tell, determined by its arguments and the values it is told.

    `ask` may be repeated, and a search told the same values again, in another process too, takes the same path.
    """

    def __init__(self, posterior: Posterior, acquisition: Acquisition) -> None:
        self.posterior = posterior  # of all candidates' scores, given every value so far
        self._acquisition = acquisition
        self.visited: list[int] = []  # candidates with values so far, in order; one may be there more than once

    @property
    def step(self) -> int:
        """The step t of the next `ask`: one more than the number of values so far."""
        return len(self.visited) + 1

    def ask(self) -> int:
        """Return the candidate with the largest acquisition; before any value the most central."""
        if self.visited:
            scores = self._acquisition.scores(self.posterior, self.step, self.visited)
        else:
            scores = -((self.posterior.candidates - 0.5) ** 2).sum(axis=1)  # nearness to the cube's centre
        return int(scores.argmax())

    def tell(self, index: int, value: float) -> None:
        """Add the value observed at `index`, which need not be the candidate asked for."""
        self.posterior.observe(index, value)
        self.visited.append(int(index))


REFIT_UNTIL, GROWTH = 20, 1.1  # the kernel is found again at each of the first 20 values, then at every tenth more


@dataclass(frozen=True, eq=False)
class SearchDomain:
    """The public half of a search on noisy values: Λ, the score's prior, σ² and h (zeros: there is no guess)."""

    encoded: NDArray[np.float64]
    prior: Prior
    noise_variance: float
    guess: NDArray[np.float64]

    def moments(
        self, mixture: Mixture, indices: NDArray[np.int64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each mixture component's mean and standard deviation of n candidates' scores, (C, n) each.

        Scores are in the prior's units; `indices` are the candidates' positions in Λ.
        """
        return mixture.moments(self.encoded[indices], self.guess[indices])


class AveragedSearch:
    """Bayesian optimisation by ask and tell that finds its kernel as it goes and averages over kernels at the end.

    It is determined by its arguments and the values that it is told.
    """

    def __init__(self, domain: SearchDomain, acquisition: Acquisition) -> None:
        self.domain, self._acquisition = domain, acquisition
        self._observations: list[tuple[int, float]] = []
        self._fitted_at = 0
        prior, trust = domain.prior, (1.0 if domain.prior.guessed else 0.0)
        start = prior.deviation**2 + prior.offset_deviation**2
        self._path = self._with_fixed_kernel(prior.lengthscale, start, trust * domain.guess)

    def ask(self) -> int:
        """Return the candidate to try next; before any value the best public guess, or the most central one."""
        if not self._observations and self.domain.prior.guessed:
            return int(np.argmax(self.domain.guess))
        return self._path.ask()

    def tell(self, index: int, value: float) -> None:
        """Add the value observed at `index`; refit the kernel after each of the first values, later after 10% more.

        `REFIT_UNTIL` and `GROWTH` set this schedule. A new kernel needs a new posterior, so that all earlier values
        are told to it again.
        """
        self._observations.append((index, value))
        t = len(self._observations)
        if t > REFIT_UNTIL and t < GROWTH * self._fitted_at:
            self._path.tell(index, value)
            return
        self._fitted_at, posterior = t, self.mixture()
        mean = posterior.trusts[0] * self.domain.guess + posterior.offset
        self._path = self._with_fixed_kernel(float(posterior.lengthscales[0]), float(posterior.variances[0]), mean)
        for i, y in self._observations:
            self._path.tell(i, y)

    def mixture(self) -> KernelMixture:
        """Return the posterior over kernels given every value so far."""
        domain, (visited, values, times) = self.domain, averages(self._observations)
        return average(
            domain.encoded[visited], values, domain.noise_variance / times, domain.guess[visited], domain.prior
        )

    def _with_fixed_kernel(self, lengthscale: float, variance: float, mean: NDArray[np.float64]) -> BayesianSearch:
        domain, kernel = self.domain, kernel_named(self.domain.prior.kernel, lengthscale, variance)
        posterior = Posterior(domain.encoded, kernel, domain.noise_variance, mean)
        return BayesianSearch(posterior, self._acquisition)


def averages(
    observations: Sequence[tuple[int, float]],
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the indices of the candidates visited (ascending), the mean of each one's values, and their number."""
    indices = np.array([index for index, _ in observations], dtype=np.int64)
    visited, place = np.unique(indices, return_inverse=True)
    times = np.bincount(place).astype(np.float64)
    return visited, np.bincount(place, weights=[value for _, value in observations]) / times, times


def prior_of(
    *, kernel: str, lengthscale: float | str, dimensions: int, guessed: bool, deviation: float | None = None
) -> Prior:
    """Return the public prior over kernels for a score that is mapped to [−2, 2].

    A lengthscale that is a number centres ℓ within a factor of about 2; "fit" does at 0.3√d, within one of about 7.
    Where public scores are the prior mean (`guessed`) the score differs little from it: the deviations are smaller.
    """
    free = isinstance(lengthscale, str)  # "fit"
    return Prior(
        kernel=kernel,
        lengthscale=typical_lengthscale(dimensions) if isinstance(lengthscale, str) else lengthscale,
        lengthscale_spread=1.0 if free else 0.4,
        deviation=(0.1 if guessed else 0.4) if deviation is None else deviation,
        deviation_spread=1.0,
        offset_deviation=0.5 if guessed else 1.2,
        guessed=guessed,
    )
