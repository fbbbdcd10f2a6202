"""Bayesian optimisation on noisy values, the kernel found as it goes and averaged over at the end.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `encoded` | candidates in the unit cube | (N, d) |
| h | `guess` | a public guess of the score at every candidate, centred, on the prior's scale | (N,) |
| σ² | `noise_variance` | of one told value, known | scalar |
| y_t | `tell(index, value)` | what was seen | scalar |

During the search one kernel is used, the most probable one, which costs O(t·N) a step. At the end the scores of a
few candidates are estimated by the mixture over all kernels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.acquisition import Acquisition, BayesianSearch
from dpbo_core.search.kernels import kernel_named, typical_lengthscale
from dpbo_core.search.mixture import KernelMixture, Mixture, Prior, average
from dpbo_core.search.posterior import Posterior

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
        """Begin a search that was told no value."""
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

    Args:
        kernel: "matern52" or "se".
        lengthscale: a number is where ℓ is centred, within a factor of about 2; "fit" centres it at 0.3√d, within
            a factor of about 7.
        dimensions: d.
        guessed: whether public scores are the prior mean. The score then differs little from that mean, so the
            prior's deviations are smaller.
        deviation: median of the kernel's standard deviation s; None for the usual one.
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
