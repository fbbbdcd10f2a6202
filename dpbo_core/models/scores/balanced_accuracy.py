"""Balanced accuracy: of two classes by the count of pairs, of any by their public shares.

With public shares π it is a mean of record scores, and right where they are. Without them it is the AUC of the
predicted class for a decision value, (recall + specificity)/2, whatever the shares among the records are.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.kinds import (
    Asked,
    Declared,
    Integers,
    PairScore,
    RecordScore,
    Scores,
    check_shares,
    equal,
)


@dataclass(frozen=True)
class BalancedAccuracy(RecordScore):
    """g = 1/(C·π_y) where ŷ = y: its mean is the balanced accuracy of a set whose classes have the shares π."""

    graded: ClassVar[bool] = False  # a record is right or wrong

    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        check_shares(self.shares)

    @property
    def score_range(self) -> float:
        """The range G = 1/(C·min π) of a record's score: the weight of the rarest class."""
        return 1.0 / (len(self.shares) * min(self.shares))

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's score: 1/(C·π_y) if its prediction is right, π_y its class's share, else 0.0."""
        weights = 1.0 / (len(self.shares) * np.array(self.shares))
        classes = np.clip(truth.astype(np.int64), 0, len(weights) - 1)
        return np.where(equal(outcome, truth), weights[classes], 0.0)


@dataclass(frozen=True)
class PredictedClass(RecordScore):
    """The histogram cell of each record, plus 1: the upper one of two if the second class was predicted."""

    score_range: ClassVar[float] = 2.0  # B = 2, a cell a class

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's histogram cell plus 1, (k,): 2.0 if class 1 is predicted, else 1.0."""
        return 1.0 + equal(outcome, np.ones(len(truth), dtype=np.int64)).astype(np.float64)


@dataclass(frozen=True)
class PairedBalancedAccuracy(PairScore):
    """Balanced accuracy of two classes by the count of pairs."""

    n_cells: ClassVar[int] = 2  # B = 2, one a class

    def cells(self, name: str, asked: Asked) -> PredictedClass:
        """Return the map from predicted classes to 1 + a histogram cell; refused if `asked` gives no classes."""
        if asked("predict") is None:
            raise StudyInvalid(f"{name} cannot predict the public rows", remedy="name another estimator")
        return PredictedClass()

    def of_margins(self, decisions: Scores, norm: float) -> Integers:  # noqa: ARG002  a sign needs no scale
        """Return the histogram cell of each decision value ŵᵀx, (k,): 1 above 0, else 0."""
        with np.errstate(all="ignore"):
            return (decisions > 0.0).astype(np.int64)


BALANCED_ACCURACY = Declared(
    "balanced_accuracy",
    earns="of two classes its pairs with the other that are told apart, as above; with `class_shares` π of C "
    "classes 1/(C·π) where it is right",
    between="0 and 1 for the whole table; 0 and 1/(C·least π)",
    of_outcome=lambda numbers: BalancedAccuracy(numbers.shares),
    of_pairs=lambda _: PairedBalancedAccuracy(),
    called="a balanced accuracy",
    allows=("class_shares",),
)
