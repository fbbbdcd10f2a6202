"""The list of classes that need no assumption: each entry tried on neighbours, each way past it closed."""

import functools
import sys
import warnings
from functools import partial
from importlib.metadata import version
from types import SimpleNamespace

import numpy as np
import pytest
import zoo
from audit.rowwise import examples, kinds, moved, public
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from worlds import mostly_slow

from dpbo_core import PrivateSearch, Real
from dpbo_core.errors import AssumptionNotAccepted, StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.models.estimator_allowlist import inspection
from dpbo_core.models.estimator_allowlist.classes import PARTS, PREDICTORS, TRANSFORMERS
from dpbo_core.models.estimator_allowlist.inspection import check_listed, imported, unlisted_name, unlisted_part
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.rowwise import check_rowwise
from dpbo_core.models.scores.accuracy import Correct

LISTED = {**PREDICTORS, **TRANSFORMERS, **PARTS}
PATHS = [path for path, _ in examples()]
FORMS = [  # the first form of each class; the others in `make audit`
    pytest.param(
        path, make, id=f"{path.rpartition('.')[2]}-{i}", marks=[] if PATHS.index(path) == i else pytest.mark.slow
    )
    for i, (path, make) in enumerate(examples())
]


def test_every_entry_says_why_and_is_scikit_learns_own():
    assert all(len(item.because.split()) >= 2 for item in LISTED.values())
    for path, item in PREDICTORS.items():
        kind, package = imported(path), path.partition(".")[0]
        assert package == {"scikit-learn": "sklearn"}.get(item.package, item.package)
        assert (kind is None and package != "sklearn") or kind.__module__.startswith(f"{package}."), path
    assert {path for path, _ in examples()} == set(kinds())


@pytest.mark.parametrize(("path", "make"), FORMS)
def test_a_listed_estimator_is_unconditional_and_its_records_leave_each_other_alone(path, make):
    estimator = make()
    assert unlisted_part(estimator) == ""
    assert moved(estimator, pairs=12) == (12, 0)
    assert unlisted_part(estimator) == ""  # what fitting and predicting left in it


