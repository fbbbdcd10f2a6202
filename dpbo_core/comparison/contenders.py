"""Running a private method on a table of scores, with noise from a seed: for public data alone.

The noise is injected, so that a comparison can be repeated; every release it makes says that it is not private, and
none is kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbo_core.comparison.tasks import TableScorer
from dpbo_core.mechanisms.noise import InjectedNoise, Noise
from dpbo_core.methods.contract import Method
from dpbo_core.privacy.plan import Spend
from dpbo_core.problem import Problem


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
        self._kept: dict[str, Mapping[str, Any]] = {}

    def recorded(self, what: str) -> Mapping[str, Any] | None:
        """What was drawn in this run."""
        return self._kept.get(what)

    def record(self, spend: Spend, draw: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        """Draw; the same run reads it back, and another draws anew."""
        if spend.what not in self._kept:
            self._kept[spend.what] = draw()
        return self._kept[spend.what]


def run_on(method: Method, problem: Problem, scorer: TableScorer, *, seed: int) -> Outcome:
    """One run of `method`, from its plan to its release."""
    noise = Noise(InjectedNoise(np.random.default_rng(seed)), Forgetful())
    search = method.start(problem, method.plan(problem))
    for _ in range(method.n_steps(problem)):
        search.step(scorer, noise)
    value = search.finish(noise).value
    index = None
    if "hyperparameters" in value:
        index = scorer.place_of(value["hyperparameters"])
    interval = value.get("interval")
    return Outcome(index, value.get("score"), None if interval is None else (interval[0], interval[1]))
