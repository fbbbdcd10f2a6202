"""Two models on the same records: the exact sum of clipped differences of their scores.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s_i(λ) | `steps` | record i's score under a model, rounded to whole steps of G/2²⁴ | (m,) in 0 … 2²⁴ |
| c | `clipped` | public bound of a difference, in steps | integer, 1 … 2²³ − 1 |
| d_i | — | clip(s_i(λ) − s_i(λ₀), −c, c) | (m,) |
| — | `stretched` | ⌊(d_i + c)·2²⁴/2c⌋ of each record | (m,) in 0 … 2²⁴ |

At fixed models each term is a function of its record alone and lies in 0 … 2²⁴, as a plain score's steps do:
replacing one record moves the sum by at most 2²⁴ steps, which is 2c of the difference. So a choice among such sums
is priced as a choice among plain ones, and its noise is 2c/2²⁴ of theirs in units of the score.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.grid import GRID

EQUAL_SCORE = GRID // 2  # what a record comes to on which the two models score alike


@dataclass(frozen=True)
class Pairing:
    """How candidates are compared with one of them. Public."""

    reference: int  # λ₀, an index into Λ
    clipped: int  # c, in steps of the grid, below half of it


def stretched(steps: NDArray[np.int64], reference: NDArray[np.int64], clipped: int) -> NDArray[np.int64]:
    """Return each record's score less the `reference`'s, clipped at ±`clipped` and scaled to 0 … 2²⁴ (2²³ where
    both are equal), (m,).

    Args:
        steps: of each record under the model, (m,) in 0 … 2²⁴.
        reference: the same under λ₀.
        clipped: c.
    """
    differences: NDArray[np.int64] = np.clip(steps - reference, -clipped, clipped)
    return (differences + clipped) * GRID // (2 * clipped)
