"""Accuracy: of a margin, and of a predicted class."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.models.scores.kinds import Declared, NaturalUnit, RecordScore, Scores, equal


@dataclass(frozen=True)
class Accuracy:
    """φ(t) = 1 where t > 0, else 0. It has no Lipschitz constant."""

    graded: ClassVar[bool] = False  # a record is right or wrong
    score_range: ClassVar[float] = 1.0  # G = 1: a record is right or wrong
    broken_score: ClassVar[float] = 0.0  # φ(0): what a record that cannot be read scores
    natural_unit: ClassVar[NaturalUnit] = NaturalUnit()  # A share of right predictions as it is

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant L = ∞, as the score is a step."""
        return math.inf

    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """Return the score of each margin, (m,): 1.0 for a margin above 0, else 0.0."""
        return (np.asarray(margins, dtype=np.float64) > 0.0).astype(np.float64)

    def span(self, norm: float) -> float:
        """The largest difference of two records' scores at weights of this norm: 1, or 0 if the norm is 0."""
        return 0.0 if norm == 0.0 else 1.0


@dataclass(frozen=True)
class Correct(RecordScore):
    """Accuracy: g = 1 where ŷ = y."""

    graded: ClassVar[bool] = False  # a record is right or wrong

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's score: 1.0 if the prediction is right, else 0.0."""
        return equal(outcome, truth).astype(np.float64)


ACCURACY = Declared(
    "accuracy",
    earns="1 where the prediction is right",
    between="0 and 1",
    of_margin=lambda _: Accuracy(),
    of_outcome=lambda _: Correct(),
)
