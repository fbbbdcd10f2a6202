"""The shape of what an estimator gives for k rows."""

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Verb = Literal["predict", "predict_proba", "decision_function"]


def shaped(found: Any, verb: Verb, n_rows: int) -> NDArray[Any] | None:
    """(k,) classes or numbers, (k, C) probabilities or (k,) decision values as float64; None for another shape."""
    outcome = np.asarray(found)
    outcome = outcome if verb == "predict" else outcome.astype(np.float64)
    if verb == "predict_proba":
        return outcome if outcome.ndim == 2 and len(outcome) == n_rows else None
    return outcome.reshape(-1) if outcome.size == math.prod(outcome.shape[:1]) == n_rows else None
