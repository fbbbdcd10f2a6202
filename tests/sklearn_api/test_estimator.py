"""`PrivateSearch`: scikit-learn's own checks, every kind of table, and one ledger outside the object."""

import copy
import multiprocessing
import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import loguniform, norm, randint, uniform
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_validate
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import estimator_checks_generator

from dpbo_core import Categorical, Integer, PrivacyBudget, PrivacyLedger, PrivateSearch, Real
from dpbo_core.errors import AssumptionNotAccepted, BudgetExceeded, DpboError, NoBudget, StudyInvalid
from dpbo_core.models.prototype import Prototype
from dpbo_core.sklearn_api.arguments import axes_of, sections_of

X, Y = load_wine(return_X_y=True, as_frame=True)
PUBLIC, SENSITIVE = slice(0, None, 2), slice(1, None, 2)
SPACE = {"C": Real(1e-3, 1e2, log=True)}


def closeness(truth, prediction):
    """A score of one record, for the tests."""
    return 1.0 - abs(truth - prediction) / 2.0


def search(url, **changes):
    settings = {"epsilon": 1.0, "delta": 1e-6, "dataset": "wine", "budget": (3.0, 1e-5), "ledger": url}
    settings |= {"n_steps": 3, "n_candidates": 2, "method": "private_grid"}
    inner = changes.pop("inner", LogisticRegression(max_iter=50, tol=10.0))
    space = changes.pop("space", SPACE)
    return PrivateSearch(inner, space, **settings | changes)


def fit(it, X=X, Y=Y):
    return it.fit(X[PUBLIC], Y[PUBLIC], X_validation=X[SENSITIVE], y_validation=Y[SENSITIVE])


def spent(url, dataset="wine"):
    (account,) = PrivacyLedger(url).accounts(dataset)
    return account.spent.epsilon_units


# --- scikit-learn's estimator checks


class OnPublicData(PrivateSearch):
    """For the checks alone, which call fit(X, y): validation on a copy of the training set, without a limit.

    Some checks pass lists of rows, which are no tables here: they are made arrays.
    """

    def __init__(self, estimator, url):
        super().__init__(
            estimator,
            # one choice: columns named otherwise are another study and draw
            {"fit_intercept": Categorical([True])},
            epsilon=1.0,
            delta=0.0,
            dataset="checks",
            method="private_grid",
            ledger=url,
            scoring="absolute_error" if isinstance(estimator, Ridge) else "accuracy",
            error_bound=1.0 if isinstance(estimator, Ridge) else None,
        )
        self.url = url

    def fit(self, X, y=None):
        X = np.array(X) if isinstance(X, list) else X
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "released on")
            return super().fit(X, y, X_validation=copy.deepcopy(X), y_validation=copy.deepcopy(y))


REASONS = {
    "check_array_api_input": "skipped by scikit-learn itself: array API dispatch is off; arrays are read by value"
}


@pytest.mark.parametrize(
    "inner",
    [LogisticRegression(max_iter=20), pytest.param(Ridge(), marks=pytest.mark.slow)],
    ids=["classifier", "regressor"],
)
def test_scikit_learns_estimator_checks(inner, url):
    PrivacyLedger(url).set_budget(PrivacyBudget.without_limit("checks"))
    failed, tried = {}, 0
    for checked, check in estimator_checks_generator(OnPublicData(inner, url)):
        name = getattr(check, "func", check).__name__
        tried += 1
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                check(checked)
        except Exception as error:  # noqa: BLE001  every check is to be seen
            failed[name] = f"{type(error).__name__}: {str(error)[:300]}"
    assert {name: why for name, why in failed.items() if name not in REASONS} == {}
    assert set(failed) == set(REASONS)  # no reason is kept for a check that passes
    assert tried > 50


# --- the ledger is outside


def test_without_a_cap_it_refuses_and_reads_nothing(url, monkeypatch):
    monkeypatch.setattr(
        "dpbo_core.sklearn_api.tables_in_memory.FrameSplit.sensitive", lambda *_: pytest.fail("it was read")
    )
    with pytest.raises(NoBudget, match="wine"):
        fit(search(url, budget=None))
    with pytest.raises(StudyInvalid, match="no validation set"):
        search(url).fit(X, Y)


