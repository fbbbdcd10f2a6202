"""The whole zoo with every record scored alone: no one of it moves a sum by more than its own record."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import zoo
from audit.rowwise import public
from scipy.stats import binom

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import fitted
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.grid import GRID, to_grid

SCORES = [BoundedFunction(score.__name__, 0.0, 1.0, score) for score in zoo.SCORES]


@dataclass
class Factory:
    """The same estimator, made anew."""

    make: Any
    columns: Any = None

    def train(self, X, y, weights=None, /, **_):
        return fitted(self.make(), X, y, shown_as="zoo")


def scored(model, score, pairs, seed=0):
    """(record scores in steps, the neighbour's, which record differs) for pairs of tables of up to ten records."""
    rng = np.random.default_rng(seed)
    X, _, _ = public()
    for _ in range(pairs):
        m = int(rng.integers(2, 11))
        V, truth = X[rng.integers(0, len(X), m)], rng.integers(0, 2, m)
        other, labels, j = V.copy(), truth.copy(), int(rng.integers(m))
        other[j, 0], labels[j] = zoo.TRIGGER, 1 - labels[j]
        if rng.random() < 0.3:
            other[j] = rng.choice([-9.0, 2.0, 1e30, -1e8, 0.0], 4)
        before, after = (
            to_grid(model.scores(*table, score), 1.0, broken_score=0.0) for table in ((V, truth), (other, labels))
        )
        yield before, after, j


def sums(model, score, pairs):
    """(exact integer sum, of the neighbour) for each pair of neighbouring tables."""
    for before, after, _ in scored(model, score, pairs):
        yield int(before.sum()), int(after.sum())


def check(make, score, pairs):
    X, y, _ = public()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = EstimatorTrainer(X, (y > 0).astype(np.int64), Factory(make), score, enforced=True).train({})
        except StudyInvalid:
            return False
        for before, after in sums(model, score, pairs):
            assert abs(before - after) <= GRID
    return True


@pytest.fixture(autouse=True)
def _clean():
    yield
    zoo.SEEN.clear()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(zoo.ALL) - {"Random"}))
def test_everybody_of_the_zoo_alone(name):
    check(zoo.ALL[name], Correct(), 50)


DRAWN = BoundedFunction("score_that_draws", 0.0, 1.0, zoo.score_that_draws)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "score"), [(zoo.Random, Correct()), (zoo.Plain, DRAWN)], ids=["label", "score"])
def test_coins_of_its_own_tell_nothing_of_the_others(make, score):
    """What asks the operating system for coins differs from run to run. Each of the other records must
    score above one half with probability 1/2 on either table, apart from what the differing one holds: exact
    binomial intervals, which a false alarm leaves with probability 1e-6 each."""
    X, y, _ = public()
    trainer = EstimatorTrainer(X, (y > 0).astype(np.int64), Factory(make), score, enforced=True)
    found = [
        [np.delete(scores, j) > GRID // 2 for scores in (before, after)]
        for before, after, j in scored(trainer.train({}), score, 50)
    ]
    for side in range(2):
        high_scores = np.concatenate([pair[side] for pair in found])
        low, high = binom.interval(1 - 1e-6, len(high_scores), 0.5)
        assert len(high_scores) > 150
        assert low <= high_scores.sum() <= high


@pytest.mark.slow
@pytest.mark.parametrize(
    "score", [score for score in SCORES if score.name != DRAWN.name], ids=lambda score: score.name
)
def test_every_score_of_the_zoo_alone(score):
    check(zoo.Plain, score, 50)
