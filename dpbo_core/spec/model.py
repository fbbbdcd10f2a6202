"""[model]: a closed union, one frozen dataclass for each kind of model, each with the keys it has."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, get_args

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.bounded_function import FUNCTION
from dpbo_core.models.scores.elsewhere import other_score
from dpbo_core.models.scores.union import MARGIN_SCORES, OF_CLASSES, OF_MARGINS, PAIR_SCORES, RECORD_SCORES, SCORES
from dpbo_core.space.search_space import Value
from dpbo_core.spec.reading import one_of, require, typed_values, union_hints

LINEAR_ESTIMATORS = ("logistic", "hinge")
OUR_ESTIMATORS = (*LINEAR_ESTIMATORS, "softmax")
PREDICTIONS = "predictions"
ROWWISE = ("enforced",)
TASKS = ("classification", "regression")


@dataclass(frozen=True)
class Written:
    """What every [model] has, and every study's fingerprint with it, whether the model looks at it or not.

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

    estimator: str
    score: str | None = None
    steepness: float = 10.0
    params: Mapping[str, Value] = field(default_factory=dict)
    bias: float = 0.0
    standardize: bool = True
    clip_quantile: float = 0.9
    tolerance: float | None = None
    task: str | None = None

    linear: ClassVar[bool] = False  # one of ours, trained with a certificate
    ours: ClassVar[bool] = False  # one of our own, which predict each record from that record alone
    trained: ClassVar[bool] = True  # false where others made the predictions, and there is no model
    own_score: ClassVar[bool] = False  # scored by a user's function

    def __post_init__(self) -> None:
        require(
            math.isfinite(self.steepness) and self.steepness > 0,
            f"model.steepness = {self.steepness}",
            remedy="give a positive number; 10 is a good start",
        )
        require(0.0 <= self.bias < 1.0, f"model.bias = {self.bias}", remedy="choose 0 (no bias) or 0.7071, say")
        require(
            0.0 < self.clip_quantile <= 1.0,
            f"model.clip_quantile = {self.clip_quantile}",
            remedy="choose a quantile in (0, 1], 0.9 say",
        )
        require(
            not (self.ours and self.params),
            f"model.params are given, but {self.estimator} takes none",
            remedy="remove [model.params]; λ is an axis of [space]",
        )
        if self.tolerance is not None:
            require(
                math.isfinite(self.tolerance) and self.tolerance > 0,
                f"model.tolerance = {self.tolerance}",
                remedy="give a positive distance, or leave it out",
            )

    @property
    def score_name(self) -> str:
        """The score asked for, or the usual one."""
        return self.score or OF_CLASSES

    @property
    def regression(self) -> bool:
        """Whether the target is a number to be predicted."""
        return False

    @property
    def enforced(self) -> bool:
        """Whether every record is scored in a process of its own."""
        return False

    @property
    def names_object(self) -> bool:
        """Whether the estimator is an object by its module and name, and no class."""
        return ":" in self.estimator

    @property
    def takes_columns(self) -> bool:
        """Whether the estimator is given the table's own columns as a data frame: no built-in preprocessing."""
        return False

    def _check_named_score(self) -> None:
        if self.score is not None and "." not in self.score:
            _check_score_name(self.score)

    def _check_task(self, *, numbers: bool) -> None:
        if self.task is not None:
            one_of("model.task", self.task, TASKS)
            require(
                (self.task == "regression") == numbers,
                f"model.task = {self.task!r} does not fit the score {self.score_name!r}",
                remedy="leave task out; a user's function of numbers needs it",
            )


@dataclass(frozen=True)
class LinearSection(Written):
    """A binary linear model of ours, trained with a certificate and scored by its margin."""

    linear: ClassVar[bool] = True
    ours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        one_of("model.estimator", self.estimator, LINEAR_ESTIMATORS)
        self._check_named_score()
        require(
            self.score is None or self.score in MARGIN_SCORES or self.score in PAIR_SCORES,
            f"model.score = {self.score!r} does not fit a {self.estimator} model, which is scored by its margin",
            remedy=f"choose one of {', '.join((*MARGIN_SCORES, *PAIR_SCORES))}, or an estimator by its import path",
        )
        self._check_task(numbers=False)
        super().__post_init__()

    @property
    def score_name(self) -> str:
        """The score asked for, or the usual one of a margin."""
        return self.score or OF_MARGINS


@dataclass(frozen=True)
class SoftmaxSection(Written):
    """Our softmax model, which is trained privately and whose classes are compared."""

    ours: ClassVar[bool] = True

    def __post_init__(self) -> None:
        one_of("model.estimator", self.estimator, ("softmax",))
        self._check_named_score()
        if self.score is not None and "." not in self.score:
            _check_outcome(self.estimator, self.score)
        require(
            self.score in (None, OF_CLASSES),
            f"model.score = {self.score!r} does not fit a {self.estimator} model, whose classes are compared",
            remedy=f'use score = "{OF_CLASSES}"',
        )
        self._check_task(numbers=False)
        super().__post_init__()


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
        _check_import_path(self.estimator)
        if self.score is not None:
            _check_score_name(self.score)
        _check_outcome(self.estimator, self.score_name)
        self._check_task(numbers=self.regression)
        _check_score_keys(self.score_name, self.class_shares, self.error_bound)
        _check_rowwise(self.rowwise)
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
        _check_import_path(self.estimator)
        require("." in self.score, f"model.score = {self.score!r} is no import path of a function")
        self._check_task(numbers=self.regression)
        require(
            math.isfinite(self.score_high - self.score_low) and self.score_high > self.score_low,
            f"the score runs from {self.score_low} to {self.score_high}",
            remedy="give two finite numbers, score_low below score_high",
        )
        _check_rowwise(self.rowwise)
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


