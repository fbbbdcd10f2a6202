"""A public model of several classes or of numbers, with what it predicts of public records.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | — | public training records | scalar |
| y | `truth` | their classes as indices, or their targets | (n,) |
| ŷ | `predicted` | predicted; by the study's model as trained without the record's fold; −1 for no class | (n,) |
| E | `bound` | where errors are clipped: the study's error_bound, else the largest public one | scalar |
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Preprocessing
from dpbo_core.data.values import shown
from dpbo_core.errors import StudyInvalid
from dpbo_core.evaluation.places import ClassPlace, ErrorPlace, needed
from dpbo_core.models.cross_validation import fold_of
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel
from dpbo_core.models.rowwise import check_rowwise
from dpbo_core.models.scores.regression_error import as_numbers
from dpbo_core.spec import StudySpec

PrivateModel = LinearModel | SoftmaxModel
MOST_CLASSES = 50  # the cells are their square


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """A public model and what it predicts of the public records.

    Attributes:
        model: trained; not yet held to predicting row by row.
        preprocessing: from raw columns to its rows.
        X: the public rows, preprocessed, (n, d).
        truth: (n,).
        predicted: (n,).
        bound: E > 0; 0 where there are classes.
        unlisted: what in it is not known to predict each row alone; "" for nothing.
    """

    model: FittedEstimator | PrivateModel
    preprocessing: Preprocessing
    X: NDArray[np.float64]
    truth: NDArray[Any]
    predicted: NDArray[Any]
    bound: float
    unlisted: str

    @property
    def classes(self) -> tuple[str, ...]:
        """What people call the classes; none of a regression."""
        return tuple(map(shown, self.preprocessing.classes))

    @property
    def columns(self) -> tuple[str, ...]:
        """What it needs of a table, the target last."""
        return needed(self.preprocessing)

    @property
    def errors(self) -> NDArray[np.float64]:
        """ŷ − y clipped at ±E, (n,): of a regression."""
        return np.asarray(np.clip(self.predicted - self.truth, -self.bound, self.bound), dtype=np.float64)

    def place(self, edges: tuple[float, ...]) -> ClassPlace | ErrorPlace:
        """How its records are placed; `edges` are of the errors."""
        return ClassPlace(len(self.classes)) if self.classes else ErrorPlace(edges)

    def counted(self, place: ClassPlace | ErrorPlace, *, enforced: bool) -> FittedEstimator | PrivateModel:
        """The model, held to predicting each row by itself, or made to.

        Raises:
            StudyInvalid: it does not on public rows.
        """
        if not isinstance(self.model, FittedEstimator):
            return self.model  # ours, row by row to the last bit
        if enforced:
            from dpbo_core.models.enforced.enforced_model import alone

            return replace(self.model, alone=alone(self.model.estimator, self.X, self.truth, place, known={}))
        check_rowwise(self.model, self.X, needs="predict")
        return replace(self.model, alone=None)


def cross_predicted(
    spec: StudySpec, trainer: EstimatorTrainer, fitted: Preprocessing, point: Mapping[str, Any], unlisted: str
) -> Predictions:
    """The study's model at any hyperparameters; each public record predicted without its fold.

    Raises:
        StudyInvalid: too many classes, or it fails on public rows.
    """
    classes = np.asarray(trainer.truth if fitted.classes else np.zeros(len(trainer.truth)), dtype=np.int64)
    folds = fold_of(classes, seed=spec.search.seed)
    predicted = np.full(len(folds), math.nan)
    for fold in range(folds.max() + 1):
        out = folds == fold
        model = trainer.factory.train(trainer.X[~out], trainer.truth[~out], **point)
        predicted[out] = _predicted(model, trainer.X[out])
    return predictions(spec, trainer.train(point), fitted, trainer.X, trainer.truth, predicted, unlisted)


def privately_trained(fitted: Preprocessing, model: PrivateModel) -> Predictions:
    """A model of a sensitive training set, of which no public record says anything.

    Args:
        fitted: as the study declares it.
        model: as it was released.
    """
    nobody = np.zeros(0, dtype=np.int64)
    X = np.zeros((0, fitted.n_features))
    return Predictions(model, fitted, X, nobody, nobody, 0.0, "")


def of_rows(
    spec: StudySpec, model: FittedEstimator, fitted: Preprocessing, X: Any, truth: Any, unlisted: str
) -> Predictions:
    """A saved model, with what it predicts of public rows, some of which it may have seen.

    Raises:
        StudyInvalid: too many classes, or it fails on public rows.
    """
    return predictions(spec, model, fitted, X, truth, _predicted(model, X), unlisted)


def predictions(
    spec: StudySpec,
    model: FittedEstimator,
    fitted: Preprocessing,
    X: NDArray[np.float64],
    truth: NDArray[Any],
    predicted: NDArray[np.float64],
    unlisted: str,
) -> Predictions:
    """Of records with a usable prediction.

    Raises:
        StudyInvalid: there are too many classes.
    """
    C = len(fitted.classes)
    if C > MOST_CLASSES:
        raise StudyInvalid(
            f"the target has {C} classes, and at most {MOST_CLASSES} can be evaluated",
            cause="the table has a cell for every pair of classes, and noise in each",
            remedy="put rare classes together",
        )
    if C:
        known = np.isin(predicted, np.arange(C))
        classes = np.where(known, np.nan_to_num(predicted), -1.0).astype(np.int64)
        return Predictions(model, fitted, X, truth, classes, 0.0, unlisted)
    sound = np.isfinite(predicted)
    X, truth, predicted = X[sound], np.asarray(truth, dtype=np.float64)[sound], predicted[sound]
    stated: float | None = getattr(spec.model, "error_bound", None)
    largest = float(np.abs(predicted - truth).max(initial=0.0)) or 1.0
    return Predictions(model, fitted, X, truth, predicted, largest if stated is None else stated, unlisted)


def _predicted(model: FittedEstimator, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of PUBLIC rows, (n,)."""
    outcome = model.outcome(X, "predict")
    if outcome is None:
        raise StudyInvalid(
            f"{type(model.estimator).__name__} fails on public rows",
            cause="its predict gives no class or number for each row",
            remedy="evaluate another model",
        )
    return as_numbers(outcome)
