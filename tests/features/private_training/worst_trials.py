"""The worst neighbours of `dp_hypo`: the best of a hidden number of private trials on two candidates.

From V to V′ A's quality goes down by Δ and B's, already the better one, goes up by Δ. That A is best at a quality
above both is then e^ε times less likely in one trial, and one more better trial e^ε times likelier in each of the
(1 + η) ways that K's law counts: (2 + η)ε as E[K] grows. With a finite mean the loss is less, and `law` says what.

| symbol | name here | meaning | shape |
|---|---|---|---|
| K | `asked` | trials: hidden, counted here for the planted fault that reveals them | integer |
| γ, η | `shape`, `steps` | K's law, E[K] = steps | scalars |
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from audit.laws import BestOfTwo, Pure, best_of_two_loss
from audit.runs import Doors, Sums
from audit.worst import chosen, sums, world
from numpy.typing import NDArray

from dpbo.features.private_training.dp_hypo import DpHypo
from dpbo.features.private_training.hypo_search import HypoSearch, informed
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import NoiseSource
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.amounts import from_units
from dpbo_core.privacy.release import Spend

Values = NDArray[np.float64]
BLOCK = 8_192


class Precomputed:
    """A trial's Laplace mechanism, its draws made in blocks through its own door; each serves once."""

    def __init__(self, mechanism: DiscreteLaplace, source: NoiseSource) -> None:
        self._mechanism, self._source, self._spend = mechanism, source, mechanism.spend("quality")
        self._waiting: deque[Any] = deque()

    def spend(self, what: str) -> Spend:
        return self._spend

    def prepare(self, spend: Spend, source: NoiseSource) -> Any:
        if not self._waiting:
            self._waiting.extend(self._mechanism.prepare_each((spend,) * BLOCK, self._source))
        return self._waiting.popleft()


@dataclass(frozen=True)
class Trials:
    """A `dp_hypo` study on two tables."""

    name: str
    method: DpHypo
    problem: Problem
    low: Sums
    high: Sums
    sides: tuple[BestOfTwo, BestOfTwo]
    law: Pure
    runs: tuple[int, int]
    reveals: bool = False
    delta = 0.0

    @property
    def kind(self) -> str:
        return self.method.kind

    @property
    def epsilon(self) -> float:
        return self.problem.epsilon

    def ratios(self, side: int, n: int) -> Values:
        """ℓ of n independent runs on V (0) or on V′ (1), (n,), with a uniform sampler's law."""
        table, plan = (self.low, self.high)[side], self.method.plan(self.problem)
        trial, mechanism = self.method._calibrated(self.problem)
        doors = Doors(tuple(self.method.draws(self.problem)))
        faster = replace(trial, score=Precomputed(trial.score, doors.source))
        prior = informed(self.method.prior, self.problem)
        which, quality, trials = np.empty(n, dtype=np.int64), np.empty(n), np.empty(n)
        for i in range(n):
            table.asked = 0
            search = HypoSearch(
                self.method,
                self.problem,
                plan,
                calibrated=(faster, mechanism),
                prior=prior,
                sampler=lambda: self.method._sampler(self.problem, trial, prior),
                only=None,
            )
            noise, _ = doors.noise()
            search.step(table, noise)
            value = search.finish(noise).value
            which[i], trials[i] = chosen(self.problem, value), table.asked
            quality[i] = value["score"] / self.problem.score_per_step / self.problem.record_steps
        here, there = (law.log_density(which, quality, trials if self.reveals else None) for law in self.sides)
        return here - there


def trials_case(
    name: str, method: DpHypo, epsilon: float, *, mean: int, gap: int, runs: tuple[int, int], reveals: bool = False
) -> Trials:
    """A at 1 and B at `gap`, then A at 0 and B at `gap` + 1, in units of what one record moves.

    With K revealed both go up: that the best of many trials is low is then rarer by a factor for each of them.
    """
    asked = world(m=gap + 1, epsilon=epsilon, steps=mean, delta=0.0)
    tops: Sequence[tuple[float, float]] = ((1.0, float(gap)), (0.0, gap + 1.0))
    if reveals:
        tops = ((0.0, 0.0), (1.0, 1.0))
    low, high = sums(asked, *tops)
    trial, _ = method._calibrated(asked)
    base = from_units(trial.score.epsilon_units)
    adaptive = method.sampler != "uniform"

    def sides(weaker: float = 1.0) -> tuple[BestOfTwo, BestOfTwo]:
        return tuple(BestOfTwo(top, weaker * base, method.eta, float(mean)) for top in tops)

    law = Pure(None if adaptive or reveals else lambda weaker: best_of_two_loss(*sides(weaker)))
    return Trials(name, method, asked, low, high, sides(), law, runs, reveals)
