"""Scores of predictions: clipped, silent whatever a function does, and refused without a public range."""

import logging
import sys

import numpy as np
import pytest

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.scores.balanced_accuracy import BalancedAccuracy
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.grid import GRID, to_grid
from dpbo_core.models.scores.log_loss import LogLoss
from dpbo_core.models.scores.regression_error import RegressionError
from dpbo_core.preparation.resolve import plan_study
from dpbo_core.study_file import StudySpec


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
    return StudySpec.from_dict(
        {
            "study": {"name": "s", "method": "private_grid"},
            "privacy": {"dataset": "d", "epsilon": 1.0},
            "data": {"training": "t.csv", "validation": "v.csv", "n_validation": 3, "target": "y"},
            "model": {"estimator": estimator, "score": name} | keys,
            "space": {"random_state": {"values": [0]}},
        }
    )


@pytest.mark.parametrize(
    ("name", "keys", "says"),
    [
        ("balanced_accuracy", {"class_shares": {"0": 0.5, "1": 0.4}}, "shares"),
        ("balanced_accuracy", {"class_shares": {"0": 0.5, "0.0": 0.5}}, "twice"),
        ("balanced_accuracy", {"class_shares": {"0": "many"}}, "no number"),
        ("absolute_error", {"error_bound": None}, "needs model.error_bound"),
        ("absolute_error", {"error_bound": 0.0}, "error_bound"),
        ("absolute_error", {"task": "classification"}, "task"),
        ("accuracy", {"error_bound": 1.0}, "does not use it"),
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
