"""The logarithmic loss under a public bound."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.kinds import Declared, Loss, Scores, Verb

LOG_LOSS_BOUND = math.log(100.0)  # a probability below 1% counts as 1%


@dataclass(frozen=True)
class LogLoss(Loss):
    """g = E − min(−log p_y, E)."""

    needs: ClassVar[Verb] = "predict_proba"  # what it asks of an estimator: probabilities

    bound: float = LOG_LOSS_BOUND

    @property
    def score_range(self) -> float:
        """The range G = E of a record's score: the loss is clipped at E and subtracted from it."""
        return self.bound

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's score: the bound E less its clipped log loss."""
        right = outcome[np.arange(len(truth)), np.clip(truth.astype(np.int64), 0, outcome.shape[1] - 1)]
        with np.errstate(all="ignore"):
            loss = np.minimum(-np.log(np.clip(right, 0.0, 1.0)), self.bound)
            return np.asarray(self.bound - loss, dtype=np.float64)


LOG_LOSS = Declared(
    "log_loss",
    earns="E − min(−log p, E)",
    between="0 and E, log 100 if not given",
    of_outcome=lambda numbers: LogLoss(LOG_LOSS_BOUND if numbers.error_bound is None else numbers.error_bound),
    allows=("error_bound",),
)
