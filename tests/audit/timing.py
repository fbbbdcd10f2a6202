"""What the duration of a step tells: its correlation with the step's private quantity, measured.

For each method the steps of many runs are timed, and two correlations are taken: with the exact score of the step
(private in `lipschitz` and `private_grid`), and with the size of its noise (private in `private_trajectory`, where
the noise would tell the score).
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats
from worlds import Memory

from dpbo_core import halves
from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise
from dpbo_core.methods import METHODS
from dpbo_core.study import StudySpec


@dataclass(frozen=True)
class Correlation:
    """Spearman's rank correlation of a step's duration with a private quantity."""

    method: str
    quantity: str
    steps: int
    rho: float
    p_value: float


def measure(spec: StudySpec, runs: int) -> list[Correlation]:
    """The correlations of every method over `runs` runs on the bundled study."""
    public = halves.public_half(spec, ".")
    problem = replace(public.problem, search=replace(public.problem.search, steps=10))
    for i in range(len(problem.candidates)):
        problem.train(i)  # trained models are kept, so that a step's time is its scoring, its noise and its search
    honest = halves.sensitive_half(spec, ".", public)
    found = []
    for kind, cls in METHODS.items():
        method, durations, scores, noises = cls(), [], [], []
        for _ in range(runs):
            noise, seen = Noise(OperatingSystemNoise(), Memory()), _Seen(honest)
            noise.ahead(method.draws(problem))
            search = method.start(problem, method.plan(problem))
            for _ in range(method.n_steps(problem)):
                begun = time.perf_counter()
                released = search.step(seen, noise)
                durations.append(time.perf_counter() - begun)
                scores.append(seen.last * problem.score_per_step)
                if released is not None:
                    noises.append(abs(released["score"] - scores[-1]))
        for quantity, values in (("exact score", scores), ("size of the noise", noises)):
            if len(values) == len(durations) and np.ptp(values) > 0:
                result: Any = stats.spearmanr(durations, values)
                found.append(Correlation(kind, quantity, len(values), result.statistic, result.pvalue))
    return found


class _Seen:
    """The objective, remembering the last exact sum for the auditor."""

    def __init__(self, honest: Any) -> None:
        self.honest, self.last = honest, 0

    def evaluate(self, model: Any) -> Any:
        total = self.honest.evaluate(model)
        self.last = total.expose()
        return total
