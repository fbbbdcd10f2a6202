"""A data frame's own columns with the public table's types: what stands before a Pipeline in `best_estimator_`."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dpbo_core.data import Preprocessing
from dpbo_core.data.frames import frame_of
from dpbo_core.data.named_columns import CANNOT, data_frame
from dpbo_core.errors import StudyInvalid
from dpbo_core.sklearn_api.public_encoder import target_name


class PublicColumns(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Columns by name, as the Pipeline was given them in the search; those that are ignored are left out."""

    def __init__(self, *, ignore: tuple[str, ...] = (), regression: bool = False) -> None:
        self.ignore = ignore
        self.regression = regression

    def fit(self, X: Any, y: Any) -> Self:
        """Learn the types of the public X (n, d); y (n,) says only which task it is."""
        validate_data(self, X, reset=True, skip_check_array=True)
        frame = frame_of(X, y, shown_as="X")
        self._target = target_name(frame.names)
        table = frame.table(target_name=self._target, source="X", cells=True).without(self.ignore)
        self._fitted = Preprocessing.named(table, self._target, regression=self.regression, hints=frame.hints())
        return self

    def transform(self, X: Any) -> Any:
        """X (r, d) as a data frame with the public types.

        Raises:
            StudyInvalid: a record holds a value that cannot be put into them.
        """
        check_is_fitted(self, "_fitted")
        validate_data(self, X, reset=False, skip_check_array=True)
        columns = self._fitted.columns or ()
        frame = frame_of(X, None, shown_as="X")
        table = frame.table(target_name=self._target, source="X", cells=True)
        rows = np.empty((frame.n_records, len(columns)), dtype=object)
        for j, column in enumerate(columns):
            rows[:, j] = [column.cell(cell) for cell in table.cells_of(column.name)]
            bad = next((i for i, cell in enumerate(rows[:, j]) if cell is CANNOT), None)
            if bad is not None:
                raise StudyInvalid(
                    f"column {column.name!r} holds at {table.place(bad)} of X what a {column.kind} cannot be",
                    cause="in the public table every value of the column is one",
                    remedy="correct it",
                )
        return data_frame(columns, rows)

    def set_output(self, *, transform: Any = None) -> Self:  # noqa: ARG002  scikit-learn's own signature
        """A data frame is handed on whatever is asked: what follows was trained on one."""
        return self
