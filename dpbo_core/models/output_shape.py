"""What an estimator gives for k rows, and one that takes a table's own columns, for rows of their cells alone."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.named_columns import NamedColumn, data_frame

Verb = Literal["predict", "predict_proba", "decision_function"]


def shaped(prediction: Any, verb: Verb, n_rows: int) -> NDArray[Any] | None:
    """A prediction as float64 (k,) or (k, C); None where its shape does not fit the verb."""
    outcome = np.asarray(prediction)
    outcome = outcome if verb == "predict" else outcome.astype(np.float64)
    if verb == "predict_proba":
        return outcome if outcome.ndim == 2 and len(outcome) == n_rows else None
    return outcome.reshape(-1) if outcome.size == math.prod(outcome.shape[:1]) == n_rows else None


@dataclass(frozen=True)
class OfRows:
    """A fitted estimator that takes a table's own columns, asked with rows of their cells."""

    estimator: Any
    columns: tuple[NamedColumn, ...]

    def predict(self, rows: NDArray[Any]) -> Any:
        """The estimator's `predict` on the data frame of these rows."""
        return self.estimator.predict(data_frame(self.columns, rows))

    def predict_proba(self, rows: NDArray[Any]) -> Any:
        """The estimator's `predict_proba` on the data frame of these rows."""
        return self.estimator.predict_proba(data_frame(self.columns, rows))

    def decision_function(self, rows: NDArray[Any]) -> Any:
        """The estimator's `decision_function` on the data frame of these rows."""
        return self.estimator.decision_function(data_frame(self.columns, rows))
