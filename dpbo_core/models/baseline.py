"""What saying the same of every record scores: the number that a model has to beat before it is worth anything.

| symbol | name here | meaning | shape |
|---|---|---|---|
| y | `truth` | class indices, or targets of a regression, of the PUBLIC training set | (n,) |
| w | `weights` | what each record counts: 1, or 1/c_p where each person, of c_p records, counts once | (n,) |
| π | — | the public shares of the classes, under w | (C,) |
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.people import Person
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.grid import GRID, to_grid
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.models.scores.record import RecordScore
from dpbo_core.models.scores.union import MarginScore

CHANCE = 0.5  # of the pairs are ranked right by whoever says the same of every record: ties count half


def person_weights(people: Sequence[Person]) -> NDArray[np.float64] | None:
    """Weights (n,) by which each person counts once, 0 for a record of nobody; None where no record has any."""
    records_of = Counter(person for person in people if person is not None)
    if not records_of:
        return None
    return np.array([0.0 if person is None else 1.0 / records_of[person] for person in people])


def constant_margin(
    score: MarginScore | PairScore, labels: NDArray[np.int64], weights: NDArray[np.float64]
) -> float:
    """The mean score of always predicting the most frequent class by a large margin; ½ where pairs are scored."""
    if isinstance(score, PairScore):
        return CHANCE
    return score.score_range * float(np.bincount(labels, weights).max() / weights.sum())


def constant_score(
    score: RecordScore | PairScore, truth: NDArray[Any], weights: NDArray[np.float64], *, n_classes: int
) -> float | None:
    """The best constant prediction's mean score, in [0, G], on the public training set; None for a user's function.

    That is the public shares or one class for certain where probabilities are scored, the best class where a class
    is, and of a regression the better of mean and median. A user's function need not take what no model predicted.

    Args:
        score: of the study.
        truth: (n,).
        weights: (n,), ones or `person_weights`.
        n_classes: C; 0 for a regression.
    """
    if isinstance(score, PairScore):
        return CHANCE
    if isinstance(score, BoundedFunction):
        return None
    n = len(truth)
    if score.needs == "predict_proba":
        shares = np.bincount(truth, weights, minlength=n_classes) / weights.sum()
        outcomes = [np.tile(row, (n, 1)) for row in (shares, *np.eye(n_classes))]
    elif n_classes:
        outcomes = [np.full(n, c) for c in range(n_classes)]
    else:
        order = np.argsort(truth, kind="stable")
        half = np.cumsum(weights[order]) / weights.sum()
        sides = (np.searchsorted(half, 0.5 - 1e-9, "left"), np.searchsorted(half, 0.5 + 1e-9, "left"))
        median = np.mean([truth[order[place]] for place in sides])
        outcomes = [np.full(n, centre) for centre in (np.average(truth, weights=weights), median)]
    G = score.score_range
    means = (weights @ to_grid(score.of(outcome, truth), G, broken_score=0.0) for outcome in outcomes)
    return float(max(means)) * G / (GRID * float(weights.sum()))
