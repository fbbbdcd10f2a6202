"""What every [model] has, whatever kind it is: its keys, and the checks that several kinds share."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.elsewhere import other_score
from dpbo_core.models.scores.union import OF_CLASSES, PAIR_SCORES, RECORD_SCORES, SCORES
from dpbo_core.space.search_space import Value
from dpbo_core.spec.reading import one_of, require

LINEAR_ESTIMATORS = ("logistic", "hinge")
OUR_ESTIMATORS = (*LINEAR_ESTIMATORS, "softmax")
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
        """A score that has a name is one of ours.

        Raises:
            StudyInvalid: it is none.
        """
        if self.score is not None and "." not in self.score:
            check_score_name(self.score)

    def _check_task(self, *, numbers: bool) -> None:
        """`task` says what the score says, where it is said.

        Args:
            numbers: whether numbers are predicted.

        Raises:
            StudyInvalid: it does not.
        """
        if self.task is not None:
            one_of("model.task", self.task, TASKS)
            require(
                (self.task == "regression") == numbers,
                f"model.task = {self.task!r} does not fit the score {self.score_name!r}",
                remedy="leave task out; a user's function of numbers needs it",
            )


def check_import_path(estimator: str) -> None:
    """The estimator is named by its import path.

    Raises:
        StudyInvalid: it is one of ours, or none.
    """
    by_path = "." in estimator or ":" in estimator
    if not by_path:
        one_of("model.estimator", estimator, OUR_ESTIMATORS)
    require(by_path, f"{estimator} is ours", remedy="name a scikit-learn estimator by its import path")


def check_score_name(score: str) -> None:
    """It is one of ours; one of scikit-learn's is told what serves in its place.

    Raises:
        StudyInvalid: it is not.
    """
    if score not in SCORES:
        elsewhere = other_score(score)
        if elsewhere is not None:
            raise elsewhere
    one_of("model.score", score, tuple(SCORES))


def check_outcome(estimator: str, score: str) -> None:
    """The score is one of what a model says of a record, and needs no certified margin.

    Raises:
        StudyInvalid: it needs one.
    """
    require(
        score in RECORD_SCORES or score in PAIR_SCORES,
        f"model.score = {score!r} needs the margin of a logistic or hinge model",
        cause=f"{estimator} has no certified margin",
        remedy=f'use score = "{OF_CLASSES}", or estimator = "logistic"',
    )


def check_score_keys(name: str, shares: Mapping[str, Value] | None, bound: float | None) -> None:
    """The score has what it needs, and nothing that it does not use.

    Raises:
        StudyInvalid: it is not so, or the bound is no positive number.
    """
    score = SCORES[name]
    for key, value in (("class_shares", shares), ("error_bound", bound)):
        if value is not None and key not in (*score.needs, *score.allows):
            raise unused(key, name)
        if value is None and key in score.needs:
            raise needed(key, name)
    if bound is not None:
        ok = math.isfinite(bound) and 1e-100 < bound < 1e100
        require(ok, f"model.error_bound = {bound}", remedy="give a positive number")


def check_rowwise(rowwise: str | None) -> None:
    """How each record is scored alone is a way that there is.

    Raises:
        StudyInvalid: it is not.
    """
    if rowwise is not None:
        one_of("model.rowwise", rowwise, ROWWISE)


def unused(key: str, score: str) -> StudyInvalid:
    """The message for a key that the score does not use."""
    return StudyInvalid(f"model.{key} is given, but the score {score!r} does not use it", remedy=f"remove {key}")


def needed(key: str, score: str) -> StudyInvalid:
    """The message for a key that the score needs and does not have."""
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
