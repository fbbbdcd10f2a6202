"""The number that a model has to beat, and cross-validation on public records."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.integer_sums import GRID, to_grid
from dpbo_core.models.scores.kinds import PairScore, RecordScore
from dpbo_core.models.scores.union import MarginScore

if TYPE_CHECKING:
    from dpbo_core.data.people import Person


CHANCE_AUC = 0.5  # of the pairs are ranked right by whoever says the same of every record: ties count half


def person_weights(people: "Sequence[Person]") -> NDArray[np.float64] | None:
    """Return weights (n,) by which each person counts once: 1/(number of the person's records), 0 without a person.

    None if no record has a person.
    """
    records_of = Counter(person for person in people if person is not None)
    if not records_of:
        return None
    return np.array([0.0 if person is None else 1.0 / records_of[person] for person in people])


def constant_margin(
    score: MarginScore | PairScore, labels: NDArray[np.int64], weights: NDArray[np.float64]
) -> float:
    """Return the mean score of predicting the most frequent class by a large margin; ½ if pairs are scored."""
    if isinstance(score, PairScore):
        return CHANCE_AUC
    return score.score_range * float(np.bincount(labels, weights).max() / weights.sum())


def constant_score(
    score: RecordScore | PairScore, truth: NDArray[Any], weights: NDArray[np.float64], *, n_classes: int
) -> float | None:
    """Return the best constant prediction's mean score on the public set, in [0, G]; None for a user's function.

    That is the public shares or one class for certain where probabilities are scored, the best class where a class
    is, and of a regression (no class) the better of mean and median. A user's function need not take what no model
    predicted. The weights (n,) are ones or `person_weights`.
    """
    if isinstance(score, PairScore):
        return CHANCE_AUC
    from dpbo_core.models.scores.bounded_function import BoundedFunction

    if isinstance(score, BoundedFunction):
        return None
    answers = _constants(score, truth, weights, n_classes=n_classes)
    return max(_mean_steps(score, answer, truth, weights) for answer in answers) * score.score_range / GRID


def best_constant(
    score: RecordScore | PairScore, truth: NDArray[Any], weights: NDArray[np.float64], *, n_classes: int
) -> Any:
    """Return the best constant prediction: a class, a number, or for scores of probabilities the class shares (C,).

    A user's function is not evaluated: its constant is the most frequent class or the median.
    """
    from dpbo_core.models.scores.bounded_function import BoundedFunction

    if isinstance(score, PairScore):
        return np.bincount(truth, weights, minlength=n_classes) / weights.sum()
    answers = _constants(score, truth, weights, n_classes=n_classes)
    if isinstance(score, BoundedFunction):
        return answers[int(np.bincount(truth, weights).argmax())] if n_classes else answers[1]
    return max(answers, key=lambda answer: _mean_steps(score, answer, truth, weights))


@dataclass(frozen=True, eq=False)
class ConstantAnswer:
    """An estimator that says the same of every record: a class or a number, or shares (C,) of the classes."""

    answer: Any

    def predict(self, rows: Any) -> NDArray[Any]:
        """Return the class or the number, for each of the rows (k, d)."""
        return np.full(len(rows), np.argmax(self.answer) if np.ndim(self.answer) else self.answer)

    def predict_proba(self, rows: Any) -> NDArray[np.float64]:
        """Return the shares, for each of the rows (k, d)."""
        return np.tile(np.asarray(self.answer, dtype=np.float64), (len(rows), 1))


def _constants(
    score: RecordScore, truth: NDArray[Any], weights: NDArray[np.float64], *, n_classes: int
) -> list[Any]:
    """Return the constants to compare: class shares and certain classes, the classes, or mean and median.

    The median is weighted, and is the mean of the two middle values if half of the weight lies on either side.
    """
    if score.needs == "predict_proba":
        return [np.bincount(truth, weights, minlength=n_classes) / weights.sum(), *np.eye(n_classes)]
    if n_classes:
        return list(range(n_classes))
    order = np.argsort(truth, kind="stable")
    half = np.cumsum(weights[order]) / weights.sum()
    sides = (np.searchsorted(half, 0.5 - 1e-9, "left"), np.searchsorted(half, 0.5 + 1e-9, "left"))
    return [np.average(truth, weights=weights), np.mean([truth[order[place]] for place in sides])]


def _mean_steps(score: RecordScore, answer: Any, truth: NDArray[Any], weights: NDArray[np.float64]) -> float:
    outcome = np.tile(answer, (len(truth), 1)) if np.ndim(answer) else np.full(len(truth), answer)
    steps = to_grid(score.of(outcome, truth), score.score_range, broken_score=0.0)
    return float(weights @ steps) / float(weights.sum())


N_FOLDS = 5


def fold_of(labels: NDArray[np.int64], *, seed: int) -> NDArray[np.int64]:
    """Return each record's fold, (n,), of min(5, n) random stratified folds; refused for fewer than 2 records."""
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
    folds[by_class] = np.arange(n) % min(N_FOLDS, n)
    return folds


def one_class(truth: NDArray[Any], out: NDArray[np.bool_]) -> bool:
    """Return whether the records of a fold (the mask `out`), or all others, are of one class, so form no pair."""
    return any(len(np.unique(part)) < 2 for part in (truth[out], truth[~out]))
