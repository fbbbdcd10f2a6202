"""Any scikit-learn estimator: import paths, names, seeds, and rows that would break or bend a prediction."""

import logging
import math
import os
import sys
import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import EstimatorFactory, FittedEstimator
from dpbo_core.models.import_path import estimator_class
from dpbo_core.models.isolated_estimator import contained
from dpbo_core.models.rowwise import N_ROWS_OF_SIMILAR_MODEL, N_ROWS_TRIED, check_rowwise
from dpbo_core.models.scores.accuracy import Correct

FOREST = "sklearn.ensemble.RandomForestClassifier"


def world(n=120, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + 0.5 * X[:, 1] + 0.3 * rng.normal(size=n) > 0).astype(int)


class Stub:
    """Predicts 1 where the first feature is positive, after `hook` has looked at the batch."""

    def __init__(self, hook=lambda X: None):
        self.hook, self.shapes = hook, []

    def predict(self, X):
        self.shapes.append(X.shape)
        found = self.hook(X)
        return (X[:, 0] > 0).astype(int) if found is None else found


def right(model, X, labels):
    """Whether each row's predicted class is its label."""
    return model.scores(X, labels, Correct()) > 0.0


def fitted(hook=lambda X: None, d=2):
    return FittedEstimator(Stub(hook), np.full(d, 0.25))


# --- import paths


@pytest.mark.parametrize(("says", "paths"), [
    ("not the import path", ["RandomForestClassifier", "", None, "sklearn..SVC", "sklearn.svm.SVC()",
                             "sklearn.svm.SVC; print(1)", "__builtins__.eval", "sklearn.__builtins__.eval",
                             "sklearn.svm._classes.SVC"]),
    ("not in an installed package", ["os.system", "builtins.eval", "subprocess.Popen", "no_such_package.Thing"]),
    ("no estimator could be imported", ["sklearn.svn.SVC", "sklearn.svm.SVCC"]),
    ("not a scikit-learn estimator", ["numpy.linalg.norm", "numpy.ndarray", "sklearn.svm"]),
    (r"StandardScaler.* predicts nothing.*scaled before it", ["sklearn.preprocessing.StandardScaler"]),
])  # fmt: skip
def test_paths_that_are_refused(says, paths):
    for path in paths:
        with pytest.raises(StudyInvalid, match=says):
            estimator_class(path)


@pytest.mark.parametrize(("path", "package"), [
    ("lightgbm.LGBMClassifier", "lightgbm"), ("xgboost.XGBRegressor", "xgboost"),
])  # fmt: skip
def test_how_a_booster_that_is_missing_is_installed(path, package, monkeypatch):
    monkeypatch.setattr("dpbo_core.models.import_path.is_provided", lambda _: False)
    with pytest.raises(StudyInvalid) as refused:
        estimator_class(path)
    assert f"no installed distribution provides '{package}'" in refused.value.message()
    assert f"install the package in this environment (pip install {package})" in refused.value.message()


PLANTED = {  # what stands in the module, and what is said of it
    "planted_exit": ("raise SystemExit(3)", "no estimator could be imported"),
    "planted_error": ("1/0", "no estimator could be imported"),
    "planted_import": ("import no_such_thing_at_all", "no estimator could be imported"),
    "planted_memory": ("raise MemoryError", "no estimator could be imported"),
    "planted_object": ("class Kind:\n    fit = predict = get_params = set_params = lambda *a: None\nThing = Kind()",
                       "it is not a class"),
}  # fmt: skip