@pytest.mark.parametrize("name", sorted(zoo.ALL))
def test_nobody_of_the_zoo_is_taken_for_listed(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = zoo.ALL[name]()
        before = unlisted_part(estimator)
        X, y, _ = public()
        try:
            after = unlisted_part(estimator.fit(X, (y > 0).astype(int)))
        except Exception:  # noqa: BLE001  some cannot even be trained
            after = "cannot be trained"
    assert before
    assert after


@pytest.mark.parametrize("name", mostly_slow(sorted(zoo.ALL), *sorted(zoo.ALL)[::8]))  # all are asked for above
def test_nobody_of_the_zoo_is_released_without_an_assumption(name, tmp_path):
    X, y, _ = public()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = zoo.ALL[name]()
        names = [key for key, value in estimator.get_params(deep=True).items() if type(value) is float]
        axis = {names[0] if names else "none": Real(0.1, 1.0)}
        search = PrivateSearch(
            estimator, axis, epsilon=1.0, delta=1e-6, dataset="d", budget=(9.0, 1e-5), ledger=url, n_candidates=4
        )
        with pytest.raises((AssumptionNotAccepted, StudyInvalid)):
            search.fit(X, (y > 0).astype(int), X_validation=X + 0.1, y_validation=(y > 0).astype(int))
    accounts = PrivacyLedger(url).accounts()
    assert all(account.entries == () for account in accounts)


def test_what_an_estimator_holds_is_looked_at_wherever_it_is():
    strange, model = zoo.Plain(), LogisticRegression()
    for put in (strange, [strange], (1, {"a": strange}), {strange: 1}, np.array([strange], dtype=object), zoo.shift,
                functools.partial(zoo.shift), zoo.Plain, zoo.Plain().predict, np.ones(2).view(zoo.Coefficients),
                zoo.Number(1.0), np.mean, len):  # fmt: skip
        model.held_ = put
        assert unlisted_part(model), put
    model.held_ = [1, 2.0, "a", None, np.ones(3), np.float32(1), {"k": (True, b"x")}, np.dtype(float), np.float64]
    model.held_.append(model)
    assert unlisted_part(model) == ""


def test_a_method_that_was_replaced_in_the_class_is_seen(monkeypatch):
    monkeypatch.setattr(LogisticRegression, "predict", zoo.BatchMean.predict)
    assert unlisted_part(LogisticRegression()) == "LogisticRegression with its predict replaced"
    assert unlisted_part(make_pipeline(StandardScaler(), LogisticRegression()))


def test_parameters_for_which_a_sentence_does_not_hold():
    from sklearn.dummy import DummyClassifier

    assert unlisted_part(DummyClassifier(strategy="uniform")) == "DummyClassifier with strategy = 'uniform'"
    assert unlisted_part(SVC(kernel=zoo.kernel)) == "SVC with kernel = a function"
    assert unlisted_part(KNeighborsClassifier(metric="mahalanobis"))
    assert unlisted_name("sklearn.dummy.DummyClassifier", {"strategy": "uniform"}, {})
    assert unlisted_name("sklearn.dummy.DummyClassifier", {}, {"strategy": ("prior", "stratified")})
    assert unlisted_name("sklearn.dummy.DummyClassifier", {}, {"strategy": ("prior",)}) == ""
    assert unlisted_name("ourpackage.Model", {}, {}) == "ourpackage.Model"
    assert unlisted_name("sklearn.frozen.Other", {}, {}) == "sklearn.frozen.Other"


def test_another_scikit_learn_than_was_read_is_not_believed(monkeypatch):
    assert unlisted_part(SVC()) == ""
    monkeypatch.setattr(inspection, "REVIEWED_VERSIONS", {"scikit-learn": ((1, 0), (1, 1))})
    assert version("scikit-learn") in unlisted_part(SVC())
    assert unlisted_name("sklearn.svm.SVC", {}, {})


def test_the_version_that_was_imported_counts_and_until_then_the_one_on_the_disk_now(monkeypatch):
    """A package that is upgraded between a plan and its import, or after it."""
    disk = {"lightgbm": "4.6.0"}
    monkeypatch.setattr(inspection, "version", disk.__getitem__)
    monkeypatch.delitem(sys.modules, "lightgbm", raising=False)
    assert inspection.unread_version("lightgbm") == ""
    disk["lightgbm"] = "9.0"
    assert "lightgbm 9.0, whose code was not read" in inspection.unread_version("lightgbm")
    monkeypatch.setitem(sys.modules, "lightgbm", SimpleNamespace(__version__="4.7.1"))
    assert inspection.unread_version("lightgbm") == ""
    monkeypatch.setitem(sys.modules, "lightgbm", SimpleNamespace(__version__="9.0"))
    disk["lightgbm"] = "4.6.0"
    assert "lightgbm 9.0" in inspection.unread_version("lightgbm")


def test_what_fitting_put_in_is_refused_before_it_scores(monkeypatch):
    """A study names an estimator by its path; what comes out of training is held to what that stood for."""

    class Factory:
        def train(self, X, y, weights=None, /, **_):
            model = LogisticRegression().fit(X, y)
            model.extra_ = zoo.Plain()
            return FittedEstimator(model, X[0])

    X, y, _ = public()
    with pytest.raises(StudyInvalid, match=r"holds zoo\.Plain"):
        EstimatorTrainer(X, y, Factory(), listed=True).train({})
    EstimatorTrainer(X, y, Factory(), listed=False).train({})
    with pytest.raises(StudyInvalid):
        check_listed(zoo.Plain())


# --- ways past the list that were found by attacking it: each moved the scores of other records, and cannot again


def test_what_works_in_place_never_reaches_the_rows_it_was_given():
    """A record that cannot be encoded had its block predicted row by row, and each was scaled where it lay."""
    x = np.r_[np.tile([-0.7, 0.7], 100), np.full(199, 8.0), 10.0]
    X, y = np.column_stack([x, np.tile([0.0, 1.0], 200)]), np.r_[np.tile([0, 1], 100), np.zeros(200, dtype=int)]
    encoded = ColumnTransformer([("a", "passthrough", [0]), ("b", OneHotEncoder(), [1])])
    estimator = make_pipeline(MaxAbsScaler(copy=False), encoded, DecisionTreeClassifier(random_state=0)).fit(
        X.copy(), y
    )
    model = FittedEstimator(estimator, X[0].copy())
    V, labels = np.column_stack([np.full(30, 8.0), np.tile([0.0, 1.0], 15)]), np.zeros(30, dtype=int)
    other = V.copy()
    other[3, 1] = 0.5
    kept = other.copy()
    before, after = model.scores(V, labels, Correct()), model.scores(other, labels, Correct())
    assert before.sum() == 30
    assert after.sum() == 29
    assert (other == kept).all()
    public_rows = X.copy()
    check_rowwise(model, public_rows)
    assert (public_rows == X).all()


class EqualToAll(type(LogisticRegression)):
    def __eq__(cls, other):
        return other in (LogisticRegression, type(None)) or cls is other

    def __hash__(cls):
        return hash(LogisticRegression)


class Liar(LogisticRegression, metaclass=EqualToAll):
    """Its class says that it is another, or nothing at all."""


class Index:
    def __index__(self):
        return 0


def test_nothing_is_asked_whether_it_is_on_the_list():
    assert {LogisticRegression: 1}.get(Liar) == 1  # what a dict believes
    assert unlisted_part(Liar()).endswith("Liar")
    assert unlisted_part(FrozenEstimator(Liar()))
    assert unlisted_part(FunctionTransformer(Liar))
    assert unlisted_part({"a": Liar})


def test_what_numpy_and_slices_carry_is_looked_at():
    step = np.empty(1, dtype=[("name", object), ("step", object)])
    step[0] = ("model", zoo.BatchMean())
    assert unlisted_part(Pipeline([step[0]]))
    assert unlisted_part(slice(Index(), None))
    assert unlisted_part(slice(0, 2)) == unlisted_part(np.zeros(1, dtype=[("a", float)])[0]) == ""


def test_a_function_that_is_given_where_to_write_is_not_elementwise():
    """Where `where` is false, the outcome is what lay in memory: an earlier block, say."""
    assert unlisted_part(FunctionTransformer(partial(np.sqrt, where=np.array([True, False]))))
    assert unlisted_part(FunctionTransformer(partial(np.exp, out=np.ones(3))))
    assert unlisted_part(FunctionTransformer(np.sqrt)) == ""


def test_a_verb_hidden_by_an_attribute_is_seen():
    X, y, _ = public()
    model = LogisticRegression().fit(X, y)
    model.predict_proba = RBF()  # a listed object, which compares all rows with one another when it is called
    assert unlisted_part(FrozenEstimator(model)) == "LogisticRegression with its predict_proba replaced"


@pytest.mark.parametrize("other", ["typed", "partial", "object"])
def test_a_method_replaced_by_code_of_no_file_or_by_an_object_is_seen(monkeypatch, other):
    space = {}
    exec(compile("def predict(self, X): return X.sum()", "<ipython-input-1>", "exec"), space)
    found = {"typed": space["predict"], "partial": partial(zoo.shift), "object": zoo.Plain()}[other]
    monkeypatch.setattr(LogisticRegression, "predict", found)
    assert unlisted_part(LogisticRegression()) == "LogisticRegression with its predict replaced"


def test_temperatures_are_not_on_the_list():
    """scikit-learn looks at the whole batch to tell probabilities from decisions: all rows must add up to 1."""
    X, y, _ = public()
    assert unlisted_part(CalibratedClassifierCV(method="temperature"))
    model = CalibratedClassifierCV(LogisticRegression(), method="temperature", cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model.fit(X, y)
        except ValueError:  # older versions have none
            return
    model.method = "sigmoid"
    assert unlisted_part(model)


def test_neighbours_of_sparse_rows_are_not_on_the_list():
    """One table without any category that is known goes another way than a table with one: ties fell otherwise."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 4, size=(400, 3)).astype(float), rng.integers(0, 2, 400)
    encoded = OneHotEncoder(handle_unknown="ignore")
    estimator = make_pipeline(encoded, KNeighborsClassifier(5, algorithm="brute", metric="manhattan")).fit(X, y)
    V = np.full((300, 3), 9.0)
    other = V.copy()
    other[3] = 1.0
    assert (estimator.predict(V) != estimator.predict(other)).sum() > 1  # scikit-learn's own doing
    assert unlisted_part(estimator) == "KNeighborsClassifier with sparse training rows"
    dense = make_pipeline(
        OneHotEncoder(handle_unknown="ignore", sparse_output=False), KNeighborsClassifier(metric="manhattan")
    )
    assert unlisted_part(dense.fit(X, y)) == ""
    assert unlisted_part(NearestCentroid(metric="manhattan"))  # the same, and nothing in it is sparse
