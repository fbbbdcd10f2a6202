"""[model]: the estimator and the score, with the keys that each score needs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dpbo_core.models.scores.bounded_function import FUNCTION
from dpbo_core.models.scores.declared import Declared
from dpbo_core.models.scores.union import OF_CLASSES, OF_MARGINS, SCORES
from dpbo_core.space.search_space import Value
from dpbo_core.spec.reading import one_of, require

LINEAR_ESTIMATORS = ("logistic", "hinge")
OUR_ESTIMATORS = (*LINEAR_ESTIMATORS, "softmax")
MARGIN_SCORES = tuple(name for name, score in SCORES.items() if score.of_margin)
ROWWISE = ("enforced",)
TASKS = ("classification", "regression")


@dataclass(frozen=True)
class ModelSection:
    """[model]: what is trained on the public half and how one record of the sensitive half is scored.

    Attributes:
        estimator: "logistic", "hinge", or any scikit-learn estimator by import path.
        score: a name, or the import path of a function of one record's truth and prediction.
        steepness: of a margin score.
        params: the estimator's fixed parameters.
        bias: the constant feature of a linear model.
        standardize: whether numbers are centred and scaled by the training set.
        clip_quantile: of the training rows' norms, for a linear model.
        tolerance: of a linear model's certificate.
        class_shares: for balanced accuracy, the public share of each class.
        error_bound: E for an error (in the target's unit) or the log-loss (in nats): what is worse counts as E.
        score_low: public lower end of a user's function.
        score_high: public upper end of a user's function.
        task: "regression" for a user's function of numbers.
        rowwise: "enforced" scores every record alone, in a process of its own, so that no assumption is needed.
    """

    estimator: str
    score: str | None = None
    steepness: float = 10.0
    params: Mapping[str, Value] = field(default_factory=dict)
    bias: float = 0.0
    standardize: bool = True
    clip_quantile: float = 0.9
    tolerance: float | None = None
    class_shares: Mapping[str, Value] | None = None
    error_bound: float | None = None
    score_low: float | None = None
    score_high: float | None = None
    task: str | None = None
    rowwise: str | None = None

    def __post_init__(self) -> None:
        if "." not in self.estimator:
            one_of("model.estimator", self.estimator, OUR_ESTIMATORS)
        if self.score is not None and "." not in self.score:
            one_of("model.score", self.score, tuple(SCORES))
        require(
            self.linear or self.own_score or self._declared.of_outcome is not None,
            f"model.score = {self.score!r} needs the margin of a logistic or hinge model",
            cause=f"{self.estimator} has no certified margin",
            remedy=f'use score = "{OF_CLASSES}", or estimator = "logistic"',
        )
        require(
            not self.linear or self.score in (None, *MARGIN_SCORES),
            f"model.score = {self.score!r} does not fit a {self.estimator} model, which is scored by its margin",
            remedy=f"choose one of {', '.join(MARGIN_SCORES)}, or an estimator by its import path",
        )
        require(
            self.linear or not self.ours or self.score in (None, OF_CLASSES),
            f"model.score = {self.score!r} does not fit a {self.estimator} model, whose classes are compared",
            remedy=f'use score = "{OF_CLASSES}"',
        )
        self._check_score_keys()
        if self.rowwise is not None:
            one_of("model.rowwise", self.rowwise, ROWWISE)
            require(
                not self.ours,
                f"model.rowwise is given, but {self.estimator} is ours and scores each record by itself",
                remedy="remove rowwise",
            )
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
    def linear(self) -> bool:
        """Whether the model is one of ours, trained with a certificate."""
        return self.estimator in LINEAR_ESTIMATORS

    @property
    def ours(self) -> bool:
        """Whether it is one of our own models, which predict each record from that record alone."""
        return self.estimator in OUR_ESTIMATORS

    @property
    def enforced(self) -> bool:
        """Whether every record is scored in a process of its own."""
        return self.rowwise == "enforced"

    @property
    def score_name(self) -> str:
        """The score asked for, or the default for what the estimator gives."""
        return self.score or (OF_MARGINS if self.linear else OF_CLASSES)

    @property
    def regression(self) -> bool:
        """Whether the target is a number to be predicted."""
        return self._declared.regression or self.task == "regression"

    @property
    def own_score(self) -> bool:
        """Whether the score is a user's function."""
        return "." in self.score_name

    @property
    def _declared(self) -> Declared:
        """What the score's own file declares of it."""
        return FUNCTION if self.own_score else SCORES[self.score_name]

    def _check_score_keys(self) -> None:
        """The keys that belong to a score are there where it needs them, and nowhere else."""
        if self.task is not None:
            one_of("model.task", self.task, TASKS)
            numbers = self.task == "regression"
            require(
                numbers == self.regression and (self.own_score or numbers == self._declared.regression),
                f"model.task = {self.task!r} does not fit the score {self.score_name!r}",
                remedy="leave task out; a user's function of numbers needs it",
            )
        given = {
            "class_shares": self.class_shares,
            "error_bound": self.error_bound,
            "score_low": self.score_low,
            "score_high": self.score_high,
        }
        score = self._declared
        allowed = (*score.needs, *score.allows)
        for key, value in given.items():
            require(
                value is None or key in allowed,
                f"model.{key} is given, but the score {self.score_name!r} does not use it",
                remedy=f"remove {key}",
            )
            require(
                value is not None or key not in score.needs,
                f"the score {self.score_name!r} needs model.{key}",
                cause="a record's score must have a public range, or no noise could hide it",
                remedy=_REMEDIES[key],
            )
        if self.error_bound is not None:
            ok = math.isfinite(self.error_bound) and 1e-100 < self.error_bound < 1e100
            require(ok, f"model.error_bound = {self.error_bound}", remedy="give a positive number")
        if self.score_low is not None and self.score_high is not None:
            ok = math.isfinite(self.score_high - self.score_low) and self.score_high > self.score_low
            require(
                ok,
                f"the score runs from {self.score_low} to {self.score_high}",
                remedy="give two finite numbers, score_low below score_high",
            )


_REMEDIES = {
    "class_shares": "write the PUBLIC share of every class, such as class_shares = { no = 0.9, yes = 0.1 }",
    "error_bound": "write the largest error worth telling apart, in the target's unit; a worse one counts as it",
    "score_low": "write the least value your function can take",
    "score_high": "write the largest value your function can take",
}
