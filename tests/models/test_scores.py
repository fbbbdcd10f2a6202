"""Margin scores and their exact integer form, against 50-digit arithmetic and against any record at all."""

import logging
import math
import sys

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from worlds import at_length, study_of_files

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.integer_sums import GRID, to_grid
from dpbo_core.models.scores.accuracy import Accuracy
from dpbo_core.models.scores.balanced_accuracy import BalancedAccuracy
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.kinds import Numbers
from dpbo_core.models.scores.log_loss import LogLoss
from dpbo_core.models.scores.ramp import Ramp
from dpbo_core.models.scores.regression_error import RegressionError
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scores.union import SCORES as NAMED
from dpbo_core.study import LinearSection, StudySpec
from dpbo_core.study.resolve import plan_study

SIZES = (1.0, 10.0, 1e-300, 1e300)
SCORES = [Accuracy(), *map(Ramp, SIZES), *map(Sigmoid, SIZES)]
EXTREMES = [0.0, -0.0, 5e-324, 1e-300, 1e-9, 0.1, 1.0, 70.0, 800.0, 1e308, math.inf]
everything = st.floats(allow_nan=False)


def one(score, margin):
    return float(score.phi(np.array([margin]))[0])


@pytest.mark.parametrize("score", SCORES, ids=repr)
def test_no_margin_raises_warns_or_leaves_the_range(score):
    margins = np.array([*EXTREMES, *(-m for m in EXTREMES), math.nan])
    with np.errstate(all="raise"):
        values = score.phi(margins)
    assert values.shape == margins.shape
    assert ((values >= 0.0) & (values <= score.score_range)).all()
    assert values[-1] == score.broken_score == one(score, 0.0)
    assert one(score, math.inf) == score.score_range == 1.0
    assert one(score, -math.inf) == 0.0


@pytest.mark.parametrize("score", SCORES, ids=repr)
@settings(max_examples=at_length(100))
@given(a=everything, b=everything)
def test_nondecreasing_and_lipschitz(score, a, b):
    a, b = sorted((a, b))
    fa, fb = one(score, a), one(score, b)
    assert fb >= fa - 2**-52
    if math.isfinite(score.lipschitz) and a < b:  # |x| ≤ 1: the margin moves by at most the move of w
        assert fb - fa <= score.lipschitz * (b - a) + 2**-52


def test_values_by_hand():
    margins = np.array([-1.0, -0.05, 0.0, 0.05, 1.0])
    assert Accuracy().phi(margins).tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert Ramp(10.0).phi(margins).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert Sigmoid(10.0).phi(margins).tolist() == pytest.approx(
        [1 / (1 + math.exp(10)), 1 / (1 + math.exp(0.5)), 0.5, 1 / (1 + math.exp(-0.5)), 1 / (1 + math.exp(-10))],
        rel=1e-15,
    )
    assert (Ramp(10.0).lipschitz, Sigmoid(10.0).lipschitz, Accuracy().lipschitz) == (5.0, 2.5, math.inf)
    assert (Ramp(10.0).broken_score, Sigmoid(10.0).broken_score, Accuracy().broken_score) == (0.5, 0.5, 0.0)


@pytest.mark.parametrize("steepness", [0.3, 1.0, 10.0, 77.0])
@pytest.mark.parametrize("kind", [Ramp, Sigmoid])
def test_lipschitz_constants_are_attained(kind, steepness):
    """A constant any smaller would be wrong, and one any larger would waste noise."""
    score, h = kind(steepness), 1e-5 / steepness
    slope = (one(score, h) - one(score, -h)) / (2 * h)
    assert slope == pytest.approx(score.lipschitz, rel=1e-9)


@pytest.mark.parametrize("score", SCORES, ids=repr)
@settings(max_examples=at_length(100))
@given(norm=st.floats(0, allow_nan=False))
def test_span_is_the_range_over_all_records(score, norm):
    span = score.span(norm)
    assert span == pytest.approx(one(score, norm) - one(score, -norm), rel=1e-9, abs=2**-51)
    assert 0.0 <= span <= score.score_range
    if norm > 0.0:
        assert span <= 2.0 * score.lipschitz * norm * (1 + 2**-50) + 5e-324


