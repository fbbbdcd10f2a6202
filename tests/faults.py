"""Faults planted in the methods, each of a kind that has been found in published libraries."""

import logging
from dataclasses import dataclass, replace

import numpy as np

from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.methods.private_grid import GridSearch, PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory, TrajectorySearch
from dpbo_core.privacy.sensitive import Sensitive


class _Faulty:
    """A method whose search is of another class."""

    search = None

    def start(self, problem, plan):
        made = super().start(problem, plan)
        made.__class__ = self.search
        return made


class _Branches(GridSearch):
    __slots__ = ()

    def step(self, objective, noise):
        super().step(objective, noise)
        if self._sums and self._sums[-1].expose() > self._problem.range_steps // 2:
            self._problem.train(0)  # a second look at what scored well


class _IfElse(GridSearch):
    __slots__ = ()

    def step(self, objective, noise):
        super().step(objective, noise)
        total = self._sums[-1].expose() if self._sums else 0
        if total > self._problem.range_steps // 2:
            self._sums[-1] = Sensitive(total)  # nothing but time tells


class _SkipsQuietly(GridSearch):
    __slots__ = ()

    def finish(self, noise):
        sums = [total.expose() for total in self._sums]
        if max(sums) > 0.7 * self._problem.range_steps:
            return f"the clear winner is {int(np.argmax(sums))}"
        return super().finish(noise)


class _Talks(GridSearch):
    __slots__ = ()

    def step(self, objective, noise):
        super().step(objective, noise)
        for total in self._sums:
            logging.getLogger("faulty").debug("a score above %d", total.expose() // 2**23)


class _FollowsRawScores(TrajectorySearch):
    __slots__ = ()

    def step(self, objective, noise):
        t, self._objective = len(self._path), objective
        index = self._bo.ask()
        total = objective.evaluate(self._problem.train(index))
        drawn = noise.release(self._plan.spends[t], self._observations[t], total, candidate=index)
        self._path.append((index, drawn["draw"]))
        self._bo.tell(index, self._map.mapped(total.expose() * self._problem.score_per_step))  # should be the draw
        return self._released_step(t)


class _ForgetsTheLastDraw(GridSearch):
    __slots__ = ()

    def finish(self, noise):
        select = self._plan.spends[0]
        utilities = Sensitive(np.array([total.expose() for total in self._sums], dtype=np.int64))
        return noise.release(select, self._selection, utilities)["draw"]


@dataclass(frozen=True)
class Branches(_Faulty, PrivateGrid):
    """Trains again where a private score is high."""

    search = _Branches


@dataclass(frozen=True)
class IfElse(_Faulty, PrivateGrid):
    """Runs another line where a private score is high."""

    search = _IfElse


@dataclass(frozen=True)
class SkipsQuietly(_Faulty, PrivateGrid):
    """Draws no noise where the winner looks clear."""

    search = _SkipsQuietly


@dataclass(frozen=True)
class Talks(_Faulty, PrivateGrid):
    """Logs which half of the range a score is in."""

    search = _Talks


@dataclass(frozen=True)
class ForgetsTheLastDraw(_Faulty, PrivateGrid):
    """Plans two draws and makes one."""

    search = _ForgetsTheLastDraw


@dataclass(frozen=True)
class FollowsRawScores(_Faulty, PrivateTrajectory):
    """Shows noised scores, and searches on the exact ones."""

    search = _FollowsRawScores


@dataclass(frozen=True)
class HalfSensitivity(PrivateGrid):
    """Forgets that a record can move a score both ways."""

    def _mechanisms(self, problem):
        return tuple(replace(m, sensitivity=m.sensitivity // 2) for m in super()._mechanisms(problem))


@dataclass(frozen=True)
class MeanForSum(PrivateGrid):
    """Calibrates to a mean and asks for a sum: Δ/m for Δ."""

    def _mechanisms(self, problem):
        return tuple(
            replace(m, sensitivity=m.sensitivity // problem.n_validation) for m in super()._mechanisms(problem)
        )


@dataclass(frozen=True)
class WholeBudgetEachStep(PrivateTrajectory):
    """Spends on every step what was meant for all of them."""

    def observations(self, problem):
        whole = DiscreteGaussian(problem.record_steps, self._rho(problem)[0], problem.score_per_step)
        return (whole,) * self.n_steps(problem)


class _ChoosesTheClear(GridSearch):
    __slots__ = ()

    def finish(self, noise):
        first, second = (total.expose() for total in self._sums[:2])
        return 0 if first > second else super().finish(noise)


@dataclass(frozen=True)
class ChoosesTheClear(_Faulty, PrivateGrid):
    """Says the first candidate without noise where it is the better one."""

    search = _ChoosesTheClear


class DropsBroken:
    """An objective that leaves out records it cannot read: the mean of the others."""

    def __init__(self, world, lines):
        self._whole = world.objective(lines)
        self._m = world.problem.n_validation

    def evaluate(self, model):
        broken = int(self._whole._records.expose().broken.sum())
        total = self._whole.evaluate(model).expose()
        return Sensitive(round((total - broken * 2**23) * self._m / max(1, self._m - broken)))


class Raises:
    """An objective that cannot bear a record without a number."""

    def __init__(self, world, lines):
        self._whole = world.objective(lines)

    def evaluate(self, model):
        if self._whole._records.expose().broken.any():
            raise ValueError("could not convert string to float")
        return self._whole.evaluate(model)
