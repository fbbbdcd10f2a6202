"""Many models' steps by a matrix product: the sums of the functions that score one model, to the last bit."""

import math

import mpmath
import numpy as np
import pytest

from dpbo_core.data import Encoded
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.linear import fast_exact_scores as near_steps
from dpbo_core.models.linear.fast_exact_scores import NearSteps
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel
from dpbo_core.models.scores.accuracy import Accuracy
from dpbo_core.models.scores.ramp import Ramp
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scoring.in_memory import exact_totals

SCORES = [Sigmoid(10.0), Sigmoid(0.01), Sigmoid(300.0), Ramp(0.5), Ramp(20.0), Accuracy()]


def models_of(rng, n, d, size=3.0):
    """Weights of many sizes, some of them zero."""
    weights = rng.normal(size=(n, d)) * size / math.sqrt(d) * 10.0 ** rng.integers(-2, 1, (n, 1))
    weights[rng.random((n, d)) < 0.1] = 0.0
    return [LinearModel(one, 1.0, 0.0) for one in weights]


def weights_of(models):
    """(d, L)."""
    return np.stack([one.weights for one in models], axis=1)


def unit(X):
    return X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)


def rows_of(kind, rng, m, d, models, score):
    """(X, labels) of one kind of record."""
    X, labels = unit(rng.normal(size=(m, d)) * 10.0 ** rng.integers(-2, 2, (m, 1))), rng.integers(0, 2, m)
    if kind == "broken":
        labels[rng.random(m) < 0.3] = -1
        X[labels < 0] = 0.0
    elif kind == "subnormal":
        X *= 10.0 ** rng.integers(-324, -290, (m, d))
    elif kind == "huge":
        X[m // 2] *= 1e3
        X[m // 3, 0] = 1e308
    elif kind == "not numbers":
        X[m // 2, 0], X[m // 3, -1] = np.nan, -np.inf
    elif kind == "alike":
        X[:] = X[0]
    elif kind == "on borders":
        X, labels = on_borders(rng, m, d, models[0], score), np.ones(m, dtype=np.int64)
    return X, labels


def on_borders(rng, m, d, model, score):
    """Rows in the unit ball whose scores under one model are as near to k + ½ steps, or to 0, as doubles come."""
    goal = (rng.integers(GRID // 8, GRID - GRID // 8, m) + 0.5) / GRID
    if isinstance(score, Accuracy):
        goal[:] = 0.5  # a margin of 0
    s = getattr(score, "steepness", 1.0)
    margin = (2.0 * goal - 1.0) / s if isinstance(score, Ramp) else np.log(goal / (1.0 - goal)) / s
    w = model.weights
    across = rng.normal(size=(m, d)) * 0.1 / math.sqrt(d)
    across -= (across @ w / (w @ w))[:, None] * w
    return unit((margin / (w @ w))[:, None] * w + across)


def encoded(X, labels):
    return Encoded(np.ascontiguousarray(X), labels, labels < 0, 2)


def near_blocks(near, records, models, score):
    """What it yields, and how many records were scored by the product alone and again."""
    found, again = np.zeros(len(models), dtype=np.int64), []

    def exact(part):
        again.append(part.n_records)
        return LinearModel.steps_of_all(models, part, score)

    for sign, steps in near.blocks(records, exact):
        found += sign * steps.sum(axis=0).astype(np.int64)
    return found.tolist(), sum(again)


KINDS = ["random", "broken", "subnormal", "huge", "not numbers", "alike", "on borders"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_sums_are_those_of_one_model_at_a_time(score, kind, monkeypatch):
    """Over blocks and spans of several sizes, from one feature to many."""
    for seed, (d, n, span) in enumerate([(1, 4, 100), (2, 9, 7), (30, 64, 1000), (33, 5, 301), (500, 200, 64)]):
        rng = np.random.default_rng(seed)
        monkeypatch.setattr(near_steps, "_RECORDS_PER_RESCORING", span)
        monkeypatch.setattr(near_steps, "_SCORES_PER_BLOCK", n * 50)
        models = models_of(rng, n, d)
        records = encoded(*rows_of(kind, rng, 60 if d == 500 else 301, d, models, score))
        sums, differences = exact_totals(models, records, score, (models[-1], GRID // 9))
        some = range(0, n, max(1, n // 8))
        assert [sums[j] for j in some] == [exact_totals([models[j]], records, score)[0][0] for j in some]
        one = models[-1], GRID // 9
        assert [differences[j] for j in some] == [
            exact_totals(models[j : j + 1], records, score, one)[1][0] for j in some
        ]
        assert exact_totals(models, records, score)[0] == sums


@pytest.mark.parametrize("score", [Sigmoid(10.0), Ramp(1.0), Accuracy()], ids=repr)
def test_where_roundings_differ_the_record_is_scored_again(score, monkeypatch):
    """On borders the product alone is wrong somewhere: without the records scored again, sums would differ."""
    rng = np.random.default_rng(0)
    models = models_of(rng, 64, 30)
    models[0] = LinearModel(rng.normal(size=30), 1.0, 0.0)
    records = encoded(*rows_of("on borders", rng, 4000, 30, models, score))
    near = NearSteps.of(weights_of(models), score)
    right = [exact_totals([one], records, score)[0][0] for one in models]
    found, again = near_blocks(near, records, models, score)
    assert found == right
    assert again >= 4000  # nearly every one of them lies on a border, and is seen to
    monkeypatch.setattr(near_steps, "_EXTRA_SLOTS", 0)
    careless = NearSteps(near.slopes, score, 0.0)
    assert near_blocks(careless, records, models, score)[0] != right


def test_the_bound_holds_and_is_of_the_size_of_what_it_bounds():
    """Scores before rounding, by the product and one by one; rows with cancellation, and with one sign."""
    for seed, (d, score) in enumerate(
        [(1, Sigmoid(10.0)), (30, Sigmoid(10.0)), (30, Ramp(2.0)), (500, Sigmoid(3.0))]
    ):
        rng = np.random.default_rng(seed)
        models, signs = models_of(rng, 16, d), np.ones(2000)
        X = np.concatenate([unit(rng.normal(size=(1000, d))), np.sign(models[0].weights) * rng.random((1000, 1))])
        near = NearSteps.of(weights_of(models), score)
        product = X @ near.slopes
        score.overwrite(product)
        alone = np.stack([score.phi(one.margins(X, signs)) for one in models], axis=1)
        furthest = GRID * np.abs(product - alone).max()
        assert furthest <= near.reach
        assert near.reach < 1e-3


@pytest.mark.parametrize("score", [Sigmoid(0.3), Sigmoid(10.0), Ramp(0.3), Ramp(10.0)], ids=repr)
def test_what_is_lost_in_computing_a_score_is_within_its_bound(score):
    """Against fifty digits; a sixteenth of it, in fact."""
    rng = np.random.default_rng(2)
    margins = np.concatenate([rng.normal(size=300), rng.normal(size=300) * 100.0, [0.0, 5e-324, 1e300, -1e300]])
    written = margins.copy()
    score.overwrite(written)
    with mpmath.workdps(50):
        for given, *found in zip(margins, written, score.phi(margins), strict=True):
            st = mpmath.mpf(score.steepness) * mpmath.mpf(given)
            exact = 1 / (1 + mpmath.exp(-st)) if isinstance(score, Sigmoid) else min(1, max(0, (1 + st) / 2))
            assert max(abs(mpmath.mpf(one) - exact) for one in found) <= score.rounding / 4


def test_as_many_records_are_scored_again_whatever_they_hold():
    """While no more are in doubt than there are places."""
    rng = np.random.default_rng(3)
    models, score = models_of(rng, 8, 5), Sigmoid(10.0)
    near = NearSteps.of(weights_of(models), score)
    borders = encoded(*rows_of("on borders", rng, 3000, 5, models, score))
    told = []
    for kind in ("random", "broken", "subnormal", "alike"):
        X, labels = rows_of(kind, rng, 3000, 5, models, score)
        told.append(near_blocks(near, encoded(X, labels), models, score)[1])
    X, labels = X.copy(), np.ones(3000, dtype=np.int64)
    X[5:12] = borders.X[5:12]
    told.append(near_blocks(near, encoded(X, labels), models, score)[1])
    assert set(told) == {near_steps._EXTRA_SLOTS + math.ceil(4.0 * near.reach * 8 * 3000)} == {17}
    assert near_blocks(near, borders, models, score)[1] > 2900


def test_who_cannot_be_bounded_is_scored_one_at_a_time():
    rng = np.random.default_rng(4)
    models = models_of(rng, 4, 3)
    assert NearSteps.of(weights_of(models), Sigmoid(10.0)) is not None
    assert NearSteps.of(weights_of(models), Accuracy()) is not None
    assert NearSteps.of(weights_of(models[:3]), Sigmoid(10.0)) is None
    another = SoftmaxModel(np.ones((models[0].weights.size, 3)))
    records = encoded(np.zeros((9, models[0].weights.size)), np.ones(9, int))
    with pytest.raises(TypeError, match="margin"):
        exact_totals([*models, another], records, Sigmoid(10.0))
    for weight in (1e12, 1e308, math.inf, math.nan):
        far = [*models, LinearModel(np.full(3, weight), 1.0, 0.0)]
        assert NearSteps.of(weights_of(far), Sigmoid(10.0)) is None
        records = encoded(*rows_of("broken", rng, 50, 3, models, Sigmoid(10.0)))
        assert exact_totals(far, records, Sigmoid(10.0))[0] == [
            exact_totals([m], records, Sigmoid(10.0))[0][0] for m in far
        ]
    assert NearSteps.of(weights_of(models), Sigmoid(1e300)) is None
