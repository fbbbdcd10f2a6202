"""The exact integer form of a record's score: whole steps of its range.

| symbol | name here | meaning | shape |
|---|---|---|---|
| g | `scores` | a record's score | (m,) |
| G | `score_range` | range of one record's score | scalar > 0 |
| — | `GRID` | steps from 0 to G, 2²⁴ | integer |
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

GRID = 2**24  # steps from 0 to G


def to_grid(scores: ArrayLike, score_range: float, *, broken_score: float) -> NDArray[np.int64]:
    """Return each score, clipped to [0, G], in whole steps of G/2²⁴, rounded; NaN counts as `broken_score`.

    Args:
        scores: (m,), in [0, G]; anything outside is clipped.
        score_range: G > 0.
        broken_score: what a NaN counts as: φ(0) for a margin score, 0 for others. It is put in BEFORE the cast,
            since NaN as int64 is −9.2e18.

    Returns:
        (m,) int64. Their sums are exact for every m < 2³⁸, in any order.
    """
    steps = np.clip(np.asarray(scores, dtype=np.float64), 0.0, score_range)  # a copy; NaN stays NaN
    np.copyto(steps, float(broken_score), where=np.isnan(steps))
    if score_range != 1.0:
        steps /= score_range  # at most 1, so that no step is above 2²⁴
    steps *= GRID
    return np.rint(steps, out=steps).astype(np.int64)
