"""Whatever an estimator does with sensitive rows stays in it: no stream, no log, no exit, no other process."""

import logging
import os
import sys

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from dpbo_core.models.containment import contained
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.scores.accuracy import Correct

X = np.random.default_rng(0).normal(size=(60, 2))
y = (X[:, 0] > 0).astype(np.int64)


def right(model, X, labels):
    return model.scores(X, labels, Correct()) > 0.0


@pytest.fixture
def fitted():
    return EstimatorFactory("sklearn.tree.DecisionTreeClassifier", {}, 0).train(X, y, max_depth=3)


def test_what_predict_prints_or_logs_is_dropped(fitted, monkeypatch, capsys, caplog):
    honest = fitted.estimator.predict

    def chatty(rows):
        print(rows[0, 0])
        print(rows[0, 0], file=sys.stderr)
        logging.getLogger("estimator").critical("row %s", rows[0])
        return honest(rows)

    monkeypatch.setattr(fitted.estimator, "predict", chatty)
    assert right(fitted, X, y).mean() > 0.9
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []
    logging.getLogger("estimator").critical("afterwards logging works again")
    assert len(caplog.records) == 1


def test_few_rows_are_fitted_and_predicted_by_one_thread(monkeypatch):
    """Two runs of one study on busy cores took minutes where they take seconds: OpenMP's threads waited."""
    seen = []
    for name in ("fit", "predict"):
        own = getattr(HistGradientBoostingClassifier, name)

        def noted(self, *rows, own=own):
            seen.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp")
            return own(self, *rows)

        monkeypatch.setattr(HistGradientBoostingClassifier, name, noted)
    model = EstimatorFactory("sklearn.ensemble.HistGradientBoostingClassifier", {}, 0).train(X, y, max_iter=3)
    with threadpool_limits(3, "openmp"):
        assert right(model, X, y).mean() > 0.5
    assert len(seen) >= 2
    assert set(seen) == {1}


def test_inside_another_it_holds_whatever_was_undone_there(capsys, caplog):
    """Where both streams and all loggers are silent still it does nothing; and where one is not, all of it."""
    log = logging.getLogger("estimator")
    with contained():
        outer = sys.stdout
        with contained():
            assert sys.stdout is outer
            print("a row")
            log.critical("a row")
        assert logging.root.manager.disable == sys.maxsize
        logging.disable(logging.NOTSET)
        with contained():
            log.critical("a row")
        logging.disable(sys.maxsize)
        sys.stderr = sys.__stderr__
        with contained():
            print("a row", file=sys.stderr)
        assert sys.stderr is sys.__stderr__
    assert capsys.readouterr() == ("", "")
    assert caplog.records == []
    assert logging.root.manager.disable == logging.NOTSET


def test_an_exit_from_predict_is_no_exit(fitted, monkeypatch):
    def leaves(rows):
        raise SystemExit(f"bad value {rows[0, 0]}")

    monkeypatch.setattr(fitted.estimator, "predict", leaves)
    assert not right(fitted, X, y).any()


def test_prediction_stays_in_this_process(fitted, monkeypatch):
    from joblib import Parallel, delayed

    honest, seen = fitted.estimator.predict, []

    def parallel(rows):
        seen.extend(Parallel(n_jobs=2)(delayed(os.getpid)() for _ in range(4)))
        return honest(rows)

    monkeypatch.setattr(fitted.estimator, "predict", parallel)
    right(fitted, X, y)
    assert set(seen) == {os.getpid()}
