"""The Brier score."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.kinds import Declared, Loss, Scores, Verb


@dataclass(frozen=True)
class Brier(Loss):
    """g = 1 − ½ Σ_c (p_c − [c = y])²; for two classes 1 − (p − y)²."""

    needs: ClassVar[Verb] = "predict_proba"  # what it asks of an estimator: probabilities

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's score: 1 less half the squared distance of its probabilities from the true class."""
        total = np.zeros(len(truth))
        for c in range(outcome.shape[1]):  # one order of summation, whatever stands beside a record
            total += (np.clip(outcome[:, c], 0.0, 1.0) - (truth == c)) ** 2
        return 1.0 - 0.5 * total


BRIER = Declared("brier", earns="1 − ½ Σ (p − [its class])²", between="0 and 1", of_outcome=lambda _: Brier())
