"""Runs of whole methods on two neighbouring tables of exact sums, quickly, with the operating system's noise.

The objective is a table: a run trains nothing and scores nothing. The method is the product's own, and its noise is
drawn in blocks through the mechanisms' own doors.

| symbol | name here | meaning | shape |
|---|---|---|---|
| V, V′ | `low`, `high` | exact sums of the candidates, in steps | (N,) |
| ℓ | `seen` | log-likelihood ratio of one transcript with the planned noise; positive speaks for V | scalar |
| — | `kept` | what the ledger holds of a run: every draw, with its candidate | by the draw's name |
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from worlds import Memory, Named

from audit.laws import Gaussian, GaussianAndChoice, Pure
from dpbo_core.mechanisms.exponential import PrivateSelection
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.gaussian_rows import GaussianRows
from dpbo_core.mechanisms.laplace import DiscreteLaplace
from dpbo_core.mechanisms.noise import Additive, Noise, OperatingSystemNoise
from dpbo_core.methods.contract import Method
from dpbo_core.methods.kusner_gp import NoisyGP
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.sensitive import Sensitive

Values = NDArray[np.float64]
Law = Pure | Gaussian | GaussianAndChoice
Seen = Callable[[Any, Mapping[str, Any]], float]
BLOCK = 512  # draws made at once


@dataclass
class Sums:
    """The exact sums of V's scores, (N,), in steps; counts how often it was asked, as no release may."""

    sums: list[int]
    asked: int = 0

    training = None

    def evaluate(self, model: Named) -> Sensitive[int]:
        self.asked += 1
        return Sensitive(self.sums[model.index])


@dataclass(frozen=True)
class Case:
    """A method, a problem and two neighbouring tables of exact sums.

    Attributes:
        runs: on each side, for an honest row and for a planted fault.
        planned_on: where the plan needs models that the table's do not give.
    """

    name: str
    method: Method
    problem: Problem
    low: Sums
    high: Sums
    seen: Seen
    law: Law
    runs: tuple[int, int] = (8_000, 8_000)
    planned_on: Problem | None = None

    @property
    def kind(self) -> str:
        return self.method.kind

    @property
    def epsilon(self) -> float:
        return self.problem.epsilon

    @property
    def delta(self) -> float:
        return self.method.plan(self.planned_on or self.problem).guarantee.delta

    def ratios(self, side: int, n: int) -> Values:
        """ℓ of n independent runs on V (0) or on V′ (1), (n,)."""
        table, asked = (self.low, self.high)[side], self.planned_on or self.problem
        plan, doors = self.method.plan(asked), Doors(tuple(self.method.draws(asked)))
        found = np.empty(n)
        for i in range(n):
            search = self.method.start(asked, plan)
            search._problem = self.problem
            noise, memory = doors.noise()
            for _ in range(self.method.n_steps(self.problem)):
                search.step(table, noise)
            released = search.finish(noise)
            found[i] = self.seen(getattr(released, "value", released), memory.kept)
        return found


class Doors:
    """What `Noise.prepare` prepares for one run, prepared for many: each draw serves once."""

    def __init__(self, draws: tuple[Any, ...]) -> None:
        self._draws, self.source = draws, OperatingSystemNoise()
        self._prepared: dict[Any, deque[Any]] = {}

    def noise(self) -> tuple[Noise, Memory]:
        """A door for one run, with its recorder."""
        memory = Memory()
        made = Noise(self.source, memory)
        made._prepared.update({spend.what: self._next(spend, mechanism) for spend, mechanism in self._draws})
        return made, memory

    def _next(self, spend: Any, mechanism: Any) -> Any:
        waiting = self._prepared.setdefault((spend.what, mechanism), deque())
        if not waiting:
            several = isinstance(mechanism, Additive)
            waiting.extend(
                mechanism.prepare_each((spend,) * BLOCK, self.source)
                if several
                else [mechanism.prepare(spend, self.source)] * BLOCK  # draws when it is applied
            )
        return waiting.popleft()


@contextmanager
def quickly() -> Iterator[None]:
    """What is the same in every run is made once, and a selection does not pause to hide its time."""
    draws, cache = NoisyGP.draws, {}

    def once(method: NoisyGP, problem: Problem) -> Any:
        key = (method, id(problem))
        if key not in cache:
            cache[key] = draws(method, problem)
        return cache[key]

    with ExitStack() as stack:
        for patched in (
            patch("dpbo_core.mechanisms.exponential.time.sleep", lambda seconds: None),
            patch.object(NoisyGP, "draws", once),
        ):
            stack.enter_context(patched)
        yield


@contextmanager
def weaker_noise(weaker: float) -> Iterator[None]:
    """The planted fault: every mechanism draws at its scale divided by `weaker`, and checks no price."""
    if weaker == 1.0:
        yield
        return
    with ExitStack() as stack:
        for mechanism in (DiscreteLaplace, DiscreteGaussian, GaussianRows, PrivateSelection):
            scale = mechanism.scale.fget
            faulty = property(lambda self, scale=scale: scale(self) / weaker)
            stack.enter_context(patch.object(mechanism, "scale", faulty))
        for module in ("drawing", "exponential", "gaussian_rows"):
            stack.enter_context(patch(f"dpbo_core.mechanisms.{module}.check_price", lambda price, units: None))
        yield