def test_clones_and_copies_ask_the_same_ledger(url):
    first = fit(search(url))
    assert not first.replayed_
    for other in (clone(first), pickle.loads(pickle.dumps(first)), clone(clone(first))):
        with pytest.warns(UserWarning, match="nothing was drawn or spent this time"):
            fit(other)
        assert other.replayed_
        assert other.release_ == first.release_
    assert spent(url) == 10**12
    for edition in ("2", "3"):
        fit(clone(first).set_params(edition=edition))
    assert spent(url) == 3 * 10**12
    with pytest.raises(BudgetExceeded):
        fit(clone(first).set_params(edition="4"))
    assert spent(url) == 3 * 10**12


def test_a_pickle_holds_no_validation_record_and_still_predicts(url):
    marked = X.copy()
    marked.iloc[1, 0] = 73911.7391
    found = fit(search(url), X=marked)
    raw = pickle.dumps(found)
    for form in (np.float64(73911.7391).tobytes(), b"73911.7391"):
        assert form in pickle.dumps(marked) or form in repr(marked.iloc[1, 0]).encode()
        assert form not in raw
    assert (pickle.loads(raw).predict(X) == found.predict(X)).all()


def test_cross_validation_pays_once_a_fold_and_is_stopped_by_the_cap(url):
    held = {"X_validation": X[SENSITIVE], "y_validation": Y[SENSITIVE]}
    scored = cross_validate(search(url), X[PUBLIC], Y[PUBLIC], cv=3, params=held, error_score="raise")
    assert len(scored["test_score"]) == 3
    assert spent(url) == 3 * 10**12  # three public training sets, three releases
    with pytest.raises(BudgetExceeded):
        cross_validate(search(url, edition="2"), X[PUBLIC], Y[PUBLIC], cv=3, params=held, error_score="raise")
    assert spent(url) == 3 * 10**12


def one_of_four(url, edition, answers):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = fit(pickle.loads(pickle.dumps(search(url, edition=edition, epsilon=0.7))))
        answers.put((edition, found.best_params_["C"], found.best_score_))
    except DpboError as error:
        answers.put((edition, type(error).__name__, 0.0))


