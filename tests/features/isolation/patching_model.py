"""An estimator of others that changes the module that makes scores."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Patching(ClassifierMixin, BaseEstimator):
    """Predicts class 1; on the way every later score becomes 0."""

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Any, y: Any) -> "Patching":
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        from dpbo.features.isolation import enforced_model

        enforced_model.EnforcedModel.scores = lambda self, rows, truth, score: np.zeros(len(rows))
        return np.ones(len(X), dtype=np.int64)
