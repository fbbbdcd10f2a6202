"""[model]: a closed union, one frozen dataclass for each kind of model, each with the keys it has.

| the estimator is | section |
|---|---|
| one of ours, by its name | `LinearSection`, with a certificate; `SoftmaxSection`, which is trained privately |
| anybody's, by its import path | `EstimatorSection`, or `FunctionSection` under a user's function of one record |
| none: predictions were made elsewhere | `PredictionsSection` |
"""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, cast, get_args

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.declared import FUNCTION
from dpbo_core.models.scores.union import MARGIN_SCORES, OF_CLASSES, OF_MARGINS, PAIR_SCORES
from dpbo_core.problem.reading import one_of, refuse_unknown, require
from dpbo_core.problem.written_model import (
    LINEAR_ESTIMATORS,
    OUR_ESTIMATORS,
    ByName,
    ByPath,
    Written,
    check_outcome,
    check_score_name,
    needed,
    unused,
)

PREDICTIONS = "predictions"


class EstimatorSection(ByPath, ByName):
    """Any scikit-learn estimator by import path, under a score that has a name."""


class FunctionSection(ByPath):
    """Any scikit-learn estimator by import path, under a user's function of one record.

    Attributes:
        score: the function's import path.
        score_low: public lower end of the function.
        score_high: public upper end of it.
    """

    score: str
    score_low: float
    score_high: float
    own_score: ClassVar[bool] = True

    def check(self) -> None:
        """Refuse a score that is no import path, and ends that are no range."""
        require("." in self.score, f"model.score = {self.score!r} is no import path of a function")
        require(
            math.isfinite(self.score_high - self.score_low) and self.score_high > self.score_low,
            f"the score runs from {self.score_low} to {self.score_high}",
            remedy="give two finite numbers, score_low below score_high",
        )
        super().check()

    @property
    def regression(self) -> bool:
        """Whether the study writes task = "regression"; a user's function itself does not tell."""
        return self.task == "regression"


class LinearSection(Written):
    """A binary linear model of ours, trained with a certificate and scored by its margin."""

    linear: ClassVar[bool] = True
    ours: ClassVar[bool] = True

    def check(self) -> None:
        """Refuse another estimator, and a score that is not of margins."""
        one_of("model.estimator", self.estimator, LINEAR_ESTIMATORS)
        if self.score is not None and "." not in self.score:
            check_score_name(self.score)
        if not (self.score is None or self.score in MARGIN_SCORES or self.score in PAIR_SCORES):
            names = ", ".join((*MARGIN_SCORES, *PAIR_SCORES))
            raise StudyInvalid(
                f"model.score = {self.score!r} does not fit a {self.estimator} model, scored by its margin",
                remedy=f"choose one of {names}, or an estimator by its import path",
            )
        super().check()

    @property
    def score_name(self) -> str:
        """The name of the score that the linear model's study asks for, or the usual one of a margin."""
        return self.score or OF_MARGINS


class SoftmaxSection(Written):
    """Our softmax model, which is trained privately and whose classes are compared."""

    ours: ClassVar[bool] = True

    def check(self) -> None:
        """Refuse another estimator, and a score that does not compare classes."""
        one_of("model.estimator", self.estimator, ("softmax",))
        if self.score is not None and "." not in self.score:
            check_score_name(self.score)
            check_outcome(self.estimator, self.score)
        require(
            self.score in (None, OF_CLASSES),
            f"model.score = {self.score!r} does not fit a {self.estimator} model, whose classes are compared",
            remedy=f'use score = "{OF_CLASSES}"',
        )
        super().check()


class PredictionsSection(ByName):
    """No model: what others predicted is scored, under a score that has a name."""

    trained: ClassVar[bool] = False

    def check(self) -> None:
        """Refuse another estimator, and parameters."""
        one_of("model.estimator", self.estimator, (PREDICTIONS,))
        require(
            not self.params, "model.params are given, and predictions have none", remedy="remove [model.params]"
        )
        super().check()


RecordModel = SoftmaxSection | EstimatorSection | FunctionSection | PredictionsSection
ModelSection = LinearSection | RecordModel
KINDS: tuple[type[ModelSection], ...] = get_args(ModelSection)


def read_model(table: Any) -> ModelSection:
    """A study's [model] table, checked, as the class of its kind: linear, softmax, by path, function, predictions.

    Raises:
        StudyInvalid: a key or a value does not fit.
    """
    if isinstance(table, Written):
        return cast("ModelSection", table)
    require(isinstance(table, Mapping), "[model] is not a table")
    refuse_unknown(table, tuple(dict.fromkeys(key for kind in KINDS for key in kind.model_fields)), "[model]")
    values = {key: value for key, value in table.items() if value is not None}
    kind = _section_type(values.get("estimator"), values.get("score"))
    if kind is FunctionSection:
        for key in FUNCTION.needs:
            if key not in values:
                raise needed(key, values["score"])
    model = kind.read({key: value for key, value in values.items() if key in kind.model_fields})
    for key, value in values.items():
        if key == "rowwise":
            require(
                kind in (EstimatorSection, FunctionSection),
                f"model.rowwise is given, and {model.estimator} "
                + ("is ours and scores each record by itself" if model.ours else "were made elsewhere"),
                remedy="remove rowwise",
            )
        elif key == "columns" and key not in kind.model_fields:
            require(
                not value,
                f"model.columns is given, but {model.estimator} is ours and computes on numbers",
                remedy='remove it, or name an estimator: "sklearn.ensemble.HistGradientBoostingClassifier", say',
            )
        elif key not in kind.model_fields:
            raise unused(key, model.score_name)
    return model


def _section_type(estimator: Any, score: Any) -> type[ModelSection]:
    """The class of [model] section for an estimator's name and a score; an unknown plain name is refused."""
    if not isinstance(estimator, str):
        return EstimatorSection  # which says that it is missing, or no text
    if "." not in estimator and ":" not in estimator:
        one_of("model.estimator", estimator, (*OUR_ESTIMATORS, PREDICTIONS))
        if estimator == PREDICTIONS:
            return PredictionsSection
        return LinearSection if estimator in LINEAR_ESTIMATORS else SoftmaxSection
    return FunctionSection if isinstance(score, str) and "." in score else EstimatorSection
