"""What saying the same of every record scores: the number that a model has to beat before it is worth anything.

| symbol | name here | meaning | shape |
|---|---|---|---|
| y | `truth` | class indices, or targets of a regression, of the PUBLIC training set | (n,) |
| π | — | the public shares of the classes | (C,) |
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.grid import GRID, to_grid
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.models.scores.record import RecordScore
from dpbo_core.models.scores.union import MarginScore

CHANCE = 0.5  # of the pairs are ranked right by whoever says the same of every record: ties count half


def majority_share(labels: NDArray[np.int64]) -> float:
    """The share of the largest class: what a margin score gives whoever always says that one, from far away."""
    return float(np.bincount(labels).max() / len(labels))


def constant_margin(score: MarginScore | PairScore, labels: NDArray[np.int64]) -> float:
    """What a score of margins gives whoever always says the largest class, from far away."""
    if isinstance(score, PairScore):
        return CHANCE
    return score.score_range * majority_share(labels)


def constant_score(score: RecordScore | PairScore, truth: NDArray[Any], *, n_classes: int) -> float | None:
    """The mean score, in [0, G], of the best constant prediction on the public training set.

    That is the public shares where probabilities are scored, the best class where a class is, and of a regression
    the better of mean and median. None for a user's function, which need not take what no model predicted.

    Args:
        score: of the study.
        truth: (n,).
        n_classes: C; 0 for a regression.
    """
    if isinstance(score, PairScore):
        return CHANCE
    if isinstance(score, BoundedFunction):
        return None
    n = len(truth)
    if score.needs == "predict_proba":
        shares = np.bincount(truth, minlength=n_classes) / n
        outcomes = [np.tile(shares, (n, 1))]
    elif n_classes:
        outcomes = [np.full(n, c) for c in range(n_classes)]
    else:
        outcomes = [np.full(n, middle(truth)) for middle in (np.mean, np.median)]
    G = score.score_range
    sums = (to_grid(score.of(outcome, truth), G, broken_score=0.0).sum() for outcome in outcomes)
    return float(max(sums)) * G / (GRID * n)
