"""What the steps of a search released, as scikit-learn's searches keep their results."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

ABSENT = object()  # a hyperparameter that a point does not have


def cv_results(points: Sequence[Mapping[str, Any]], scores: Sequence[float]) -> dict[str, Any]:
    """`params`, `param_…` (masked where a point has no such parameter), `mean_test_score`, `rank_test_score`.

    Args:
        points: hyperparameters of each step, (T,).
        scores: their private scores as released, (T,).
    """
    names = sorted({name for point in points for name in point})
    columns = {f"param_{name}": _masked([point.get(name, ABSENT) for point in points]) for name in names}
    found = np.array(scores, dtype=np.float64)
    ranks = np.array([1 + int((found > score).sum()) for score in found])
    return {"params": list(points), **columns, "mean_test_score": found, "rank_test_score": ranks}


def _masked(values: list[Any]) -> Any:
    held: Any = np.ma.masked_all(len(values), dtype=object)  # type: ignore[no-untyped-call]
    for i, value in enumerate(values):
        if value is not ABSENT:
            held[i] = value
    return held
