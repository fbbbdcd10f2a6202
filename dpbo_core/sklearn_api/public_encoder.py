"""The public preprocessing as a scikit-learn transformer: what stands before the model in `best_estimator_`.

scikit-learn is imported at the top here and in `estimator`: its base classes are the point of both files.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpbo_core.data import Preprocessing
from dpbo_core.data.frames import frame_of
from dpbo_core.errors import StudyInvalid


class PublicEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Numbers as they are, gaps at the training mean; one 0/1 feature a training category of a text column."""

    def __init__(self, *, ignore: tuple[str, ...] = (), regression: bool = False) -> None:
        self.ignore = ignore
        self.regression = regression

    def fit(self, X: Any, y: Any) -> Self:
        """Learn means and categories from the public X (n, d); y (n,) says only which task it is."""
        validate_data(self, X, reset=True, skip_check_array=True)
        frame = frame_of(X, y, shown_as="X")
        self._target = target_name(frame.names)
        table = frame.table(target_name=self._target, source="X").without(self.ignore)
        self._fitted = Preprocessing.fit(
            table, self._target, standardize=False, unit_ball=False, regression=self.regression, missing="mean"
        )
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """X (r, d) as numbers, (r, features).

        Raises:
            StudyInvalid: a record holds a number too large to compute with.
        """
        check_is_fitted(self, "_fitted")
        validate_data(self, X, reset=False, skip_check_array=True)
        frame = frame_of(X, None, shown_as="X")
        any_label = self._fitted.classes[0] if self._fitted.classes else 0.0
        frame = frame_of(X, [any_label] * frame.n_records, shown_as="X")
        encoded = self._fitted.transform(frame.table(target_name=self._target, source="X").without(self.ignore))
        if encoded.broken.any():
            raise StudyInvalid("a record of X holds a number too large to compute with", remedy="correct it")
        return encoded.X.copy()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002  they are known
        """Names of the features, (features,)."""
        check_is_fitted(self, "_fitted")
        return np.array(self._fitted.feature_names, dtype=object)


def target_name(names: tuple[str, ...]) -> str:
    """A name for the target that no column has."""
    name = "y"
    while name in names:
        name += "_"
    return name
