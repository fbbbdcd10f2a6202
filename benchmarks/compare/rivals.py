"""What the methods are measured against: no privacy at all, and the textbook ways of being private.

| symbol | name here | meaning | shape |
|---|---|---|---|
| T | `problem.search.n_steps` | trainings | scalar |
| Δ | `change` | what one record moves a score by, G/m | scalar |
| K | `runs` | trials of the random stopping, Poisson with mean T, never shown | scalar |
| σ | `selection_noise` | deviation of the noise on each trial's score | scalar |

They run on tables of public scores with seeded noise; nothing here is offered to a study.
Sources: Srinivas et al. (2010), Algorithm 1; Dwork, Roth (2014), Theorems 3.6 and 3.16; Liu, Talwar (2019) and
Papernot, Steinke (2022), Theorem 6, whose price dp-accounting computes.

Running a private method on a table of scores, with noise from a seed: for public data alone.

The noise is injected, so that a comparison can be repeated; every release it makes says that it is not private, and
none is kept.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent
from dp_accounting.dp_event import RepeatAndSelectDpEvent
from dp_accounting.rdp import RdpAccountant
from numpy.typing import NDArray

from benchmarks.compare.tasks import TableScorer
from dpbo_core.mechanisms.noise import InjectedNoise, Noise
from dpbo_core.methods.contract import Method
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.release import Spend
from dpbo_core.search.bo import UCB, BayesianSearch
from dpbo_core.search.gp import Matern52, Posterior, typical_lengthscale


@dataclass(frozen=True)
class Outcome:
    """What a contender answers.

    Attributes:
        index: of the chosen candidate in Λ; None where it releases none.
        score: what it says of its score; None where it says nothing.
        interval: around it, where it gives one.
    """

    index: int | None
    score: float | None
    interval: tuple[float, float] | None = None


class Forgetful:
    """A recorder of one run."""

    def __init__(self) -> None:
        self._draws: dict[str, Mapping[str, Any]] = {}

    def recorded(self, what: str) -> Mapping[str, Any] | None:
        """The draw recorded in this run under `what`; None if there is none."""
        return self._draws.get(what)

    def record(self, spend: Spend, draw: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """The noise draw of a spend, by its name: made now, or before in this run; nothing is kept longer."""
        if spend.what not in self._draws:
            self._draws[spend.what] = draw()
        return self._draws[spend.what]


def run_on(method: Method, problem: Problem, scorer: TableScorer, *, seed: int) -> Outcome:
    """The outcome of one run of `method`, from its plan to its release: its choice, score and interval."""
    search = method.start(problem, method.plan(problem))
    noise = Noise(InjectedNoise(np.random.default_rng(seed)), Forgetful())
    for _ in range(method.n_steps(problem)):
        search.step(scorer, noise)
    return outcome_of(search.finish(noise).value, scorer)


def outcome_of(value: Mapping[str, Any], scorer: TableScorer) -> Outcome:
    """A release's choice as a candidate's index, with its score and interval; None for what it does not show."""
    point, interval = value.get("hyperparameters"), value.get("interval")
    index = None if point is None else scorer.place_of(point)
    return Outcome(index, value.get("score"), None if interval is None else (interval[0], interval[1]))


def gp_ucb(problem: Problem, scores: NDArray[np.float64], *, seed: int) -> Outcome:
    """NOT private: GP-UCB on exact scores, β = 4; the best candidate visited. Deterministic but for its start."""
    encoded, (low, high) = problem.candidates.encoded, (scores.min(), scores.max())
    unit = (scores - low) / ((high - low) or 1.0)
    posterior = Posterior(encoded, Matern52(typical_lengthscale(encoded.shape[1]), 0.1), 1e-4, 0.5)
    search = BayesianSearch(posterior, UCB(4.0))
    visited = [int(np.random.default_rng(seed).integers(len(scores)))]
    search.tell(visited[0], float(unit[visited[0]]))
    while len(visited) < problem.search.n_steps:
        visited.append(search.ask())
        search.tell(visited[-1], float(unit[visited[-1]]))
    best = max(visited, key=lambda index: scores[index])
    return Outcome(best, float(scores[best]))


def random_search_with_laplace(problem: Problem, scores: NDArray[np.float64], *, seed: int) -> Outcome:
    """The largest of T random candidates' scores, each with Laplace noise at ε/T, and its candidate."""
    rng, T = np.random.default_rng(seed), problem.search.n_steps
    tried = rng.choice(len(scores), size=min(T, len(scores)), replace=False)
    noisy = scores[tried] + rng.laplace(scale=change(problem) * len(tried) / problem.epsilon, size=len(tried))
    place = int(np.argmax(noisy))
    return Outcome(int(tried[place]), float(noisy[place]))


def uniform_selection(problem: Problem, scores: NDArray[np.float64], *, sigma: float, seed: int) -> Outcome:
    """Random search of private length K: the largest noisy score and its candidate; for K = 0 any, and no score.

    Args:
        problem: of the table.
        scores: (N,).
        sigma: `selection_noise` of this problem.
        seed: of this run.
    """
    rng = np.random.default_rng(seed)
    runs = int(rng.poisson(problem.search.n_steps))
    if runs == 0:
        return Outcome(int(rng.integers(len(scores))), None)  # the fixed answer that an empty run gives
    tried = rng.integers(len(scores), size=runs)
    noisy = scores[tried] + sigma * rng.normal(size=runs)
    place = int(np.argmax(noisy))
    return Outcome(int(tried[place]), float(noisy[place]))


def change(problem: Problem) -> float:
    """By how much one person's records change the score at most: k·G/m of a mean."""
    return problem.record_steps * problem.metric_per_step


def selection_noise(problem: Problem) -> float:
    """The least noise σ, in units of the score and rounded up to one part in 10⁴, at which `uniform_selection` is
    (ε, δ)-private.
    """

    def epsilon_at(ratio: float) -> float:
        """The ε that `uniform_selection` costs at the noise σ = `ratio`·Δ."""
        event = RepeatAndSelectDpEvent(GaussianDpEvent(ratio), float(problem.search.n_steps), math.inf)
        return float(RdpAccountant().compose(event).get_epsilon(problem.delta))

    low, high = 1e-2, 1e4
    while high / low > 1.0001:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if epsilon_at(middle) <= problem.epsilon else (middle, high)
    return high * change(problem)
