"""An estimator that takes a table's own columns, for whoever has rows of their cells alone."""

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from dpbo_core.data.named_columns import NamedColumn, data_frame


@dataclass(frozen=True)
class OfRows:
    """A fitted estimator that takes a table's own columns, asked with rows of their cells."""

    estimator: Any
    columns: tuple[NamedColumn, ...]

    def predict(self, rows: NDArray[Any]) -> Any:
        """As the estimator does."""
        return self.estimator.predict(data_frame(self.columns, rows))

    def predict_proba(self, rows: NDArray[Any]) -> Any:
        """As the estimator does."""
        return self.estimator.predict_proba(data_frame(self.columns, rows))

    def decision_function(self, rows: NDArray[Any]) -> Any:
        """As the estimator does."""
        return self.estimator.decision_function(data_frame(self.columns, rows))
