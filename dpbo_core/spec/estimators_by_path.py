"""[model] by import path: any scikit-learn estimator, under a score that has a name or under a user's function."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dpbo_core.models.scores.union import SCORES
from dpbo_core.space.search_space import Value
from dpbo_core.spec.reading import require
from dpbo_core.spec.written_model import (
    Written,
    check_import_path,
    check_outcome,
    check_rowwise,
    check_score_keys,
    check_score_name,
)


@dataclass(frozen=True)
class EstimatorSection(Written):
    """Any scikit-learn estimator by import path, under a score that has a name.

    Attributes:
        class_shares: for balanced accuracy, the public share of each class.
        error_bound: E for an error (in the target's unit) or the log-loss (in nats): what is worse counts as E.
        rowwise: "enforced" scores every record alone, in a process of its own, so that no assumption is needed.
        columns: whether it is given the table's own columns; as for "module:name" where None.
    """

    class_shares: Mapping[str, Value] | None = None
    error_bound: float | None = None
    rowwise: str | None = None
    columns: bool | None = None

    def __post_init__(self) -> None:
        check_import_path(self.estimator)
        if self.score is not None:
            check_score_name(self.score)
        check_outcome(self.estimator, self.score_name)
        self._check_task(numbers=self.regression)
        check_score_keys(self.score_name, self.class_shares, self.error_bound)
        check_rowwise(self.rowwise)
        super().__post_init__()

    @property
    def regression(self) -> bool:
        """As the score's own file declares."""
        return SCORES[self.score_name].regression

    @property
    def enforced(self) -> bool:
        """Whether every record is scored in a process of its own."""
        return self.rowwise is not None

    @property
    def takes_columns(self) -> bool:
        """An object does unless the study says otherwise, a class where it says so."""
        return self.names_object if self.columns is None else self.columns


@dataclass(frozen=True, kw_only=True)
class FunctionSection(Written):
    """Any scikit-learn estimator by import path, under a user's function of one record.

    Attributes:
        score: the function's import path.
        score_low: public lower end of the function.
        score_high: public upper end of it.
        rowwise: "enforced" scores every record alone, in a process of its own, so that no assumption is needed.
        columns: whether it is given the table's own columns; as for "module:name" where None.
    """

    score: str
    score_low: float
    score_high: float
    rowwise: str | None = None
    columns: bool | None = None
    own_score: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_import_path(self.estimator)
        require("." in self.score, f"model.score = {self.score!r} is no import path of a function")
        self._check_task(numbers=self.regression)
        require(
            math.isfinite(self.score_high - self.score_low) and self.score_high > self.score_low,
            f"the score runs from {self.score_low} to {self.score_high}",
            remedy="give two finite numbers, score_low below score_high",
        )
        check_rowwise(self.rowwise)
        super().__post_init__()

    @property
    def regression(self) -> bool:
        """As the study says: of a function nothing else is known."""
        return self.task == "regression"

    @property
    def enforced(self) -> bool:
        """Whether every record is scored in a process of its own."""
        return self.rowwise is not None

    @property
    def takes_columns(self) -> bool:
        """An object does unless the study says otherwise, a class where it says so."""
        return self.names_object if self.columns is None else self.columns
