"""Score for ordered classes: a prediction that is off by one class counts half."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.kinds import Declared, RecordScore, Scores, Verb


@dataclass(frozen=True)
class NearMiss(RecordScore):
    """g = max(0, 1 − ½·|ŷ − y|) for the most likely class ŷ; the range is G = 1."""

    @property
    def needs(self) -> Verb:
        """Return the prediction it needs: probabilities, whose largest gives the class."""
        return "predict_proba"

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's score (k,) from (k, C) probabilities and (k,) indices of classes."""
        near = np.maximum(0.0, 1.0 - 0.5 * np.abs(outcome.argmax(axis=1) - truth))
        return np.where(truth < 0, 0.0, near)  # a class that the training set does not have


NEAR_MISS = Declared(
    "near_miss",
    earns="1 where the class is right, ½ where it is the next one",
    between="0 and 1",
    of_outcome=lambda _: NearMiss(),
)
