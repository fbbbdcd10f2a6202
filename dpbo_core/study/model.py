"""[model]: a closed union, one class for each kind of model, each with the keys it has.

| the estimator is | section |
|---|---|
| one of ours, by its name | `LinearSection`, with a certificate; `SoftmaxSection`, which is trained privately |
| anybody's, by its import path | `EstimatorSection`, or `FunctionSection` under a user's function of one record |
| none: predictions were made elsewhere | `PredictionsSection` |
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast, get_args

from pydantic import Field

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.kinds import FUNCTION
from dpbo_core.models.scores.union import (
    MARGIN_SCORES,
    OF_CLASSES,
    OF_MARGINS,
    PAIR_SCORES,
    RECORD_SCORES,
    SCORES,
    other_score,
)
from dpbo_core.search.search_space import Value
from dpbo_core.study.section import PlainTable, Section, limited, one_of, refuse_unknown, require

PREDICTIONS = "predictions"
LINEAR_ESTIMATORS = ("logistic", "hinge")
OUR_ESTIMATORS = (*LINEAR_ESTIMATORS, "softmax")


class WrittenModel(Section):
    """The keys of every kind of [model]. All of them enter the study's fingerprint, used by the model or not.

    Attributes:
        estimator: "logistic", "hinge", "softmax", any scikit-learn estimator by import path, "module:name" of an
            estimator that is made in a file beside the study, or "predictions".
        score: a name, or the import path of a function of one record's truth and prediction; None for the usual.
        steepness: of a margin score.
        params: the estimator's fixed parameters.
        bias: the constant feature of a linear model.
        standardize: whether numbers are centred and scaled by the training set.
        clip_quantile: of the training rows' norms, for a linear model.
        tolerance: of a linear model's certificate.
        task: "regression" for a user's function of numbers.
    """

    heading: ClassVar[str] = "model"
    estimator: str
    score: str | None = None
    steepness: Annotated[float, limited("give a positive number; 10 is a good start", gt=0)] = 10.0
    params: PlainTable = Field(default_factory=dict)
    bias: Annotated[float, limited("choose 0 (no bias) or 0.7071, say", ge=0, lt=1)] = 0.0
    standardize: bool = True
    clip_quantile: Annotated[float, limited("choose a quantile in (0, 1], 0.9 say", gt=0, le=1)] = 0.9
    tolerance: Annotated[float | None, limited("give a positive distance, or leave it out", gt=0)] = None
    task: Literal["classification", "regression"] | None = None

    linear: ClassVar[bool] = False  # one of ours, trained with a certificate
    ours: ClassVar[bool] = False  # one of our own, which predict each record from that record alone
    trained: ClassVar[bool] = True  # false where others made the predictions, and there is no model
    own_score: ClassVar[bool] = False  # scored by a user's function

    def check(self) -> None:
        """Refuse parameters of a model of ours, and a task that does not fit the score."""
        require(
            not (self.ours and self.params),
            f"model.params are given, but {self.estimator} takes none",
            remedy="remove [model.params]; λ is an axis of [space]",
        )
        require(
            self.task is None or (self.task == "regression") == self.regression,
            f"model.task = {self.task!r} does not fit the score {self.score_name!r}",
            remedy="leave task out; a user's function of numbers needs it",
        )

    @property
    def score_name(self) -> str:
        """The name of the score that the study asks for, or the usual one for its model."""
        return self.score or OF_CLASSES

    @property
    def loss(self) -> str | None:
        """The loss that a linear model of ours is trained by; None for another model."""
        return self.estimator if self.linear else None

    @property
    def stated_shares(self) -> Mapping[str, Value] | None:
        """The public share of each class that the study states; None if it states none."""
        return None

    @property
    def regression(self) -> bool:
        """Whether the study is a regression, its target a number; False unless the kind of model says otherwise."""
        return False

    @property
    def enforced(self) -> bool:
        """Whether each record is scored in a process of its own, apart from all others; False unless by path."""
        return False

    @property
    def names_object(self) -> bool:
        """Whether the study names the estimator as an object, by module and name, and not as a class."""
        return ":" in self.estimator

    @property
    def takes_columns(self) -> bool:
        """Whether the estimator gets the table's own columns as a data frame, as they are; False unless by path."""
        return False


class ByName(WrittenModel):
    """The keys of a [model] that is scored by a named score of dpbo's.

    Attributes:
        class_shares: for balanced accuracy, the public share of each class.
        error_bound: E for an error (in the target's unit) or the log-loss (in nats): what is worse counts as E.
    """

    class_shares: PlainTable | None = None
    error_bound: Annotated[float | None, limited("give a positive number", gt=1e-100, lt=1e100)] = None

    def check(self) -> None:
        """Refuse an unknown score, one of margins, and a number that the score needs and lacks, or does not use."""
        if self.score is not None:
            check_score_name(self.score)
        check_outcome(self.estimator, self.score_name)
        super().check()
        score = SCORES[self.score_name]
        for key, value in (("class_shares", self.class_shares), ("error_bound", self.error_bound)):
            if value is not None and key not in (*score.needs, *score.allows):
                raise unused(key, self.score_name)
            if value is None and key in score.needs:
                raise needed(key, self.score_name)

    @property
    def stated_shares(self) -> Mapping[str, Value] | None:
        """The public share of each class, for balanced accuracy."""
        return self.class_shares

    @property
    def regression(self) -> bool:
        """Whether the named score is one of regression, as the score's own file declares."""
        return SCORES[self.score_name].regression