def test_a_file_beside_the_study_is_not_imported_and_a_package_that_fails_to_import_is_a_letter(
    tmp_path, monkeypatch
):
    """Modules beside the study; and distributions of one module each, as an installer leaves them."""
    (tmp_path / "planted_beside.py").write_text("raise SystemExit('it ran')\n")
    for name, (body, _) in PLANTED.items():
        (tmp_path / f"{name}.py").write_text(body + "\n")
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "top_level.txt").write_text(name + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(StudyInvalid, match="not in an installed package"):
        estimator_class("planted_beside.Thing")
    assert "planted_beside" not in sys.modules
    try:
        for name, (_, says) in PLANTED.items():
            with pytest.raises(StudyInvalid, match=says):
                estimator_class(f"{name}.Thing")
        assert estimator_class("planted_object.Kind").__name__ == "Kind"
    finally:
        sys.modules.pop("planted_object", None)


# --- names, values, seeds


@pytest.mark.parametrize(
    ("path", "params", "wrong", "near"),
    [
        (FOREST, {}, {"max_dept": 3}, "max_depth"),
        (FOREST, {}, {"lambda": 3}, ""),
        ("sklearn.linear_model.LogisticRegression", {}, {"c": 1.0}, "'C'"),
    ],
)
def test_a_misspelt_name_is_a_letter_with_the_nearest_one(path, params, wrong, near):
    X, y = world()
    with pytest.raises(StudyInvalid, match=f"no parameter '{next(iter(wrong))}'.*nearest valid name is .*{near}"):
        EstimatorFactory(path, params).train(X, y, **wrong)
    with pytest.raises(StudyInvalid, match="no parameter"):
        EstimatorFactory(path, wrong).train(X, y, **params)


def pipeline():
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.preprocessing import StandardScaler

    steps = [("scale", StandardScaler()), ("forest", RandomForestClassifier(n_estimators=5))]
    return EstimatorFactory("sklearn.pipeline.Pipeline", {"steps": steps}, seed=7)


def test_nested_names_reach_a_pipeline_and_misspelt_ones_do_not():
    X, y = world()
    assert pipeline().train(X, y, forest__max_depth=2).estimator.named_steps["forest"].max_depth == 2
    assert pipeline().train(X, y, scale="passthrough").estimator.named_steps["scale"] == "passthrough"
    with pytest.raises(StudyInvalid, match=r"'forest__max_depht'.*'forest__max_depth'"):
        pipeline().train(X, y, forest__max_depht=2)


def test_every_free_random_state_takes_the_seed():
    assert pipeline().build().get_params()["forest__random_state"] == 7
    assert EstimatorFactory(FOREST, seed=3).build().random_state == 3
    assert EstimatorFactory(FOREST, {"random_state": None}, seed=3).build().random_state == 3
    assert EstimatorFactory(FOREST, {"random_state": 5}, seed=3).build().random_state == 5
    assert EstimatorFactory("sklearn.naive_bayes.GaussianNB", seed=3).build().get_params()["priors"] is None


def test_hyperparameters_win_over_fixed_parameters_and_both_arrive():
    built = EstimatorFactory(FOREST, {"n_estimators": 3, "max_depth": 4}).build(max_depth=2)
    assert (built.n_estimators, built.max_depth) == (3, 2)


def test_training_is_cold_and_a_function_of_data_parameters_and_seed():
    X, y = world()
    grid = np.random.default_rng(1).normal(size=(500, 4))
    factory = EstimatorFactory(FOREST, {"n_estimators": 3, "warm_start": True}, seed=1)

    def shape(seed=1, **hyperparameters):
        fresh = EstimatorFactory(factory.import_path, factory.params, seed)
        return fresh.train(X, y, **hyperparameters).estimator.predict_proba(grid).tobytes()

    first = factory.train(X, y, max_depth=3)
    factory.train(X, 1 - y, max_depth=9)
    again = factory.train(X, y, max_depth=3)
    assert first.estimator is not again.estimator
    assert len(again.estimator.estimators_) == 3
    assert again.estimator.predict_proba(grid).tobytes() == first.estimator.predict_proba(grid).tobytes()
    assert shape(max_depth=3) == first.estimator.predict_proba(grid).tobytes()
    assert shape(seed=2, max_depth=3) != shape(seed=1, max_depth=3)


def test_the_users_own_objects_are_not_fitted_or_changed():
    X, y = world()
    factory = pipeline()
    factory.train(X, y, forest__max_depth=2)
    forest = factory.params["steps"][1][1]
    assert not hasattr(forest, "estimators_")
    assert (forest.random_state, forest.max_depth) == (None, None)


@pytest.mark.parametrize(
    ("path", "hyperparameters", "says"),
    [
        (FOREST, {"n_estimators": -1}, "InvalidParameterError"),
        (FOREST, {"criterion": "nonsense"}, "InvalidParameterError"),
        ("sklearn.pipeline.Pipeline", {}, "TypeError"),
        ("sklearn.pipeline.Pipeline", {"steps": 3}, "could not be"),
        ("sklearn.linear_model.Ridge", {}, "not a classifier"),
        ("sklearn.cluster.KMeans", {}, "not a classifier"),
        ("sklearn.ensemble.IsolationForest", {}, "not a classifier"),
    ],
)
def test_what_cannot_be_built_or_fitted_is_a_letter(path, hyperparameters, says):
    X, y = world()
    with pytest.raises(StudyInvalid, match=says) as caught:
        EstimatorFactory(path).train(X, y, **hyperparameters)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(("X", "y"), [
    ([["a", "b"]], [0]), (np.zeros((0, 2)), []), (np.zeros(3), [0, 1, 0]), (np.zeros((3, 2)), [0, 1]),
    (np.zeros((3, 2)), [1, 1, 1]), ([[math.nan], [1.0]], [0, 1]),
])  # fmt: skip
def test_training_rows_that_cannot_be_fitted_are_a_letter(X, y):
    with pytest.raises(StudyInvalid, match="could not be trained"):
        EstimatorFactory("sklearn.svm.LinearSVC").train(X, y)


# --- row by row


@pytest.mark.parametrize(
    "hook",
    [
        lambda X: (X[:, 0] > X[:, 0].mean()).astype(int),
        lambda X: (X[:, 0] > 0).astype(int) ^ (len(X) == 1),
        lambda X: np.arange(len(X)) % 2,
        lambda X: (X[:, 0] > 0).astype(int) * (1 if X[0, 0] > 0 else 2),
        lambda X: np.argsort(np.argsort(X[:, 0])),
    ],
)
def test_a_prediction_that_sees_its_batch_is_refused(hook):
    X = np.random.default_rng(0).normal(size=(200, 2))
    for rows_alone in (N_ROWS_TRIED, N_ROWS_OF_SIMILAR_MODEL):
        with pytest.raises(StudyInvalid, match="depends on the other rows"):
            check_rowwise(fitted(hook), X, rows_alone=rows_alone)
        check_rowwise(fitted(), X, rows_alone=rows_alone)


def _fails(_):
    raise RuntimeError("record 17 holds 42")


@pytest.mark.parametrize(
    "hook",
    [
        _fails,
        lambda X: np.zeros(len(X) + 1),
        lambda X: np.zeros((len(X), 2)),
        lambda X: _fails(X) if len(X) == 1 else None,
    ],
)
def test_an_estimator_that_cannot_predict_public_rows_is_refused(hook):
    with pytest.raises(StudyInvalid, match="one at a time"):
        check_rowwise(fitted(hook), np.ones((5, 2)))


# --- any row at all

HOSTILE = [math.nan, math.inf, -math.inf, 1e308, -1e308, 1e39, -1e39]
TAME = [5e-324, -0.0, 3e38, -3e38, 1e30]


@pytest.mark.parametrize("path", [
    "linear_model.LogisticRegression", "svm.SVC", "neighbors.KNeighborsClassifier",
    "ensemble.RandomForestClassifier", "ensemble.HistGradientBoostingClassifier", "neural_network.MLPClassifier",
    "discriminant_analysis.QuadraticDiscriminantAnalysis",
])  # fmt: skip
def test_hostile_rows_are_incorrect_and_leave_the_others_alone(path):
    X, y = world()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the fit, which is public
        model = EstimatorFactory(f"sklearn.{path}", seed=1).train(X, y)
    fresh_X, fresh_y = world(n=60, seed=5)
    clean = right(model, fresh_X, fresh_y)
    assert clean.mean() > 0.6
    spoiled, expected = fresh_X.copy(), clean.copy()
    for i, value in enumerate(HOSTILE):
        spoiled[3 * i, i % 4] = value
        expected[3 * i] = False
    tame = 3 * len(HOSTILE) + 3 * np.arange(len(TAME))
    spoiled[tame, 0] = TAME
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        found = right(model, spoiled, fresh_y)
    untouched = np.setdiff1d(np.arange(60), tame)
    assert found.dtype == bool
    assert found[untouched].tolist() == expected[untouched].tolist()


def test_a_row_that_raises_is_incorrect_and_alone_in_it():
    def hook(X):
        if (X[:, 1] == 7.0).any():
            raise ValueError("Found unknown categories [7.0]")

    X = np.random.default_rng(0).normal(size=(1100, 2))
    labels = (X[:, 0] > 0).astype(int)
    X[[5, 1023, 1099], 1] = 7.0
    found = right(fitted(hook), X, labels)
    assert np.flatnonzero(~found).tolist() == [5, 1023, 1099]


def test_the_others_are_predicted_in_the_same_place_whatever_a_row_is():
    """A sum's last bit may depend on a row's place in its batch; so a broken row is replaced, never dropped."""
    seen = []

    def hook(X):
        if (X[:, 1] == 7.0).any():
            raise ValueError
        seen.append(X.copy())

    X = np.random.default_rng(0).normal(size=(10, 2))
    for value in (0.0, 7.0, math.nan):
        X[4, 1] = value
        seen.clear()
        right(fitted(hook), X, np.ones(10))
        full = [batch for batch in seen if len(batch) == 10]
        assert len(full) == 1
        assert np.delete(full[0], 4, axis=0).tobytes() == np.delete(X, 4, axis=0).tobytes()


def test_blocks_bound_the_batch_and_agree_with_single_rows():
    X = np.random.default_rng(0).normal(size=(2500, 2))
    labels, some = np.random.default_rng(1).integers(0, 2, size=2500), [0, 1, 1023, 1024, *range(2045, 2051), 2499]
    model = fitted()
    found = right(model, X, labels)
    assert max(rows for rows, _ in model.estimator.shapes) <= 1024
    assert found.tolist() == ((X[:, 0] > 0) == labels).tolist()
    assert found[some].tolist() == [bool(right(model, X[i : i + 1], labels[i : i + 1])[0]) for i in some]
    assert right(model, np.zeros((0, 2)), []).tolist() == []


def test_when_every_batch_fails_rows_are_taken_one_at_a_time():
    def hook(X):
        if len(X) > 1:
            raise MemoryError

    X = np.array([[1.0, 0.0], [-1.0, 0.0], [math.nan, 0.0]])
    assert right(fitted(hook), X, [1, 1, 1]).tolist() == [True, False, False]
    assert right(fitted(_fails), X, [1, 1, 1]).tolist() == [False, False, False]
    assert right(fitted(lambda X: np.ones((len(X), 2))), X, [1, 1, 1]).tolist() == [False, False, False]


def test_any_label_counts_as_incorrect_and_never_raises():
    import pandas as pd

    class Angry:
        def __eq__(self, other):
            raise ValueError("my value is 42")

        __hash__ = None

    X = np.ones((9, 2))
    labels = np.array([1, 1.0, True, "1", None, math.nan, pd.NA, Angry(), 10**400], dtype=object)
    assert right(fitted(), X, labels).tolist() == [True, True, True, *[False] * 6]
    assert right(fitted(), X, np.array(["1"] * 9)).tolist() == [False] * 9


# --- whatever an estimator does with sensitive rows stays in it: no stream, no log, no exit, no other process

X = np.random.default_rng(0).normal(size=(60, 2))
y = (X[:, 0] > 0).astype(np.int64)


@pytest.fixture
def tree():
    return EstimatorFactory("sklearn.tree.DecisionTreeClassifier", {}, 0).train(X, y, max_depth=3)


def test_what_predict_prints_or_logs_is_dropped(tree, monkeypatch, capsys, caplog):
    honest = tree.estimator.predict

    def chatty(rows):
        print(rows[0, 0])
        print(rows[0, 0], file=sys.stderr)
        logging.getLogger("estimator").critical("row %s", rows[0])
        return honest(rows)

    monkeypatch.setattr(tree.estimator, "predict", chatty)
    assert right(tree, X, y).mean() > 0.9
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


def test_an_exit_from_predict_is_no_exit(tree, monkeypatch):
    def leaves(rows):
        raise SystemExit(f"bad value {rows[0, 0]}")

    monkeypatch.setattr(tree.estimator, "predict", leaves)
    assert not right(tree, X, y).any()


def test_prediction_stays_in_this_process(tree, monkeypatch):
    from joblib import Parallel, delayed

    honest, seen = tree.estimator.predict, []

    def parallel(rows):
        seen.extend(Parallel(n_jobs=2)(delayed(os.getpid)() for _ in range(4)))
        return honest(rows)

    monkeypatch.setattr(tree.estimator, "predict", parallel)
    right(tree, X, y)
    assert set(seen) == {os.getpid()}
