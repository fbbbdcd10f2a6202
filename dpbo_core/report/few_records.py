"""What a noised table says of a class that has few records: whether it has any, and the ends of means over it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| P_b | `cells` | noised counts of the class's records, by bin; their table is shifted to a known sum | (…, B) |
| h_b | `weights` | what a record of the bin adds to the mean, in [0, 1] | (…, B) |
| b, C | `scale`, `n_all` | of the noise in each cell, and how many cells the table has | scalars |
| G | `n_summed` | how many of them each P_b is the sum of | scalar |
| A | — | Σ h_b P_b / Σ P_b: a recall, or an AUC | (…) |

A = h̄ + V/P, where h̄ is the mean of the h_b, V = Σ (h_b − h̄) P_b and P = Σ P_b. The noise of V and that of P are
uncorrelated, so that A's ends are those of an AUC by pairs (`methods.pair_bounds`): P's own allow for its having
been large enough to be shown.
"""

import math

import numpy as np

from dpbo_core.methods.pair_bounds import COUNT, NoiseTail, auc_interval, bounds_of_pairs
from dpbo_core.report.report_kind import Interval, Reals

ABSENT = 5e-4  # chance that a class without any record seems to have some
FEW = 3.0  # times what shows that there are any records


def least_clear(n_cells: int, n_all: int, scale: float) -> float:
    """The least sum of `n_cells` noised cells that shows that there are any records there at all.

    Its noise reaches that with a chance of at most `ABSENT`: Chernoff's bound, by the moments of the Laplace law,
    which are above those of the discrete one.
    """
    inside, outside = _parts(n_cells, n_all)
    t = np.linspace(0.002, 0.998, 499) / (scale * max(inside, outside))
    moments = n_cells * np.log1p(-((t * scale * inside) ** 2))
    moments = moments + (n_all - n_cells) * np.log1p(-((t * scale * outside) ** 2))
    return float(((-math.log(ABSENT) - moments) / t).min())


def mean_bounds(cells: Reals, weights: Reals, scale: float, n_summed: int, n_all: int) -> Interval:
    """The ends of A, (…), where P is less than `FEW` times what shows that it is not 0; NaN elsewhere."""
    n_cells = n_summed * cells.shape[-1]
    inside, outside = _parts(n_cells, n_all)
    of_whole = NoiseTail(
        scale * math.sqrt(2.0 * (n_cells * inside**2 + (n_all - n_cells) * outside**2)), gaussian=True
    )
    middle, whole = weights.mean(axis=-1), cells.sum(axis=-1)
    apart = weights - middle[..., None]
    reach = NoiseTail(scale, gaussian=True).reach(COUNT / 2.0) * np.sqrt(2.0 * n_summed * (apart**2).sum(axis=-1))
    moved = (apart * cells).sum(axis=-1)
    _, least, most = bounds_of_pairs(whole, of_whole, math.inf)
    ends = auc_interval((moved - reach, moved + reach), (least, most), middle)
    few = whole < FEW * least_clear(n_cells, n_all, scale)
    return np.where(few, ends[0], np.nan), np.where(few, ends[1], np.nan)


def widened(interval: Interval, value: Reals, ends: list[Interval]) -> Interval:
    """An interval of a mean, so wide that it holds its `ends` by each class that it is over, where there are any.

    How far they are from `value` by several classes is added as independent deviations are.
    """
    off = [np.stack([value - low, high - value]) for low, high in ends]
    below, above = np.sqrt(np.nansum([np.maximum(one, 0.0) ** 2 for one in off], axis=0))
    return np.minimum(interval[0], value - below), np.maximum(interval[1], value + above)


def _parts(n_cells: int, n_all: int) -> tuple[float, float]:
    """What the noise of a cell among `n_cells` of `n_all`, and of one beside them, weighs in their shifted sum."""
    return 1.0 - n_cells / n_all, n_cells / n_all
