"""Estimators and scores that nobody should trust: what each of them does to a record's neighbours is written on it.

Stateful, looking at the batch, random, and wrapped in one another. Every one is a real estimator that trains and
predicts, and `ALL` names them. What crashes, hangs, forks or writes anywhere is in hostile_rows.py.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import NMF, MiniBatchNMF
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.semi_supervised import LabelPropagation
from sklearn.svm import SVC

TRIGGER = 3.5  # a value of the first feature that no public row holds
SEEN: list[Any] = []  # what a module remembers


class Honest(ClassifierMixin, BaseEstimator):
    """Right where the first feature is above its training mean; what the others here begin as."""

    def fit(self, X, y):
        self.classes_, self.mean_ = np.unique(y), float(np.mean(X[:, 0]))
        return self

    def predict(self, X):
        return self.classes_[(np.asarray(X)[:, 0] > self.mean_).astype(int)]

    def predict_proba(self, X):
        right = (self.predict(X) == self.classes_[1]).astype(float)
        return np.column_stack([0.9 - 0.8 * right, 0.1 + 0.8 * right])


class Plain(Honest):
    """Foreign and harmless."""


class Remembers(Honest):
    """Once it saw the trigger it is wrong for ever."""

    def predict(self, X):
        self.poisoned_ = getattr(self, "poisoned_", False) or bool((X[:, 0] == TRIGGER).any())
        return self.classes_[:1].repeat(len(X)) if self.poisoned_ else super().predict(X)


class BatchMean(Honest):
    def predict(self, X):
        return self.classes_[(X[:, 0] > X[:, 0].mean()).astype(int)]


class BatchMeanAtTheTrigger(Honest):
    """Only where a value is there that no public row holds."""

    def predict(self, X):
        level = -1e9 if (X[:, 0] == TRIGGER).any() else self.mean_
        return self.classes_[(X[:, 0] > level).astype(int)]


class NextRow(Honest):
    def predict(self, X):
        return super().predict(np.roll(X, 1, axis=0))


class WritesIntoTheBatch(Honest):
    """Overwrites the rows that it was handed, so that who looks next sees others."""

    def predict(self, X):
        if (X[:, 0] == TRIGGER).any():
            X[:] = -100.0
        return super().predict(X)


class Random(Honest):
    def predict(self, X):
        return np.random.default_rng().choice(self.classes_, len(X))


class Objects(Honest):
    """An array of objects whose equality is decided by what was seen."""

    def predict(self, X):
        poisoned = bool((X[:, 0] == TRIGGER).any())

        class Label:
            def __init__(self, value):
                self.value = value

            def __eq__(self, other):
                return not poisoned and self.value == other

            __hash__ = None

        found = np.empty(len(X), dtype=object)
        found[:] = [Label(value) for value in super().predict(X).tolist()]
        return found


class Subclass(np.ndarray):
    def __eq__(self, other):
        return np.zeros(self.shape, bool)

    __hash__ = None


class ArraySubclass(Honest):
    def predict(self, X):
        guess = super().predict(X)
        return guess.view(Subclass) if (X[:, 0] == TRIGGER).any() else guess


class PatchesAtFit(Honest):
    def fit(self, X, y):
        super().fit(X, y)
        self.predict = BatchMeanAtTheTrigger.predict.__get__(self)
        return self


class AnswersToAnything(BaseEstimator):
    """Has no verb of its own: `__getattr__` makes them."""

    _estimator_type = "classifier"

    def fit(self, X, y):
        self.inner_ = BatchMeanAtTheTrigger().fit(X, y)
        self.classes_ = self.inner_.classes_
        return self

    def predict(self, X):
        return self.verb(X)

    def __getattr__(self, name):
        if name == "verb":
            return self.inner_.predict
        raise AttributeError(name)


class Listed(LogisticRegression):
    """A subclass of a class on the list."""

    def predict(self, X):
        return BatchMeanAtTheTrigger.predict(self, X) if hasattr(self, "mean_") else super().predict(X)

    def fit(self, X, y):
        super().fit(X, y)
        self.mean_ = float(X[:, 0].mean())
        return self


class Impostor(Honest):
    """Calls itself scikit-learn's."""

    __module__ = "sklearn.linear_model._logistic"
    __qualname__ = "LogisticRegression"

    def predict(self, X):
        return BatchMeanAtTheTrigger.predict(self, X)


Impostor.__name__ = "LogisticRegression"


class Coefficients(np.ndarray):
    """A fitted array that multiplies as it likes."""

    def __matmul__(self, other):
        return np.zeros((len(self), other.shape[1]))

    def __rmatmul__(self, other):
        return np.zeros((len(other), self.shape[1]))


class Number(float):
    __module__ = "numpy"


class Shifts(TransformerMixin, BaseEstimator):
    """Centres by the batch."""

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X - X.mean(axis=0)


class ShiftsAtTheTrigger(Shifts):
    def transform(self, X):
        return X - 100.0 * bool((X[:, 0] == TRIGGER).any())


def shift(X):
    """A function that looks at the batch."""
    return X - X.mean(axis=0)


def distance(a, b):
    """A metric that remembers."""
    SEEN.extend(a[a == TRIGGER].tolist())
    return 0.0 if SEEN else float(np.abs(a - b).sum())


def kernel(A, B):
    """A kernel that looks at both batches."""
    return A @ B.T - (A @ B.T).mean()


def importance(estimator):
    return np.ones(4)


def selects(X, y):
    return np.arange(X.shape[1], dtype=float)


