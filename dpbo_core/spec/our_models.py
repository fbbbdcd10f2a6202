"""[model] of our own: linear models with a certificate, and the softmax that is trained privately."""

from dataclasses import dataclass
from typing import ClassVar

from dpbo_core.models.scores.union import MARGIN_SCORES, OF_CLASSES, OF_MARGINS, PAIR_SCORES
from dpbo_core.spec.reading import one_of, require
from dpbo_core.spec.written_model import LINEAR_ESTIMATORS, Written, check_outcome


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
            check_outcome(self.estimator, self.score)
        require(
            self.score in (None, OF_CLASSES),
            f"model.score = {self.score!r} does not fit a {self.estimator} model, whose classes are compared",
            remedy=f'use score = "{OF_CLASSES}"',
        )
        self._check_task(numbers=False)
        super().__post_init__()
