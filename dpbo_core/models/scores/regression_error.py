"""The absolute and the squared error of a regression under a public bound."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.kinds import Declared, Loss, Numbers, Scores


@dataclass(frozen=True)
class RegressionError(Loss):
    """g = Eᵖ − min(|ŷ − y|, E)ᵖ: the absolute error (p = 1) or the squared error (p = 2) under a public bound."""

    bound: float
    power: Literal[1, 2]

    @property
    def score_range(self) -> float:
        """The range G = Eᵖ of a record's score: Eᵖ less the p-th power of the error clipped at E."""
        return self.bound**self.power

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's score: Eᵖ less the p-th power of its clipped error."""
        with np.errstate(all="ignore"):
            error = np.abs(as_numbers(outcome) - truth)
            return np.asarray(self.score_range - np.minimum(error, self.bound) ** self.power, dtype=np.float64)


def as_numbers(outcome: NDArray[Any]) -> Scores:
    """Return predictions as float64, (k,), NaN for what is no number, which affects its own record only."""
    if outcome.dtype.kind in "biuf":
        return outcome.astype(np.float64)
    return np.array([_float_or_nan(item) for item in outcome.tolist()], dtype=float)


def _float_or_nan(item: object) -> float:
    try:
        return float(item) if isinstance(item, int | float) else math.nan
    except OverflowError:  # an integer of hundreds of digits
        return math.nan


def _regression_error(numbers: Numbers, power: Literal[1, 2]) -> RegressionError:
    if numbers.error_bound is None:  # the key is needed, and was looked for when the section was made
        raise ValueError
    return RegressionError(numbers.error_bound, power)


ABSOLUTE_ERROR = Declared(
    "absolute_error",
    earns="E − min(¦ŷ − y¦, E)",
    between="0 and E",
    of_outcome=lambda numbers: _regression_error(numbers, 1),
    regression=True,
    needs=("error_bound",),
)
SQUARED_ERROR = Declared(
    "squared_error",
    earns="E² − min(¦ŷ − y¦, E)²",
    between="0 and E²",
    of_outcome=lambda numbers: _regression_error(numbers, 2),
    regression=True,
    needs=("error_bound",),
)
