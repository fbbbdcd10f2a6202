"""Pairs within one bin: how many the model ranks right, as public records tell, and how far off that may be.

| symbol | name here | meaning | shape |
|---|---|---|---|
| P_b, N_b | — | positives and negatives in bin b | (B,) |
| c | `Within.ranked` | share of the pairs within a bin that are ranked right, ties half | scalar |
| — | `Within.error` | standard deviation of c, estimated on half the public records | scalar |
| υ | `Within.untied` | variance of such a share, over that if no two values were equal | scalar in [0, 1] |
| v | `variance` | Σ_b P_b N_b (P_b + N_b + 1)/12, of the number of pairs ranked right within bins | scalar |

v is the variance of Mann and Whitney's statistic in each bin (1947), where the classes are spread alike within it.
The public records are halved, every other one by value: one half chooses how many bins there are by what ties lose
in them, the other says c. The same records for both would choose bins in which c happens to be near ½, and so
say too little of it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
CHOOSES, SAYS = 0, 1
UNKNOWN_ERROR = 12.0**-0.5  # of a share of which nothing is known


@dataclass(frozen=True)
class Within:
    """What public records say of pairs within a bin."""

    ranked: float
    error: float
    untied: float


def half(values: Reals, positive: NDArray[np.bool_], which: int) -> tuple[Reals, NDArray[np.bool_]]:
    """Every other record by its value."""
    taken = np.argsort(values, kind="stable")[which::2]
    return values[taken], positive[taken]


def within_bins(values: Reals, positive: NDArray[np.bool_], edges: tuple[float, ...]) -> Within:
    """c of the half that says it, ½ where it has no such pairs."""
    untied = _untied(values, edges)
    values, positive = half(values, positive, SAYS)
    counts = class_counts(values, positive, edges)
    P, N = (part.sum() for part in counts)
    pairs, below = float((counts[0] * counts[1]).sum()), float((counts[0] * (counts[1].cumsum() - counts[1])).sum())
    if pairs == 0.0:
        return Within(0.5, UNKNOWN_ERROR, untied)
    ranked = (auc(values, positive) * P * N - below) / pairs
    error = min((untied * float(variance(counts[0], counts[1]))) ** 0.5 / pairs, UNKNOWN_ERROR)
    return Within(min(max(float(ranked), 0.0), 1.0), error, untied)


def variance(positives: Reals, negatives: Reals) -> Reals:
    """v of bins (…, B), counts below 0 as 0; (…)."""
    P, N = np.maximum(positives, 0.0), np.maximum(negatives, 0.0)
    return np.asarray((P * N * (P + N + 1.0)).sum(axis=-1) / 12.0)


def class_counts(values: Reals, positive: NDArray[np.bool_], edges: tuple[float, ...]) -> tuple[Reals, Reals]:
    """Positives and negatives in each bin, (B,) each."""
    at = np.searchsorted(np.array(edges), values)
    found = [np.bincount(at[positive == y], minlength=len(edges) + 1).astype(np.float64) for y in (True, False)]
    return found[0], found[1]


def auc(values: Reals, positive: NDArray[np.bool_]) -> float:
    """Of public records of both classes; ties count half."""
    from scipy.stats import rankdata

    P, N = int(positive.sum()), int((~positive).sum())
    return float((rankdata(values)[positive].sum() - P * (P + 1) / 2.0) / (P * N))


def _untied(values: Reals, edges: tuple[float, ...]) -> float:
    """υ = 1 − Σ (t³ − t)/Σ (n³ − n), t the numbers of records with one value, n those in one bin."""

    def cubes(counts: NDArray[np.int64]) -> float:
        numbers = counts.astype(np.float64)
        return float((numbers**3 - numbers).sum())

    in_bins = cubes(np.bincount(np.searchsorted(np.array(edges), values), minlength=len(edges) + 1))
    return 1.0 - cubes(np.unique(values, return_counts=True)[1]) / in_bins if in_bins > 0.0 else 1.0