def test_span_has_no_cancellation_and_covers_every_record():
    with mpmath.workdps(60):
        for norm in (1e-12, 1e-6, 0.1, 0.5):
            exact = mpmath.tanh(5 * mpmath.mpf(norm))
            assert float(exact) == pytest.approx(Sigmoid(10.0).span(norm), rel=1e-14)
    assert Ramp(10.0).span(0.01) == pytest.approx(0.1, rel=1e-14)
    assert (Accuracy().span(0.0), Accuracy().span(1e-300)) == (0.0, 1.0)
    # MATH §3.3: w = e₁/10, L = 1/4, e₁ against −e₁
    assert Sigmoid(1.0).span(0.1) == pytest.approx(0.04996, abs=5e-6)
    assert all(score.span(math.nan) == score.span(math.inf) == 1.0 for score in SCORES)
    rng = np.random.default_rng(0)
    w, X = rng.normal(size=4), rng.normal(size=(5000, 4))
    X /= np.linalg.norm(X, axis=1)[:, None]
    for score in (Accuracy(), Ramp(0.3), Sigmoid(0.8)):
        values = score.phi(np.concatenate([X @ w, -(X @ w)]))
        assert 0.9 * score.span(np.linalg.norm(w)) <= np.ptp(values) <= score.span(np.linalg.norm(w)) + 1e-15


@settings(max_examples=at_length(100))
@given(
    arrays(np.float64, st.integers(1, 70), elements=st.floats(width=64)),
    st.sampled_from(SCORES),
    st.integers(0, 69),
)
def test_a_score_is_a_function_of_its_margin_alone(margins, score, i):
    """To the last bit, whatever stands beside it: otherwise one record could move another's grid step."""
    i %= len(margins)
    together = score.phi(margins)
    assert together[i].tobytes() == score.phi(margins[i : i + 1])[0].tobytes()
    others = np.full_like(margins, 3.25)
    others[i] = margins[i]
    assert score.phi(others)[i].tobytes() == together[i].tobytes()
    assert score.phi(np.repeat(margins, 2)[::2])[i].tobytes() == together[i].tobytes()


def of_margin(name, steepness):
    return NAMED[name].of_margin(Numbers(steepness))


def test_a_margin_score_is_made_by_its_name():
    assert of_margin("accuracy", 10.0) == Accuracy()
    assert of_margin("ramp", 2) == Ramp(2.0)
    assert of_margin("sigmoid", 10) == Sigmoid(10.0)
    assert [name for name, score in NAMED.items() if score.of_margin] == ["sigmoid", "ramp", "accuracy"]
    with pytest.raises(StudyInvalid, match=r"'auc' is called 'roc_auc' here"):
        LinearSection(estimator="logistic", score="auc")
    with pytest.raises(StudyInvalid, match=r"'accurate'.*accuracy"):
        LinearSection(estimator="logistic", score="accurate")
    for name in ("ramp", "sigmoid"):
        for steepness in (0.0, -1.0, math.inf, math.nan):
            with pytest.raises(StudyInvalid, match="steepness"):
                of_margin(name, steepness)


def test_grid_by_hand():
    assert GRID == 2**24
    h = 2.0**-24
    scores = [0.0, 0.4 * h, 0.6 * h, 0.5, 1.0 - 0.6 * h, 1.0 - 0.4 * h, 1.0]
    assert to_grid(scores, 1.0, broken_score=0.5).tolist() == [0, 0, 1, 2**23, 2**24 - 1, 2**24, 2**24]
    assert to_grid([0.0, 1.0, 4.0], 4.0, broken_score=0.0).tolist() == [0, 2**22, 2**24]


def test_grid_takes_anything():
    hostile = np.array([math.nan, math.inf, -math.inf, 1e308, -1e308, -5e-324, 1.0 + 1e-9, -math.nan])
    with np.errstate(all="raise"):
        steps = to_grid(hostile, 1.0, broken_score=0.5)
    assert steps.dtype == np.int64
    assert steps.tolist() == [2**23, 2**24, 0, 2**24, 0, 0, 2**24, 2**23]
    assert to_grid([math.nan], 1.0, broken_score=0.0).tolist() == [0]
    assert to_grid([], 1.0, broken_score=0.0).tolist() == []


@given(st.floats(0, 1))
def test_grid_is_nearest(score):
    steps = int(to_grid([score], 1.0, broken_score=0.0)[0])
    assert abs(steps - score * 2**24) <= 0.5


# --- of predictions: clipped, silent whatever a function does, and refused without a public range


