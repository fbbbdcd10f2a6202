"""A user's function of one record."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.isolated_estimator import contained
from dpbo_core.models.scores.kinds import NaturalUnit, RecordScore, Scores
from dpbo_core.privacy.sensitive import each


def _planned(_truth: object, _prediction: object) -> float:
    """Stand in for the score function of a study that is only planned: to call it raises ValueError."""
    raise ValueError("this score was made for planning; its function was not imported")


@dataclass(frozen=True)
class BoundedFunction(RecordScore):
    """A user's function f(truth, prediction) of ONE record, clipped to [low, high]; g = f − low.

    It is called with two whole numbers, the indices of classes among the sorted PUBLIC ones, or of a regression
    with two floats; never with a text, which a function that is no score could take for a path or a command.
    """

    name: str  # its import path
    low: float  # public lower end
    high: float  # public upper end, above `low`
    # called once a record with what that record holds; if it raises, the record scores 0. While the study is only
    # planned there is none to call.
    function: Callable[[Any, Any], float] = field(default=_planned, repr=False)

    @property
    def score_range(self) -> float:
        """The range G = high − low of a record's score."""
        return self.high - self.low

    @property
    def natural_unit(self) -> NaturalUnit:
        """The unit in which people read the score: the function's own value, low + g."""
        return NaturalUnit(self.low)

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's score (k,), f − low, not yet clipped; NaN if f raises or gives no number."""
        with contained():
            return np.array(
                each(self._value, _pairs(outcome, truth), math.nan)
            )  # what it raised may quote a record

    def values(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's score (k,), with errors raised: for a confined process, whose failure scores 0."""
        return np.array([self._value(pair) for pair in _pairs(outcome, truth)])

    def check(self, outcome: NDArray[Any], truth: NDArray[Any]) -> None:
        """Refuse a function that raises or leaves its stated bounds on PUBLIC rows."""
        values = self.of(outcome, truth)
        if not ((values >= 0.0) & (values <= self.score_range)).all():
            raise StudyInvalid(
                f"the score function leaves [{self.low:g}, {self.high:g}], or fails, on the public training rows",
                cause="its bounds are too narrow, or it does not return one number for one record",
                remedy="widen the bounds; the noise grows with their distance",
            )

    def _value(self, pair: tuple[Any, Any]) -> float:
        truth, prediction = pair
        return float(self.function(truth, type(truth)(prediction))) - self.low  # an estimator may predict texts


def _pairs(outcome: NDArray[Any], truth: NDArray[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(truth.tolist(), outcome.tolist(), strict=True)
