"""The worst neighbours of the exchange `outsourced`: one row and its opposite, or its answer at either end.

Rows are noised alike and independently, so that a table of n equal rows is n runs on one row. The pair is Δ apart
along one line: Gaussians √(2ρ) apart, whatever else is in the table.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from audit.laws import Gaussian
from numpy.typing import NDArray

from dpbo.features.outsourced.box import REPLACE, Outsourced, PrivateAnswers
from dpbo.features.outsourced.geometry import image
from dpbo_core.data.table import table_of
from dpbo_core.mechanisms.noise import OperatingSystemNoise
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.privacy.sensitive import Sensitive

Values = NDArray[np.float64]
Ends = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class Noised:
    """A row of a published table, or a private answer, at `low` on V and at `high` on V′, (d,), in steps.

    Attributes:
        draw: n independent ones with their noise on V (0) or on V′ (1), (n, d).
    """

    name: str
    epsilon: float
    delta: float
    low: Values
    high: Values
    scale: float
    draw: Callable[[int, int], Values]
    runs: tuple[int, int]
    kind = "outsourced"

    @property
    def law(self) -> Gaussian:
        return Gaussian(float(np.linalg.norm(self.low - self.high)) / self.scale, self.delta)

    def ratios(self, side: int, n: int) -> Values:
        """ℓ of each, (n,)."""
        return (self.draw(side, n) - (self.low + self.high) / 2.0) @ (self.low - self.high) / self.scale**2


def _rows(name: str, box: Outsourced, ends: Ends, runs: tuple[int, int]) -> Noised:
    """One published table of n equal rows, each a run: they are `ends` on V and on V′."""

    def images(end: tuple[float, ...], n: int) -> NDArray[np.int64]:
        columns = {f"x{i}": [value] * n for i, value in enumerate(end)}
        return image(table_of(columns), box.geometry(len(end))).expose()

    def draw(side: int, n: int) -> Values:
        mechanism = box.mechanism(n, len(low))
        return mechanism.prepare(mechanism.spend("table"), OperatingSystemNoise())(Sensitive(images(ends[side], n)))

    low, high = (images(end, 1)[0].astype(float) for end in ends)
    return Noised(name, box.epsilon, box.delta, low, high, box.mechanism(1, len(low)).scale, draw, runs)


def rows_case(name: str, epsilon: float, delta: float, *, runs: tuple[int, int]) -> Noised:
    """Replace-one: a row at the norm bound and its opposite, 2B apart."""
    return _rows(
        name, Outsourced(epsilon, delta, relation=REPLACE, norm_bound=2.0), ((1.2, 1.6), (-1.2, -1.6)), runs
    )


def moved_case(name: str, epsilon: float, delta: float, *, runs: tuple[int, int]) -> Noised:
    """The paper's relation: a row moves by 1."""
    box = Outsourced(epsilon, delta, relation=NeighboringRelation.ROW_MOVES_BY_ONE)
    return _rows(name, box, ((5.0, 0.0), (5.6, 0.8)), runs)


def answers_case(name: str, epsilon: float, delta: float, *, runs: tuple[int, int]) -> Noised:
    """Private answers at the two ends of their range."""
    answers = PrivateAnswers(0.0, 1.0, epsilon, delta)
    mechanism, ends = answers.mechanism, [answers.steps(end) for end in (answers.low, answers.high)]

    def draw(side: int, n: int) -> Values:
        applied = mechanism.prepare_each((mechanism.spend("answer"),) * n, OperatingSystemNoise())
        values = np.array([[answers.value(apply(Sensitive(ends[side])))] for apply in applied])
        return (values - answers.low) / mechanism.unit

    low, high = (np.array([float(end)]) for end in ends)
    return Noised(name, epsilon, delta, low, high, mechanism.scale, draw, runs)