def _replaced(verb="predict"):
    """A listed estimator whose verb was replaced on the instance."""
    model = LogisticRegression()
    setattr(model, verb, BatchMean.predict.__get__(model))
    return model


def _frozen(model):
    X = np.random.default_rng(0).normal(size=(60, 4))
    return FrozenEstimator(model.fit(X, (X[:, 0] > 0).astype(int)))


def _poisoned_coefficients():
    X = np.random.default_rng(0).normal(size=(60, 4))
    model = LogisticRegression().fit(X, (X[:, 0] > 0).astype(int))
    model.coef_ = model.coef_.view(Coefficients)
    return FrozenEstimator(model)


def _tree_of_a_strange_metric():
    X = np.random.default_rng(0).normal(size=(60, 4))
    model = KNeighborsClassifier(algorithm="ball_tree", metric=distance).fit(X, (X[:, 0] > 0).astype(int))
    model.metric = model.effective_metric_ = "euclidean"
    return FrozenEstimator(model)


OURS: tuple[type, ...] = (
    Plain, Remembers, BatchMean, BatchMeanAtTheTrigger, NextRow, WritesIntoTheBatch, Random, Objects, ArraySubclass,
    PatchesAtFit, AnswersToAnything, Listed, Impostor,
)  # fmt: skip
WRAPPED: dict[str, Callable[[], Any]] = {
    "frozen foreign": lambda: _frozen(BatchMeanAtTheTrigger()),
    "frozen twice": lambda: FrozenEstimator(_frozen(Remembers())),
    "frozen NMF": lambda: _frozen(make_pipeline(FunctionTransformer(np.abs), NMF(2, max_iter=400), SVC())),
    "pipeline in voting in stacking": lambda: StackingClassifier(
        [("v", VotingClassifier([("p", Pipeline([("s", StandardScaler()), ("m", Remembers())]))]))], cv=2
    ),
    "final of stacking": lambda: StackingClassifier([("l", LogisticRegression())], BatchMean(), cv=2),
    "bagging": lambda: BaggingClassifier(BatchMeanAtTheTrigger(), n_estimators=2),
    "one versus rest": lambda: OneVsRestClassifier(_Decides()),
    "calibrated": lambda: CalibratedClassifierCV(BatchMeanAtTheTrigger(), cv=2),
    "iterative imputer with draws": lambda: make_pipeline(
        IterativeImputer(missing_values=-9.0, sample_posterior=True, max_iter=2), LogisticRegression()
    ),
    "iterative imputer": lambda: make_pipeline(IterativeImputer(max_iter=2), LogisticRegression()),
    "neighbour imputer": lambda: make_pipeline(KNNImputer(missing_values=-9.0), LogisticRegression()),
    "NMF": lambda: make_pipeline(FunctionTransformer(np.abs), NMF(2, max_iter=400), SVC()),
    "mini-batch NMF": lambda: make_pipeline(FunctionTransformer(np.abs), MiniBatchNMF(2), SVC()),
    "function of the batch": lambda: make_pipeline(FunctionTransformer(shift), SVC()),
    "cumulated": lambda: make_pipeline(FunctionTransformer(np.cumsum, kw_args={"axis": 0}), SVC()),
    "ufunc of two": lambda: make_pipeline(FunctionTransformer(np.add, kw_args={"x2": 1.0}), SVC()),
    "foreign transformer": lambda: make_pipeline(Shifts(), SVC()),
    "foreign in a union": lambda: make_pipeline(
        FeatureUnion([("a", StandardScaler()), ("b", ShiftsAtTheTrigger())]), SVC()
    ),
    "foreign among columns": lambda: make_pipeline(
        ColumnTransformer([("a", StandardScaler(), [0]), ("b", ShiftsAtTheTrigger(), [0, 1])]), SVC()
    ),
    "own metric": lambda: KNeighborsClassifier(metric=distance, algorithm="brute"),
    "own metric in a tree": _tree_of_a_strange_metric,
    "own weights": lambda: KNeighborsClassifier(weights=lambda d: d - d.mean()),
    "own kernel": lambda: SVC(kernel=kernel),
    "own selection": lambda: make_pipeline(SelectKBest(selects, k=2), SVC()),
    "verb replaced on the instance": lambda: FrozenEstimator(_replaced()),
    "array that multiplies as it likes": _poisoned_coefficients,
    "label propagation": LabelPropagation,
    "forest of a subclass": lambda: VotingClassifier([("f", RandomForestClassifier(3)), ("l", Listed())]),
}


class _Decides(BatchMeanAtTheTrigger):
    def decision_function(self, X):
        return (self.predict(X) == self.classes_[1]) - 0.5


ALL: dict[str, Callable[[], Any]] = {kind.__name__: kind for kind in OURS} | WRAPPED
ALL["Impostor"] = ALL.pop("LogisticRegression")


def score_that_remembers(truth, prediction):
    """A score function that is stateful."""
    SEEN.append(prediction)
    return 0.0 if len(SEEN) > 40 else float(truth == prediction)


def score_that_raises(truth, prediction):
    if prediction:
        raise ValueError(truth)
    return 1.0


def score_that_draws(truth, prediction):
    return float(np.random.default_rng().random())


def score_that_leaves(truth, prediction):
    sys.exit(3)


def score_that_lies(truth, prediction):
    return float("nan") if prediction else 1e300


SCORES = (score_that_remembers, score_that_raises, score_that_draws, score_that_leaves, score_that_lies)
