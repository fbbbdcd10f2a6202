"""The public score of a candidate: cross-validated on the public training set, which costs no privacy.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | — | public training records | scalar ≥ 2 |
| F | `n_folds` | folds, min(5, n) | scalar |
| φ_i | `fold_of` | the fold that holds record i | (n,) in 0 … F − 1 |
| p(λ) | a trainer's `public_score` | mean score, each record under the model trained without its fold | scalar |

p(λ) is a function of λ, the public training set, the score and the search seed alone.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid

FOLDS = 5


def fold_of(labels: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """The fold of each record, (n,), of min(5, n), dealt class by class at random; refused below two records.

    Args:
        labels: class of each public record, (n,).
        seed: of the search, ≥ 0.

    Raises:
        StudyInvalid: fewer than two records.
    """
    n = len(labels)
    if n < 2:
        raise StudyInvalid(
            f"the training set has {n} record{'s' if n != 1 else ''}, and cross-validation needs two",
            cause="a public score is asked for",
            remedy='give more training records, or choose evaluate = "sobol" or prior = "flat"',
        )
    shuffled = np.random.default_rng(seed).permutation(n)
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    folds = np.empty(n, dtype=np.int64)
    folds[by_class] = np.arange(n) % min(FOLDS, n)
    return folds


def one_class(truth: NDArray[Any], out: NDArray[np.bool_]) -> bool:
    """Whether the records of the mask `out` (a fold), or the rest, are all of one class and so form no pair."""
    return any(len(np.unique(part)) < 2 for part in (truth[out], truth[~out]))
