"""The worst neighbours of the exchange `outsourced`: one row and its opposite, or its answer at either end.

Rows are noised alike and independently, so that a table of n equal rows is n runs on one row. The pair is Δ apart
along one line: Gaussians √(2ρ) apart, whatever else is in the table.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from audit.laws import Gaussian
from dpbo_core.data.table import table_of
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.methods.outsourced.box import Outsourced, PrivateAnswers
from dpbo_core.methods.outsourced.geometry import image
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.privacy.unit import NeighboringRelation

Values = NDArray[np.float64]
KIND = "outsourced"


@dataclass(frozen=True)
class Rows:
    """The published table: `ends` are the row on V and on V′."""

    name: str
    box: Outsourced
    ends: tuple[tuple[float, ...], tuple[float, ...]]
    runs: tuple[int, int]
    kind = KIND

    def __post_init__(self) -> None:
        low, high = (self._image(end, 1)[0].astype(float) for end in self.ends)
        scale = self.box.mechanism(1, len(low)).scale
        object.__setattr__(self, "_points", (low, high, scale))
        object.__setattr__(self, "law", Gaussian(float(np.linalg.norm(low - high)) / scale, self.delta))

    @property
    def epsilon(self) -> float:
        return self.box.epsilon

    @property
    def delta(self) -> float:
        return self.box.delta

    def ratios(self, side: int, n: int) -> Values:
        """ℓ of n rows of one published table, (n,)."""
        low, high, scale = self.__dict__["_points"]
        mechanism = self.box.mechanism(n, len(low))
        publish = mechanism.prepare(mechanism.spend("table"), OperatingSystemNoise())
        drawn = publish(Sensitive(self._image(self.ends[side], n)))
        return (drawn - (low + high) / 2.0) @ (low - high) / scale**2

    def _image(self, end: tuple[float, ...], n: int) -> NDArray[np.int64]:
        columns = {f"x{i}": [value] * n for i, value in enumerate(end)}
        return image(table_of(columns), self.box.geometry(len(end))).expose()


@dataclass(frozen=True)
class Answers:
    """Private answers at the two ends of their range."""

    name: str
    answers: PrivateAnswers
    runs: tuple[int, int]
    kind = KIND

    def __post_init__(self) -> None:
        steps = tuple(self.answers.steps(end) for end in (self.answers.low, self.answers.high))
        scale = self.answers.mechanism.scale
        object.__setattr__(self, "_points", (*steps, scale))
        object.__setattr__(self, "law", Gaussian((steps[1] - steps[0]) / scale, self.delta))

    @property
    def epsilon(self) -> float:
        return self.answers.epsilon

    @property
    def delta(self) -> float:
        return self.answers.delta

    def ratios(self, side: int, n: int) -> Values:
        """ℓ of n answers, (n,)."""
        low, high, scale = self.__dict__["_points"]
        mechanism, exact = self.answers.mechanism, Sensitive((low, high)[side])
        applied = mechanism.prepare_each((mechanism.spend("answer"),) * n, OperatingSystemNoise())
        values = np.array([self.answers.value(apply(exact)) for apply in applied])
        drawn = (values - self.answers.low) / mechanism.unit
        return (drawn - (low + high) / 2.0) * (low - high) / scale**2


def rows_case(name: str, epsilon: float, delta: float, *, runs: tuple[int, int]) -> Rows:
    """Replace-one: a row at the norm bound and its opposite, 2B apart."""
    return Rows(name, Outsourced(epsilon, delta, norm_bound=2.0), ((1.2, 1.6), (-1.2, -1.6)), runs)


def moved_case(name: str, epsilon: float, delta: float, *, runs: tuple[int, int]) -> Rows:
    """The paper's relation: a row moves by 1."""
    box = Outsourced(epsilon, delta, relation=NeighboringRelation.ROW_MOVES_BY_ONE)
    return Rows(name, box, ((5.0, 0.0), (5.6, 0.8)), runs)


def answers_case(name: str, epsilon: float, delta: float, *, runs: tuple[int, int]) -> Answers:
    return Answers(name, PrivateAnswers(0.0, 1.0, epsilon, delta), runs)
