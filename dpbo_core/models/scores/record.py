"""Scores of any estimator's predictions: one record at a time, bounded, larger is better.

| symbol | name here | meaning | shape |
|---|---|---|---|
| y | `truth` | class indices, or targets of a regression | (k,) |
| ŷ, p | `outcome` | what the verb `needs` gave: a class, a number, or a probability a class | (k,) or (k, C) |
| g | `of(outcome, truth)` | one record's score in [0, G], a function of its own row alone | (k,) |
| G | `score_range` | range of one record's score | scalar > 0 |
| π_c | `shares` | public share of class c | (C,) |
| E | `bound` | public bound of a loss | scalar > 0 |

A loss ℓ clipped at E becomes the score E − min(ℓ, E), so the mean loss is at most E − score. What the estimator or
the user's function gives is never trusted: NaN scores 0 and everything else is clipped to [0, G] by `to_grid`.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.declared import NaturalUnit

Verb = Literal["predict", "predict_proba", "decision_function"]


def shaped(prediction: Any, verb: Verb, n_rows: int) -> NDArray[Any] | None:
    """Return the output of estimator method `verb`, (k,) or (k, C), as an array; None if its shape is wrong."""
    outcome = np.asarray(prediction)
    outcome = outcome if verb == "predict" else outcome.astype(np.float64)
    if verb == "predict_proba":
        return outcome if outcome.ndim == 2 and len(outcome) == n_rows else None
    return outcome.reshape(-1) if outcome.size == math.prod(outcome.shape[:1]) == n_rows else None


Scores = NDArray[np.float64]


class Jumps:
    """The properties that all scores of estimators share. They have no Lipschitz constant in a model's weights."""

    lipschitz: ClassVar[float] = math.inf  # L in w, for ‖x‖₂ ≤ 1: it jumps
    broken_score: ClassVar[float] = 0.0  # of a record that cannot be used

    @property
    def graded(self) -> bool:
        """Whether a record's score may take any value in its range, so that similar models score it similarly."""
        return True

    @property
    def needs(self) -> Verb:
        """The estimator method whose output is scored: "predict", unless a score overrides it."""
        return "predict"

    @property
    def score_range(self) -> float:
        """The range G of one record's score, which lies in [0, G]; 1 unless a score overrides it."""
        return 1.0

    @property
    def natural_unit(self) -> NaturalUnit:
        """The unit in which people read the mean score: itself, unless a score overrides it by a loss."""
        return NaturalUnit()

    def span(self, norm: float) -> float:  # noqa: ARG002  without certified weights nothing narrows it
        """The largest difference R of two records' scores under one model: the whole range G, for any `norm`."""
        return self.score_range


class RecordScore(Jumps, ABC):
    """What a study may score an estimator's records by."""

    @abstractmethod
    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Return each record's score, (k,), from its outcome and truth; not clipped to [0, G], and maybe NaN."""


class Loss(RecordScore):
    """A clipped loss as a score: its bound less the loss, so that more is better."""

    @property
    def natural_unit(self) -> NaturalUnit:
        """The unit in which people read the score: the loss itself, G − g."""
        return NaturalUnit(self.score_range, greater_is_better=False)


def equal(predicted: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return where predicted classes equal labels, elementwise, (k,), for any two types."""
    if predicted.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        return np.asarray(predicted == labels)
    return np.array([_is_equal(a, b) for a, b in zip(predicted.tolist(), labels.tolist(), strict=True)], dtype=bool)


def _is_equal(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001  a label may be anything, pandas.NA say, whose equality has no truth value
        return False
