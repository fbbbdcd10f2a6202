"""Attacks that once worked, each kept as a test: one record, or one edit, must not do what it did."""

import logging
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.decomposition import NMF
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.models.estimators import FittedEstimator, fitted
from dpbo_core.models.isolated_estimator import contained
from dpbo_core.models.prototype import function_name
from dpbo_core.models.rowwise import check_rowwise
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.regression_error import RegressionError
from dpbo_core.privacy.sensitive import sealed
from dpbo_core.study import EstimatorSection, FunctionSection
from dpbo_core.study.named_score import score_of

FOREVER = 300.0  # seconds that only a fault makes pass


def test_nmf_is_found_by_trying_too():
    rng = np.random.default_rng(0)
    X = rng.random((300, 12)) ** 3
    y = (X[:, 0] > X[:, 1]).astype(int)
    made = make_pipeline(NMF(5, init="nndsvda", random_state=0, max_iter=300), LogisticRegression(C=100.0))
    with pytest.raises(StudyInvalid, match="how large the other rows"):
        check_rowwise(fitted(made, X, y, display_name="NMF"), X)


class Together:
    """Predicts by the mean of the batch, once a row is large enough."""

    def predict(self, rows):
        return (rows[:, 0] > (rows.mean() if rows.max() > 1e7 else 0.5)).astype(int)


def test_a_prediction_that_looks_at_large_rows_is_caught():
    rows = np.random.default_rng(0).random((64, 3))
    with pytest.raises(StudyInvalid, match="how large the other rows"):
        check_rowwise(FittedEstimator(Together(), rows[0]), rows)


def test_another_constant_or_default_is_another_score_function():
    spaces: list[dict[str, object]] = [{"__name__": "scores"} for _ in range(3)]
    bodies = ("def f(t, p): return 0.25", "def f(t, p): return 0.75", "def f(t, p, x=1): return 0.25")
    for space, body in zip(spaces, bodies, strict=True):
        exec(body, space)
    assert len({function_name(space["f"]) for space in spaces}) == 3


class Panic(BaseException):
    """What an extension module raises when it gives up."""


def panics(truth, prediction):
    """A score function that gives up."""
    raise Panic(f"record {truth}")


def test_a_panic_stays_inside():
    score = BoundedFunction("scores.panics", 0.0, 1.0, panics)
    assert np.isnan(score.of(np.array([0, 1]), np.array([1, 1]))).all()
    with pytest.raises(Sealed) as caught:
        sealed(lambda: panics(41, 0))
    assert caught.value.__context__ is None


def test_a_prediction_of_hundreds_of_digits_costs_its_own_record_only():
    outcome = np.array([10**400, 1.0, "x"], dtype=object)
    found = RegressionError(2.0, 1).of(outcome, np.array([1.0, 1.0, 1.0]))
    assert found[1] == 2.0
    assert not (found[[0, 2]] > 0.0).any()


@pytest.mark.parametrize("bounds", [(0.0, 5e-324), (0.0, 1e308), (-8e307, 8e307)])
def test_a_range_that_cannot_be_counted_in_is_a_letter(bounds):
    svc = "sklearn.svm.SVC"
    model = FunctionSection(estimator=svc, score="scores.own", score_low=bounds[0], score_high=bounds[1])
    with pytest.raises(StudyInvalid, match="runs over"):
        score_of(model)
    shares = EstimatorSection(estimator=svc, score="balanced_accuracy", class_shares={"a": 1e-300, "b": 1.0})
    with pytest.raises(StudyInvalid, match="runs over"):
        score_of(shares)


def test_containment_holds_one_thread_at_a_time(capsys):
    """Two overlapping blocks used to restore each other's streams: the first to leave let the second speak."""
    out, entered, left = sys.stdout, threading.Event(), threading.Event()

    def first():
        with contained():
            entered.set()
            time.sleep(0.1)  # in which the second comes to the door
        left.set()

    def second():
        entered.wait(FOREVER)
        with contained():
            left.wait(FOREVER)
            print("a record")
            logging.getLogger("x").log(60, "a record")

    threads = [threading.Thread(target=party) for party in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.stdout is out
    assert logging.root.manager.disable == 0
    assert "a record" not in "".join(capsys.readouterr())
