"""An estimator that is on no list and remembers what it was asked about."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class OfFirstColumn(ClassifierMixin, BaseEstimator):
    """Nobody's: it remembers what it was asked about."""

    def fit(self, X: Any, y: Any) -> "OfFirstColumn":
        self.classes_, self.rows_ = np.unique(y), []
        return self

    def predict(self, X: Any) -> Any:
        self.rows_.append(np.array(X))
        return self.classes_[(np.asarray(X)[:, 0] > 0).astype(int)]
