"""What an estimator gives for k rows: its verbs, and the shape that fits each."""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Verb = Literal["predict", "predict_proba", "decision_function"]


def shaped(prediction: Any, verb: Verb, n_rows: int) -> NDArray[Any] | None:
    """The output of estimator method `verb`, (k,) or (k, C), floats unless "predict"; None in another shape."""
    outcome = np.asarray(prediction)
    outcome = outcome if verb == "predict" else outcome.astype(np.float64)
    if verb == "predict_proba":
        return outcome if outcome.ndim == 2 and len(outcome) == n_rows else None
    return outcome.reshape(-1) if outcome.size == math.prod(outcome.shape[:1]) == n_rows else None