class ByPath(WrittenModel):
    """Any scikit-learn estimator, by its import path.

    Attributes:
        rowwise: "enforced" scores every record alone, in a process of its own, so that no assumption is needed.
        columns: whether it is given the table's own columns; as for "module:name" where None.
    """

    rowwise: Literal["enforced"] | None = None
    columns: bool | None = None

    def check(self) -> None:
        """Refuse an estimator that is named without an import path."""
        if "." not in self.estimator and ":" not in self.estimator:
            one_of("model.estimator", self.estimator, OUR_ESTIMATORS)
            raise StudyInvalid(f"{self.estimator} is ours", remedy="name an estimator by its import path")
        super().check()

    @property
    def enforced(self) -> bool:
        """Whether every record is scored in a process of its own, so that records cannot affect one another."""
        return self.rowwise is not None

    @property
    def takes_columns(self) -> bool:
        """Whether the estimator takes the table's own columns: an object does by default, a class does not."""
        return self.names_object if self.columns is None else self.columns


def check_score_name(score: str) -> None:
    """Refuse a score that dpbo does not have; for one of scikit-learn's the message names a substitute."""
    if score not in SCORES and (elsewhere := other_score(score)) is not None:
        raise elsewhere
    one_of("model.score", score, tuple(SCORES))


def check_outcome(estimator: str, score: str) -> None:
    """Refuse a score of margins for `estimator`, which must be one without certified margins (not checked)."""
    require(
        score in RECORD_SCORES or score in PAIR_SCORES,
        f"model.score = {score!r} needs the margin of a logistic or hinge model",
        cause=f"{estimator} has no certified margin",
        remedy=f'use score = "{OF_CLASSES}", or estimator = "logistic"',
    )


def unused(key: str, score: str) -> StudyInvalid:
    """Return the error for a key that the study's score does not use."""
    return StudyInvalid(f"model.{key} is given, but the score {score!r} does not use it", remedy=f"remove {key}")


def needed(key: str, score: str) -> StudyInvalid:
    """Return the error for a missing key that the study's score needs."""
    return StudyInvalid(
        f"the score {score!r} needs model.{key}",
        cause="a record's score must have a public range, or no noise could hide it",
        remedy=_REMEDIES[key],
    )


_REMEDIES = {
    "class_shares": "write the PUBLIC share of every class, such as class_shares = { no = 0.9, yes = 0.1 }",
    "error_bound": "write the largest error worth telling apart, in the target's unit; a worse one counts as it",
    "score_low": "write the least value your function can take",
    "score_high": "write the largest value your function can take",
}


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


class LinearSection(WrittenModel):
    """A binary linear model of ours, trained with a certificate and scored by its margin."""

    estimator: Literal["logistic", "hinge"]
    linear: ClassVar[bool] = True
    ours: ClassVar[bool] = True

    def check(self) -> None:
        """Refuse a score that is not of margins."""
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


class SoftmaxSection(WrittenModel):
    """Our softmax model, which is trained privately and whose classes are compared."""

    estimator: Literal["softmax"]
    ours: ClassVar[bool] = True

    def check(self) -> None:
        """Refuse a score that does not compare classes."""
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

    estimator: Literal["predictions"]
    trained: ClassVar[bool] = False

    def check(self) -> None:
        """Refuse fixed parameters, which predictions cannot have."""
        require(
            not self.params, "model.params are given, and predictions have none", remedy="remove [model.params]"
        )
        super().check()


RecordModel = SoftmaxSection | EstimatorSection | FunctionSection | PredictionsSection
ModelSection = LinearSection | RecordModel
KINDS: tuple[type[ModelSection], ...] = get_args(ModelSection)


def read_model(table: Any) -> ModelSection:
    """Return a study's [model] table, checked, as its kind: linear, softmax, by path, function or predictions."""
    if isinstance(table, WrittenModel):
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
    if not isinstance(estimator, str):
        return EstimatorSection  # which says that it is missing, or no text
    if "." not in estimator and ":" not in estimator:
        one_of("model.estimator", estimator, (*OUR_ESTIMATORS, PREDICTIONS))
        if estimator == PREDICTIONS:
            return PredictionsSection
        return LinearSection if estimator in LINEAR_ESTIMATORS else SoftmaxSection
    return FunctionSection if isinstance(score, str) and "." in score else EstimatorSection