def test_clipping_is_at_the_public_bound():
    assert LogLoss(2.0).of(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([1, 1])).tolist() == [0.0, 2.0]
    assert RegressionError(2.0, 1).of(np.array([100.0, 1.0]), np.zeros(2)).tolist() == [0.0, 1.0]
    assert RegressionError(2.0, 2).of(np.array([100.0, 1.0]), np.zeros(2)).tolist() == [0.0, 3.0]
    own = BoundedFunction("f", 0.0, 1.0, lambda y, p: 50.0)
    assert to_grid(own.of(np.zeros(1), np.zeros(1)), 1.0, broken_score=0.0).tolist() == [GRID]
    assert BalancedAccuracy((0.9, 0.1)).score_range == pytest.approx(5.0)


def test_a_function_that_talks_raises_or_exits_costs_its_own_record_and_says_nothing(capsys, caplog):
    def hostile(truth, prediction):
        print("record", truth)
        sys.stderr.write(f"record {truth}\n")
        logging.getLogger("loud").error("record %s", truth)
        if truth == 1:
            sys.exit(3)
        if truth == 2:
            raise KeyError(truth)
        return "no number" if truth == 3 else 0.5

    own = BoundedFunction("f", 0.0, 1.0, hostile)
    values = own.of(np.zeros(5), np.array([0, 1, 2, 3, 4]))
    assert np.isnan(values).tolist() == [False, True, True, True, False]
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


def test_a_function_is_checked_on_public_rows_where_it_may_still_be_refused():
    wide = BoundedFunction("f", 0.0, 1.0, lambda y, p: 1.5)
    with pytest.raises(StudyInvalid, match="leaves"):
        wide.check(np.zeros(3), np.zeros(3))
    with pytest.raises(StudyInvalid, match="leaves"):
        BoundedFunction("f", 0.0, 1.0, lambda y: 0.5).check(np.zeros(3), np.zeros(3))
    BoundedFunction("f", 0.0, 1.0, lambda y, p: float(y == p)).check(np.zeros(3), np.zeros(3))


CASES = {
    "accuracy": ("sklearn.ensemble.RandomForestClassifier", {}),
    "balanced_accuracy": ("sklearn.tree.DecisionTreeClassifier", {"class_shares": {"0": 0.2, "1": 0.3, "2": 0.5}}),
    "brier": ("sklearn.linear_model.LogisticRegression", {}),
    "absolute_error": ("sklearn.ensemble.HistGradientBoostingRegressor", {"error_bound": 1.5}),
    "sklearn.metrics.mean_tweedie_deviance": ("sklearn.linear_model.Ridge", {"score_low": 0.0, "score_high": 1.0}),
}


def study(name, **model):
    estimator, keys = CASES[name]
    keys = keys | ({"task": "regression"} if "." in name else {}) | model
    return study_of_files({"estimator": estimator, "score": name} | keys, {"random_state": {"values": [0]}})


@pytest.mark.parametrize(
    ("name", "keys", "says"),
    [
        ("balanced_accuracy", {"class_shares": {"0": 0.5, "0.0": 0.5}}, "twice"),
        ("balanced_accuracy", {"class_shares": {"0": "many"}}, "no number"),
        ("absolute_error", {"error_bound": 0.0}, "error_bound"),
        ("absolute_error", {"task": "classification"}, "task"),
        ("accuracy", {"task": "regression"}, "task"),
        ("sklearn.metrics.mean_tweedie_deviance", {"score_high": None}, "needs model.score_high"),
        ("sklearn.metrics.mean_tweedie_deviance", {"score_high": 0.0}, "score_low below"),
        ("brier", {"estimator": "logistic"}, "margin"),
    ],
)
def test_a_score_without_its_public_range_is_a_letter(name, keys, says):
    tables = study(name).to_dict()
    tables["model"] = {key: value for key, value in (tables["model"] | keys).items() if value is not None}
    with pytest.raises(StudyInvalid, match=says):
        plan_study(StudySpec.from_dict(tables))


def test_a_function_of_others_needs_the_callers_word_and_a_regressor_a_regressor():
    assert plan_study(study("sklearn.metrics.mean_tweedie_deviance")).guarantee.assumptions == (
        "rowwise_predictions",
    )
    assert plan_study(study("brier")).guarantee.assumptions == ()
    with pytest.raises(StudyInvalid, match="not a regressor"):
        EstimatorFactory("sklearn.svm.SVC", {}, 0, regression=True).build()
    with pytest.raises(StudyInvalid, match="not a classifier"):
        EstimatorFactory("sklearn.svm.SVR", {}, 0).build()
