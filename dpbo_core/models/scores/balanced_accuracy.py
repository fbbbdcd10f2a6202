"""Balanced accuracy of a set whose classes have public shares."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.declared import Declared
from dpbo_core.models.scores.record import Jumps, Scores, equal


@dataclass(frozen=True)
class BalancedAccuracy(Jumps):
    """g = 1/(C·π_y) where ŷ = y: its mean is the balanced accuracy of a set whose classes have the shares π."""

    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        ok = len(self.shares) > 1 and all(math.isfinite(share) and share > 0.0 for share in self.shares)
        if not ok or abs(sum(self.shares) - 1.0) > 1e-3:
            raise StudyInvalid(
                "model.class_shares are not the shares of at least two classes",
                cause="a share is 0 or missing, or they do not add up to 1",
                remedy="write the public share of every class, such as { no = 0.9, yes = 0.1 }",
            )

    @property
    def graded(self) -> bool:
        """False: a record is right or wrong."""
        return False

    @property
    def score_range(self) -> float:
        """G = 1/(C·min π): what the rarest class weighs."""
        return 1.0 / (len(self.shares) * min(self.shares))

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """1/(C·π_y) where the prediction is right, else 0.0."""
        weights = 1.0 / (len(self.shares) * np.array(self.shares))
        known = np.clip(truth.astype(np.int64), 0, len(weights) - 1)
        return np.where(equal(outcome, truth), weights[known], 0.0)


BALANCED_ACCURACY = Declared(
    "balanced_accuracy",
    earns="1/(C·π) where it is right, π the share of the record's class among C classes",
    between="0 and 1/(C·least π)",
    of_outcome=lambda numbers: BalancedAccuracy(numbers.shares),
    needs=("class_shares",),
)
