"""What a search released, as scikit-learn keeps results."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ABSENT = object()  # a hyperparameter that a point does not have


def cv_results(points: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> dict[str, Any]:
    """scikit-learn's `cv_results_` of released scores; `param_…` is masked where a point lacks it.

    Args:
        points: hyperparameters of each step, (T,).
        scores: their private scores as released, (T,).
    """
    names = sorted({name for point in points for name in point})
    columns = {f"param_{name}": _masked([point.get(name, ABSENT) for point in points]) for name in names}
    released = np.array(scores, dtype=np.float64)
    ranks = np.array([1 + int((released > score).sum()) for score in released])
    return {"params": list(points), **columns, "mean_test_score": released, "rank_test_score": ranks}


def _masked(values: list[Any]) -> Any:
    """An array of `values`, (T,), masked where one is ABSENT."""
    column: Any = np.ma.masked_all(len(values), dtype=object)  # type: ignore[no-untyped-call]
    for i, value in enumerate(values):
        if value is not ABSENT:
            column[i] = value
    return column