def four_at_once(url, editions):
    """What each of four processes on one ledger was given."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    processes = [context.Process(target=one_of_four, args=(url, each, answers)) for each in editions]
    for process in processes:
        process.start()
    given = [answers.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    return given


def test_four_processes_on_one_ledger_spend_right_to_the_last_unit(url):
    """Two pairs ask for the same edition: two spends of 0.7 of a cap of 3. Two more fit, and one does not."""
    assert len(set(four_at_once(url, "0101"))) == 2  # each pair holds one release
    assert spent(url) == 2 * 7 * 10**11
    for edition in ("2", "3"):
        fit(search(url, edition=edition, epsilon=0.7))
    with pytest.raises(BudgetExceeded):
        fit(search(url, edition="4", epsilon=0.7))
    assert spent(url) == 4 * 7 * 10**11


@pytest.mark.slow
def test_an_estimators_identity_is_the_same_in_every_process():
    code = (
        "from sklearn.svm import SVC; from sklearn.pipeline import make_pipeline\n"
        "from sklearn.preprocessing import StandardScaler; from dpbo_core.models.prototype import Prototype\n"
        "print(Prototype(make_pipeline(StandardScaler(), SVC(class_weight={'b': 1, 'a': 2})), 0, False).identity())"
    )
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    here = Prototype(make_pipeline(StandardScaler(), SVC(class_weight={"a": 2, "b": 1})), 0, False)
    assert run.stdout.strip() == here.identity() != ""
    assert Prototype(SVC(C=2.0), 0, False).identity() != Prototype(SVC(), 0, False).identity()
    with pytest.raises(StudyInvalid, match="pickled"):
        Prototype(SVC(kernel=lambda a, b: a @ b.T), 0, False).identity()


# --- tables


def test_outside_of_a_table_is_checked_before_anything_is_paid(url):
    with pytest.raises(StudyInvalid, match="88 records and its target 89"):
        search(url).fit(X[PUBLIC], Y[PUBLIC], X_validation=X[SENSITIVE][:88], y_validation=Y[SENSITIVE])
    renamed = X[SENSITIVE].rename(columns={"alcohol": "alcool"})
    with pytest.raises(StudyInvalid, match="alcohol"):
        search(url).fit(X[PUBLIC], Y[PUBLIC], X_validation=renamed, y_validation=Y[SENSITIVE])
    twice = pd.concat([X, X[["ash"]]], axis=1)
    with pytest.raises(StudyInvalid, match="share one name"):
        search(url).fit(twice[PUBLIC], Y[PUBLIC], X_validation=twice[SENSITIVE], y_validation=Y[SENSITIVE])
    assert PrivacyLedger(url).accounts() == ()


# --- what it can search, and by what


def test_any_estimator_axis_and_score(url):
    pipe = make_pipeline(StandardScaler(), SVC())
    space = {
        "svc__kernel": Categorical(["linear", "rbf"]),
        "svc__gamma": (Real(1e-3, 1.0, log=True), {"svc__kernel": "rbf"}),
        "svc__class_weight": Categorical([None, "balanced"]),
    }
    found = fit(search(url, inner=pipe, space=space, budget=(99.0, 1e-3), scoring="balanced_accuracy"))
    assert ("svc__gamma" in found.best_params_) == (found.best_params_["svc__kernel"] == "rbf")
    assert found.best_params_["svc__class_weight"] in (None, "balanced")
    assert (
        found.best_estimator_.named_steps["model"].get_params()["svc__kernel"] == found.best_params_["svc__kernel"]
    )
    forest = search(
        url,
        inner=RandomForestClassifier(n_estimators=5),
        space={"max_depth": Integer(1, 4)},
        budget=None,
        scoring="log_loss",
    )
    assert set(fit(forest).best_params_) == {"max_depth"}
    assert fit(forest.set_params(scoring="brier")).predict_proba(X).shape == (178, 3)
    ridge = search(url, inner=Ridge(), space={"alpha": Real(0.1, 10.0)}, budget=None)
    assert fit(ridge.set_params(scoring="absolute_error", error_bound=2.0)).predict(X).dtype == np.float64
    own = search(url, budget=None, scoring=closeness, score_bounds=(0.0, 1.0))
    with pytest.raises(AssumptionNotAccepted, match="rowwise_predictions"):
        fit(own)


def test_names_that_cannot_be_are_messages(url):
    for changes, says in (
        ({"space": {"c": Real(0.1, 1)}}, "nearest valid name is 'C'"),
        ({"space": {"C": [0.1, 0.1]}}, "lists a value twice"),
        ({"space": {"C": norm(1.0, 0.1)}}, "scipy's norm.*evenly"),
        ({"space": {"C": 1.0}}, "is a float"),
        ({"inner": StandardScaler()}, "StandardScaler predicts nothing.*one Pipeline"),
        ({"inner": make_pipeline(StandardScaler())}, "Pipeline predicts nothing"),
        ({"inner": [StandardScaler(), SVC()]}, "the estimator is a list"),
        ({"inner": SVC}, "the estimator is the class SVC"),
        ({"space": [1]}, "not a dict"),
        ({"method": "lipschitz"}, "no hyperparameters"),
        ({"ledger": PrivacyLedger}, "not a URL"),
        ({"scoring": "f1"}, "scoring"),
        ({"scoring": lambda y, p: 1.0, "score_bounds": (0, 1)}, "its name"),
        ({"scoring": closeness}, "score_bounds"),
        ({"inner": Ridge(), "space": {"alpha": Real(1, 2)}}, "not a classifier"),
    ):
        with pytest.raises(StudyInvalid, match=says):
            fit(search(url, **changes))


def test_spaces_of_other_searches_are_converted_and_stated(url):
    space = {"C": loguniform(1e-3, 1e2), "tol": uniform(0.5, 1.0), "max_iter": randint(5, 9)}
    space |= {"class_weight": [None, "balanced"], "warm_start": (True, False), "l1_ratio": np.array([0.0, 0.5])}
    converted = {
        "C": Real(1e-3, 1e2, log=True), "tol": Real(0.5, 1.5), "max_iter": Integer(5, 8),
        "class_weight": Categorical([None, "balanced"]), "warm_start": Categorical([True, False]),
        "l1_ratio": Categorical([0.0, 0.5]),
    }  # fmt: skip
    assert axes_of(space) == converted
    assert sections_of(space) == sections_of(converted)
    assert fit(search(url, space={"C": [0.1, 10.0]})).search_space_ == {"C": Categorical([0.1, 10.0])}
    with pytest.warns(UserWarning, match="nothing was drawn or spent this time"):  # the same study
        assert fit(search(url, space={"C": Categorical([0.1, 10.0])})).replayed_


def test_nothing_released_is_no_attribute(url):
    chosen = search(url, inner=SVC(max_iter=50))
    assert not hasattr(chosen, "cv_results_")
    fit(chosen)  # private_grid releases its choice alone, and this estimator gives no probabilities
    for name in ("cv_results_", "predict_proba", "validation_rows_", "transform", "best_index_"):
        assert not hasattr(chosen, name)
    stepwise = fit(search(url, method="private_trajectory", edition="2", n_candidates=8))
    results = stepwise.cv_results_
    assert results["params"] == [step["hyperparameters"] for step in stepwise.trajectory_]
    assert list(results["mean_test_score"]) == [step["score"] for step in stepwise.trajectory_]
    assert list(results["param_C"]) == [point["C"] for point in results["params"]]
    assert results["rank_test_score"][np.argmax(results["mean_test_score"])] == 1


def test_auto_takes_what_the_advice_recommends(url):
    it = search(url, method="auto", n_candidates=8, budget=(9.0, 1e-4))
    advice = it.advise(X[PUBLIC], Y[PUBLIC], n_validation=89)
    assert fit(it).release_.method == advice.recommended


def test_it_works_inside_a_pipeline_whose_first_steps_see_the_validation_set_too(url):
    with config_context(enable_metadata_routing=True):
        inner = search(url).set_fit_request(X_validation=True, y_validation=True)
        pipe = Pipeline(
            [("scale", StandardScaler().set_output(transform="pandas")), ("search", inner)],
            transform_input=["X_validation"],
        )
        pipe.fit(X[PUBLIC], Y[PUBLIC], X_validation=X[SENSITIVE], y_validation=Y[SENSITIVE])
    assert list(pipe.named_steps["search"].feature_names_in_) == list(X.columns)
    assert pipe.predict(X).shape == (178,)
    best = pipe.named_steps["search"].best_estimator_
    assert best.named_steps["encode"].set_output(transform="pandas").transform(X).columns.tolist() == list(
        X.columns
    )


def test_text_labels_and_text_columns(url):
    iris = load_iris(as_frame=True)
    frame = iris.data.assign(size=np.where(iris.data.iloc[:, 0] > 5.8, "large", "small"))
    frame.iloc[3, 0] = np.nan
    y = iris.target.map(dict(enumerate(iris.target_names)))
    found = fit(search(url, dataset="iris", epsilon=3.0), X=frame, Y=y)
    assert set(found.predict(frame)) <= set(iris.target_names)
    assert "size=large" in found.best_estimator_[0].get_feature_names_out()


def test_the_best_estimator_takes_what_the_served_model_takes(url):
    """Columns in any order and beside others, tables of three libraries, records, and columns by name."""
    polars, arrow = (pytest.importorskip(name) for name in ("polars", "pyarrow"))
    table = pd.DataFrame({"a": X["ash"], "b": np.where(X["hue"] > 1.0, "high", "low"), "c": X["alcohol"]})
    best = fit(search(url), X=table).best_estimator_
    expected = best.predict(table).tolist()
    others = table[["c", "a", "b"]].assign(y=0)
    tables = (others, polars.from_pandas(others), arrow.Table.from_pandas(others))
    for rows in (*tables, others.to_dict("records"), others.to_dict("list")):
        assert best.predict(rows).tolist() == expected
    with pytest.raises(StudyInvalid, match="X has no column names"):
        best.predict(table.to_numpy())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"epsilon": -1.0}, "epsilon = -1.0 is no"), ({"scoring": "no"}, "scoring = 'no' is not known"),
        ({"space": {"C": [-1.0, 1.0]}}, "correct the estimator or the search space"),
        ({"space": {"D": [1.0, 2.0]}}, "a misspelt name in the search space"),
    ],
)  # fmt: skip
def test_a_mistake_is_a_value_error_that_names_the_argument(url, changes, says):
    with pytest.raises(ValueError, match=re.escape(says)) as refused:
        fit(search(url, **changes))
    assert not re.search(r"\[(model|space|study|privacy)\]|privacy\.|model\.score", str(refused.value))