@dataclass(frozen=True)
class PredictionsSection(Written):
    """No model: what others predicted is scored, under a score that has a name.

    Attributes:
        class_shares: for balanced accuracy, the public share of each class.
        error_bound: E for an error (in the target's unit) or the log-loss (in nats): what is worse counts as E.
    """

    class_shares: Mapping[str, Value] | None = None
    error_bound: float | None = None
    trained: ClassVar[bool] = False

    def __post_init__(self) -> None:
        one_of("model.estimator", self.estimator, (PREDICTIONS,))
        if self.score is not None:
            _check_score_name(self.score)
        _check_outcome(self.estimator, self.score_name)
        self._check_task(numbers=self.regression)
        _check_score_keys(self.score_name, self.class_shares, self.error_bound)
        require(
            not self.params,
            "model.params are given, and predictions have none",
            remedy="remove [model.params]",
        )
        super().__post_init__()

    @property
    def regression(self) -> bool:
        """As the score's own file declares."""
        return SCORES[self.score_name].regression


RecordModel = SoftmaxSection | EstimatorSection | FunctionSection | PredictionsSection
ModelSection = LinearSection | RecordModel


def read_model(table: Any) -> ModelSection:
    """[model] from its table: every key known and of its type, and together one of the kinds of models.

    Raises:
        StudyInvalid: they are none.
    """
    given = typed_values(union_hints(get_args(ModelSection)), table, "[model]")
    given = {key: value for key, value in given.items() if value is not None}
    require("estimator" in given, "[model] lacks estimator", remedy="add estimator to [model]")
    kind = _kind(given["estimator"], given.get("score", ""))
    known = {item.name for item in fields(kind)}
    if kind is FunctionSection:
        for key in FUNCTION.needs:
            if key not in given:
                raise _needed(key, given["score"])
    model = kind(**{key: value for key, value in given.items() if key in known})
    for key in given:
        if key == "rowwise":
            _check_rowwise(given[key])
            require(
                not (model.ours or isinstance(model, PredictionsSection)),
                f"model.rowwise is given, and {model.estimator} "
                + ("is ours and scores each record by itself" if model.ours else "were made elsewhere"),
                remedy="remove rowwise",
            )
        elif key == "columns" and not given[key]:
            continue
        elif key == "columns" and key not in known:
            raise StudyInvalid(
                f"model.columns is given, but {model.estimator} is ours and computes on numbers",
                remedy='remove it, or name an estimator: "sklearn.ensemble.HistGradientBoostingClassifier", say',
            )
        elif key not in known:
            raise _unused(key, model.score_name)
    return model


def _kind(estimator: str, score: str) -> type[ModelSection]:
    if "." not in estimator and ":" not in estimator:
        one_of("model.estimator", estimator, (*OUR_ESTIMATORS, PREDICTIONS))
        if estimator == PREDICTIONS:
            return PredictionsSection
        return LinearSection if estimator in LINEAR_ESTIMATORS else SoftmaxSection
    return FunctionSection if "." in score else EstimatorSection


def _check_import_path(estimator: str) -> None:
    by_path = "." in estimator or ":" in estimator
    if not by_path:
        one_of("model.estimator", estimator, OUR_ESTIMATORS)
    require(by_path, f"{estimator} is ours", remedy="name a scikit-learn estimator by its import path")


def _check_score_name(score: str) -> None:
    """It is one of ours; one of scikit-learn's is told what serves in its place.

    Raises:
        StudyInvalid: it is not.
    """
    if score not in SCORES:
        elsewhere = other_score(score)
        if elsewhere is not None:
            raise elsewhere
    one_of("model.score", score, tuple(SCORES))


def _check_outcome(estimator: str, score: str) -> None:
    require(
        score in RECORD_SCORES or score in PAIR_SCORES,
        f"model.score = {score!r} needs the margin of a logistic or hinge model",
        cause=f"{estimator} has no certified margin",
        remedy=f'use score = "{OF_CLASSES}", or estimator = "logistic"',
    )


def _check_score_keys(name: str, shares: Mapping[str, Value] | None, bound: float | None) -> None:
    """The score has what it needs, and nothing that it does not use.

    Raises:
        StudyInvalid: it is not so, or the bound is no positive number.
    """
    score = SCORES[name]
    for key, value in (("class_shares", shares), ("error_bound", bound)):
        if value is not None and key not in (*score.needs, *score.allows):
            raise _unused(key, name)
        if value is None and key in score.needs:
            raise _needed(key, name)
    if bound is not None:
        ok = math.isfinite(bound) and 1e-100 < bound < 1e100
        require(ok, f"model.error_bound = {bound}", remedy="give a positive number")


def _check_rowwise(rowwise: str | None) -> None:
    if rowwise is not None:
        one_of("model.rowwise", rowwise, ROWWISE)


def _unused(key: str, score: str) -> StudyInvalid:
    return StudyInvalid(f"model.{key} is given, but the score {score!r} does not use it", remedy=f"remove {key}")


def _needed(key: str, score: str) -> StudyInvalid:
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
