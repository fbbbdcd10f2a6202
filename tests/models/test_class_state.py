"""Nothing is left of what an estimator of others keeps outside its instances while it scores sensitive rows."""

import sys
from collections import deque

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dpbo_core import PrivateSearch
from dpbo_core.models.class_state import foreign_classes

LARGEST, SEEN, TABLE = 0.0, [[1.0]], np.zeros(2)
CANARY = 777.25


class Notes:
    """A class beside the estimator's, of which it makes no instance."""

    rows = ()


class Keeps(ClassifierMixin, BaseEstimator):
    """Keeps the largest first feature that it predicted, wherever a method can; trained, it says what it kept."""

    largest, history, table, kinds = 0.0, [], {"largest": 0.0, "inner": set()}, deque()

    def __init__(self, cut=0.0):
        self.cut = cut

    def fit(self, X, y):
        self.classes_, self.kept_ = np.unique(y), kept()
        return self

    def predict(self, X, memory=[0.0]):  # noqa: B006
        global LARGEST, NEW
        largest = float(np.max(np.asarray(X, dtype=float)[:, 0]))
        LARGEST = max(LARGEST, largest)
        Keeps.largest = max(Keeps.largest, largest)
        Keeps.history.append(largest)
        Keeps.table["largest"] = largest
        Keeps.table["inner"].add(largest)
        Keeps.kinds.append(largest)
        Keeps.later = largest
        Notes.rows = (*Notes.rows, largest)
        SEEN[0].append(largest)
        TABLE[0] = largest
        NEW = largest
        type(self).fit.__dict__["largest"] = largest
        memory[0] = largest
        return (np.asarray(X, dtype=float)[:, 0] > self.cut).astype(int)


def kept():
    """Everything that a later training can see of what was predicted before."""
    functions = Keeps.fit.__dict__, Keeps.predict.__defaults__
    return repr((LARGEST, SEEN, TABLE.tolist(), Notes.rows, functions, globals().get("NEW"), {
        name: value for name, value in vars(Keeps).items() if not callable(value) and name[:1] != "_"
    }))  # fmt: skip


def data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    sensitive = rng.normal(size=(40, 2))
    sensitive[7, 0] = CANARY
    return X, (X[:, 0] > 0).astype(int), sensitive, (sensitive[:, 0] > 0).astype(int)


def test_a_later_search_sees_nothing_that_an_earlier_one_s_classes_kept(here):
    X, y, V, truth = data()
    for name in ("first", "second"):
        search = PrivateSearch(
            Keeps(), {"cut": [0.0, 0.5]}, epsilon=1.0, delta=1e-6, dataset=name, budget=(5.0, 1e-5),
            ledger=f"sqlite:///{here / 'ledger.db'}", accepts=("rowwise_predictions",), method="private_grid",
        ).fit(X, y, X_validation=V, y_validation=truth)  # fmt: skip
        assert str(CANARY) not in kept() + search.best_estimator_[-1].kept_


def test_classes_of_scikit_learn_are_left_alone():
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit([[0.0], [1.0]], [0, 1])
    assert foreign_classes(model) == ()
    found = foreign_classes(make_pipeline(StandardScaler(), Keeps()))
    assert {Keeps, Notes} <= set(found)
    assert {kind.__module__ for kind in found} == {sys.modules[__name__].__name__}
