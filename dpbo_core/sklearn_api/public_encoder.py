"""The first step of `best_estimator_`: the public preprocessing, or the columns of a data frame as they are."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpbo_core.data import Preprocessing
from dpbo_core.data.frames import frame_of
from dpbo_core.errors import StudyInvalid


@dataclass(eq=False, repr=False)
class PublicTransformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that is fitted to a public table, some of whose columns it leaves out."""

    _: KW_ONLY
    ignore: tuple[str, ...] = ()
    regression: bool = False

    def _fitted_columns(self, X: Any) -> Any:
        """Return the columns of X that were fitted, in their order; X may be records too, as for a served model."""
        names = list(getattr(self, "feature_names_in_", ()))
        if isinstance(X, dict) or (isinstance(X, list) and X and isinstance(X[0], dict)):
            import pandas as pd

            X = pd.DataFrame(X)
        own = getattr(X, "column_names", getattr(X, "columns", ()))
        if names and not len(own):
            raise StudyInvalid(
                "X has no column names, and the model was fitted on a table that has them",
                remedy="pass a data frame with those columns",
            )
        if names and {*names} <= {*own}:
            X = X.select(names) if hasattr(X, "column_names") else X[names]
        validate_data(self, X, reset=False, skip_check_array=True)
        return X


class PublicEncoder(PublicTransformer):
    """A transformer of a table to numbers: gaps at the training mean, a 0/1 feature for each category of a text."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn means (for gaps) and categories from the public X (n, d); y (n,) says only which task it is."""
        validate_data(self, X, reset=True, skip_check_array=True)
        frame = frame_of(X, y, display_name="X")
        self._target = target_name(frame.names)
        table = frame.table(target_name=self._target, source="X", texts=None).without(self.ignore)
        self._fitted = Preprocessing.fit(
            table, self._target, standardize=False, unit_ball=False, regression=self.regression, missing="mean"
        )
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return X (r, d) as numbers, (r, features), by the public means and categories.

        A row with a number too large to compute with is refused.
        """
        check_is_fitted(self, "_fitted")
        frame = frame_of(X := self._fitted_columns(X), None, display_name="X")
        any_label = self._fitted.classes[0] if self._fitted.classes else 0.0  # encoding needs a target, unused here
        frame = frame_of(X, [any_label] * frame.n_records, display_name="X")
        table = frame.table(target_name=self._target, source="X", texts=self._fitted.text_columns)
        encoded = self._fitted.transform(table.without(self.ignore))
        if encoded.broken.any():
            raise StudyInvalid("a record of X holds a number too large to compute with", remedy="correct it")
        return encoded.X.copy()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:  # noqa: ARG002  they are known
        """Return names of the columns that `transform` returns, (features,); `input_features` is ignored."""
        check_is_fitted(self, "_fitted")
        return np.array(self._fitted.feature_names, dtype=object)


class PublicColumns(PublicTransformer):
    """A transformer that hands a data frame on with the public table's columns and types, without those ignored."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the types of the public X (n, d); y (n,) says only which task it is."""
        validate_data(self, X, reset=True, skip_check_array=True)
        frame = frame_of(X, y, display_name="X")
        self._target = target_name(frame.names)
        table = frame.table_with_cells(target_name=self._target, source="X", texts=None).without(self.ignore)
        self._fitted = Preprocessing.named(table, self._target, regression=self.regression, hints=frame.hints())
        return self

    def transform(self, X: Any) -> Any:
        """Return X (r, d) as a data frame with the public table's types; a value that does not fit is refused."""
        check_is_fitted(self, "_fitted")
        frame = frame_of(X := self._fitted_columns(X), None, display_name="X")
        return self._fitted.rows(frame.table_with_cells(target_name=self._target, source="X"))

    def set_output(self, *, transform: Any = None) -> Self:  # noqa: ARG002  scikit-learn's own signature
        """Change nothing: the model behind this transformer was trained on a data frame and needs one."""
        return self


def target_name(names: tuple[str, ...]) -> str:
    """Return a name for the target that no column has: y, with underscores behind it as long as one has it."""
    name = "y"
    while name in names:
        name += "_"
    return name
