"""Ways past the list that were found by attacking it: each moved the scores of other records, and cannot again."""

import warnings
from functools import partial

import numpy as np
import pytest
import zoo
from audit.rowwise import public
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from dpbo_core.models.estimator_allowlist.inspection import unlisted_part
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.rowwise import check_rowwise
from dpbo_core.models.scores.accuracy import Correct


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
