"""Training one candidate on the public set: ours with a certificate, or any scikit-learn estimator."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.linear import LinearModel, train
from dpbo_core.models.record_scores import BoundedFunction, Correct, RecordScore

Model = LinearModel | FittedEstimator


@dataclass(frozen=True)
class LinearTrainer:
    """The public training set of a binary linear model. A λ trained once is kept: its model never changes."""

    X: NDArray[np.float64] = field(repr=False)
    signs: NDArray[np.float64] = field(repr=False)
    loss: str
    tolerance: float | None
    _trained: dict[float, LinearModel] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, X: NDArray[np.float64], labels: NDArray[np.int64], loss: str, *, tolerance: float | None
    ) -> "LinearTrainer":
        """From class indices 0 and 1; the larger class is +1.

        Raises:
            StudyInvalid: more than two classes.
        """
        n_classes = int(labels.max()) + 1
        if n_classes != 2:
            raise StudyInvalid(
                f"the target has {n_classes} classes, and a {loss} model separates two",
                cause="a multi-class target, or an identifier named as the target",
                remedy='use a scikit-learn estimator by import path with score = "accuracy"',
            )
        return cls(X, np.where(labels == 1, 1.0, -1.0), loss, tolerance)

    def train(self, point: Mapping[str, Any]) -> LinearModel:
        """The certified model at point["lambda"], from a cold start."""
        regularization = float(point["lambda"])
        if regularization not in self._trained:
            self._trained[regularization] = train(
                self.X, self.signs, loss=self.loss, regularization=regularization, tolerance=self.tolerance
            )
        return self._trained[regularization]


class Factory(Protocol):
    """Fresh estimators at chosen hyperparameters, fitted to public rows."""

    def train(self, X: NDArray[np.float64], y: NDArray[Any], /, **hyperparameters: Any) -> FittedEstimator:
        """A cold start."""
        ...


@dataclass(frozen=True)
class EstimatorTrainer:
    """The public training set of any scikit-learn estimator."""

    X: NDArray[np.float64] = field(repr=False)
    truth: NDArray[Any] = field(repr=False)
    factory: Factory
    score: RecordScore = field(default_factory=Correct)

    def train(self, point: Mapping[str, Any]) -> FittedEstimator:
        """The estimator at `point`, fitted from scratch, after checking that it predicts row by row.

        Raises:
            StudyInvalid: it cannot be built, trained or predict row by row, or the score fails on public rows.
        """
        fitted = self.factory.train(self.X, self.truth, **point)
        outcome = fitted.check_rowwise(self.X, needs=self.score.needs)
        if isinstance(self.score, BoundedFunction):
            self.score.check(outcome, self.truth[: len(outcome)])
        return fitted
