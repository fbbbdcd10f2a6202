"""Bayesian optimisation that starts from the scores of earlier editions, and drops them where new scores disagree.

An edition is one run of a study on new data. Its released, noisy scores are public.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `encoded` | candidates in the unit cube | (N, d) |
| — | `past` | scores of earlier editions, each with its own noise variance | `drifting.Observations` |
| w, p(y given past) | `learned` | the components that explain the past, with their drifts and changes | C of them |
| p(y) | `fresh` | the mixture that does not use the past, given this edition's scores | — |
| π | `FRESH_SHARE` | prior probability that the past is unrelated to the present | scalar |

The weights follow from Bayes' rule: π·p(y) in total for the fresh components, (1 − π)·w·p(y given past) for each of
the others. Candidates are chosen by the mean and the deviation of the heaviest components. After a sudden change
the fresh ones soon have most of the weight, and the edition then searches as if it had no past.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.search.bo import Acquisition, SearchDomain, averages
from dpbo_core.search.drifting import Drifting, Observations, past_observations
from dpbo_core.search.estimates import KernelMixture, average

FRESH_SHARE = 0.3
FOLLOWED, MOST_FOLLOWED = 0.95, 16  # candidates are chosen by the heaviest components, up to this weight and number
MAX_PAST_OBSERVATIONS = (
    120  # the newest editions that fit; if the newest alone has more, its candidates of the most precise means
)

Edition = Sequence[tuple[int, float, float]]  # (candidate, value, variance of its noise), on the prior's scale


@dataclass(frozen=True, eq=False)
class Beliefs:
    """The posterior of the present score: components conditioned on the past too, and fresh ones, weighted."""

    learned: Drifting  # conditioned on the scores of earlier editions and of this one
    fresh: KernelMixture | None  # conditioned on this edition's scores alone; None before there are any
    weights: NDArray[np.float64]  # of the learned components, then of the fresh ones, (C,); they sum to 1

    def moments(
        self, candidates: NDArray[np.float64], guess: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return each component's mean and standard deviation of n candidates' present scores, (C, n) each."""
        kinds = [kind for kind in (self.learned, self.fresh) if kind is not None and len(kind.weights)]
        means, deviations = zip(*(kind.moments(candidates, guess) for kind in kinds), strict=True)
        return np.vstack(means), np.vstack(deviations)

    @property
    def followed(self) -> "Beliefs":
        """The posterior reduced to its heaviest components: `FOLLOWED` of the weight, at most `MOST_FOLLOWED`."""
        order = np.argsort(-self.weights, kind="stable")
        enough = int(np.searchsorted(np.cumsum(self.weights[order]), FOLLOWED)) + 1
        chosen = np.sort(order[: min(enough, MOST_FOLLOWED)])
        C = len(self.learned.weights)  # from C on an index is that of a fresh component
        fresh = None if self.fresh is None else self.fresh.of(chosen[chosen >= C] - C)
        weights = self.weights[chosen]
        return Beliefs(self.learned.of(chosen[chosen < C]), fresh, weights / weights.sum())


class PresentSurrogate:
    """The surrogate that an acquisition asks: mean and deviation of the present score at every candidate."""

    def __init__(self, beliefs: Beliefs, encoded: NDArray[np.float64], guess: NDArray[np.float64]) -> None:
        means, deviations = beliefs.moments(encoded, guess)
        self.mean: NDArray[np.float64] = beliefs.weights @ means
        # the variance of a mixture: that within the components, and that between their means
        self._variance = beliefs.weights @ (deviations**2 + (means - self.mean) ** 2)

    @property
    def std(self) -> NDArray[np.float64]:
        """Standard deviation of the score, (N,); a fresh array at each call."""
        return np.sqrt(self._variance)


class LearningSearch:
    """Bayesian optimisation by ask and tell that begins with the scores of earlier editions.

    It is determined by its arguments and the values that it is told.
    """

    def __init__(self, domain: SearchDomain, acquisition: Acquisition, *, past: Sequence[Edition]) -> None:
        """Start a search without values of this edition; `past` has the earlier editions, oldest first."""
        self.domain, self._acquisition = domain, acquisition
        self._past = past_observations(self._past_observations(past), domain.prior)
        self._observations: list[tuple[int, float]] = []

    def ask(self) -> int:
        """Return the candidate to try next; before any value of this run, the best by earlier runs (editions)."""
        followed = PresentSurrogate(self.mixture().followed, self.domain.encoded, self.domain.guess)
        if not self._observations:
            return int(np.argmax(followed.mean))
        step, visited = len(self._observations) + 1, [index for index, _ in self._observations]
        return int(np.argmax(self._acquisition.scores(followed, step, visited)))

    def tell(self, index: int, value: float) -> None:
        """Add the value observed at candidate `index` in this run (edition)."""
        self._observations.append((index, value))

    def mixture(self) -> Beliefs:
        """Return the posterior of the present score, given earlier runs (editions) and every value of this one."""
        if not self._observations:
            return Beliefs(self._past, None, self._past.weights)
        visited, values, times = averages(self._observations)
        present = self._observations_of(
            visited, np.zeros(len(visited), dtype=np.int64), values, self.domain.noise_variance / times
        )
        fresh = average(present.points, present.values, present.noise, present.guess, self.domain.prior)
        learned = self._past.conditioned_on(self._past.observations.followed_by(present))
        log_predictive = learned.log_likelihoods - self._past.log_likelihoods  # log p(y given past)
        log_w = np.log((1.0 - FRESH_SHARE) * self._past.weights) + log_predictive
        log_w = np.concatenate([log_w, np.log(FRESH_SHARE * fresh.weights) + fresh.log_evidence])
        weights = np.exp(log_w - log_w.max())
        return Beliefs(learned, fresh, weights / weights.sum())

    def _past_observations(self, past: Sequence[Edition]) -> Observations:
        """Return the newest scores of earlier editions, at most `MAX_PAST_OBSERVATIONS`, oldest edition first.

        The scores of one candidate in one edition become one, their mean weighted by precision (1/noise variance).
        """
        editions: list[Observations] = []
        left = MAX_PAST_OBSERVATIONS
        for age, edition in enumerate(reversed([edition for edition in past if edition]), start=1):
            indices, values, variances = (np.array(column) for column in zip(*edition, strict=True))
            visited, place = np.unique(indices, return_inverse=True)
            precision = np.bincount(place, weights=1.0 / variances)
            means = np.bincount(place, weights=values / variances) / precision
            if len(visited) > left and editions:
                break
            chosen = np.sort(np.argsort(-precision, kind="stable")[:left])
            ages = np.full(len(chosen), age, dtype=np.int64)
            editions.append(self._observations_of(visited[chosen], ages, means[chosen], 1.0 / precision[chosen]))
            left -= len(chosen)
        whole, *others = reversed(editions)
        for other in others:
            whole = whole.followed_by(other)
        return whole

    def _observations_of(
        self,
        indices: NDArray[np.int64],
        ages: NDArray[np.int64],
        values: NDArray[np.float64],
        noise: NDArray[np.float64],
    ) -> Observations:
        return Observations(self.domain.encoded[indices], ages, values, noise, self.domain.guess[indices])
