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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.containment import contained
from dpbo_core.models.outcome import Verb
from dpbo_core.privacy.sealing import each

Scores = NDArray[np.float64]
LOG_LOSS_BOUND = math.log(100.0)  # a probability below 1% counts as 1%


class RecordScore(Protocol):
    """What a study may score an estimator's records by."""

    @property
    def needs(self) -> Verb:
        """The estimator's verb whose outcome is scored."""
        ...

    @property
    def score_range(self) -> float:
        """G."""
        ...

    @property
    def lipschitz(self) -> float:
        """L."""
        ...

    def span(self, norm: float) -> float:
        """R."""
        ...

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """G of each record, (k,); element i is a function of row i alone."""
        ...


class _Jumps:
    """What every score of an estimator shares: no certified weights, so no Lipschitz constant in them."""

    @property
    def lipschitz(self) -> float:
        """L = ∞."""
        return math.inf

    @property
    def broken_score(self) -> float:
        """0, the score of a record that cannot be used."""
        return 0.0

    @property
    def needs(self) -> Verb:
        """A class, or a number."""
        return "predict"

    @property
    def score_range(self) -> float:
        """G = 1 where a score does not say otherwise."""
        return 1.0

    def span(self, norm: float) -> float:  # noqa: ARG002  without certified weights nothing narrows it
        """G."""
        return self.score_range


@dataclass(frozen=True)
class Correct(_Jumps):
    """Accuracy: g = 1 where ŷ = y."""

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """1.0 where the prediction is right, else 0.0."""
        return equal(outcome, truth).astype(np.float64)


@dataclass(frozen=True)
class BalancedAccuracy(_Jumps):
    """g = 1/(C·π_y) where ŷ = y: its mean is the balanced accuracy of a set whose classes have the shares π."""

    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        ok = len(self.shares) > 1 and all(math.isfinite(share) and share > 0.0 for share in self.shares)
        if not ok or abs(sum(self.shares) - 1.0) > 1e-3:
            raise StudyInvalid(
                "model.class_shares are not the shares of at least two classes",
                cause="a share is 0 or missing, or they do not add up to 1",
                remedy="write the public share of every class, such as { no = 0.9, yes = 0.1 }",
            )

    @property
    def score_range(self) -> float:
        """G = 1/(C·min π): what the rarest class weighs."""
        return 1.0 / (len(self.shares) * min(self.shares))

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """1/(C·π_y) where the prediction is right, else 0.0."""
        weights = 1.0 / (len(self.shares) * np.array(self.shares))
        known = np.clip(truth.astype(np.int64), 0, len(weights) - 1)
        return np.where(equal(outcome, truth), weights[known], 0.0)


@dataclass(frozen=True)
class Brier(_Jumps):
    """g = 1 − ½ Σ_c (p_c − [c = y])²; for two classes 1 − (p − y)²."""

    @property
    def needs(self) -> Verb:
        """Probabilities."""
        return "predict_proba"

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """One minus half the squared distance from the right corner."""
        total = np.zeros(len(truth))
        for c in range(outcome.shape[1]):  # one order of summation, whatever stands beside a record
            total += (np.clip(outcome[:, c], 0.0, 1.0) - (truth == c)) ** 2
        return 1.0 - 0.5 * total


@dataclass(frozen=True)
class LogLoss(_Jumps):
    """g = E − min(−log p_y, E)."""

    bound: float = LOG_LOSS_BOUND

    @property
    def needs(self) -> Verb:
        """Probabilities."""
        return "predict_proba"

    @property
    def score_range(self) -> float:
        """G = E."""
        return self.bound

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """The bound less the clipped loss."""
        right = outcome[np.arange(len(truth)), np.clip(truth.astype(np.int64), 0, outcome.shape[1] - 1)]
        with np.errstate(all="ignore"):
            loss = np.minimum(-np.log(np.clip(right, 0.0, 1.0)), self.bound)
            return np.asarray(self.bound - loss, dtype=np.float64)


@dataclass(frozen=True)
class RegressionError(_Jumps):
    """g = Eᵖ − min(|ŷ − y|, E)ᵖ: the absolute error (p = 1) or the squared error (p = 2) under a public bound."""

    bound: float
    power: Literal[1, 2]

    @property
    def score_range(self) -> float:
        """G = Eᵖ."""
        return self.bound**self.power

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """The bound less the clipped error."""
        with np.errstate(all="ignore"):
            error = np.abs(_numbers(outcome) - truth)
            return np.asarray(self.score_range - np.minimum(error, self.bound) ** self.power, dtype=np.float64)


@dataclass(frozen=True)
class BoundedFunction(_Jumps):
    """A user's function f(truth, prediction) of ONE record, clipped to [low, high]; g = f − low.

    Attributes:
        name: its import path.
        low: public lower end.
        high: public upper end, above `low`.
        function: called once a record with what that record holds; if it raises, the record scores 0. None while
            the study is only planned.
        classes: the classes' values, handed to the function in place of their indices; empty for a regression.
    """

    name: str
    low: float
    high: float
    function: Callable[[Any, Any], float] | None = field(default=None, repr=False)
    classes: tuple[Any, ...] = ()

    @property
    def score_range(self) -> float:
        """G = high − low."""
        return self.high - self.low

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """f − low of each record, NaN where the function gave no number; nothing it raises or says gets out."""
        with contained():
            return np.array(each(self._one, _pairs(outcome, truth), math.nan))  # what it raised may quote a record

    def values(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """The same, neither contained nor sealed: for a process that nobody hears, whose failure scores 0."""
        return np.array([self._one(pair) for pair in _pairs(outcome, truth)])

    def check(self, outcome: NDArray[Any], truth: NDArray[Any]) -> None:
        """The function keeps its bounds on PUBLIC rows.

        Raises:
            StudyInvalid: it does not, or it fails.
        """
        values = self.of(outcome, truth)
        if not ((values >= 0.0) & (values <= self.score_range)).all():
            raise StudyInvalid(
                f"the score function leaves [{self.low:g}, {self.high:g}], or fails, on the public training rows",
                cause="its bounds are too narrow, or it does not return one number for one record",
                remedy="widen the bounds; the noise grows with their distance",
            )

    def _one(self, pair: tuple[Any, Any]) -> float:
        assert self.function is not None  # noqa: S101  nothing is scored before the public half was read
        truth, prediction = pair
        return float(self.function(self._value(truth), self._value(prediction))) - self.low

    def _value(self, item: Any) -> Any:
        return self.classes[int(item)] if self.classes else item


def _pairs(outcome: NDArray[Any], truth: NDArray[Any]) -> Iterator[tuple[Any, Any]]:
    """(truth, prediction) of each record."""
    return zip(truth.tolist(), outcome.tolist(), strict=True)


def equal(predicted: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Elementwise equality, (k,) bool, for any two types."""
    if predicted.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        return np.asarray(predicted == labels)
    return np.array([_same(a, b) for a, b in zip(predicted.tolist(), labels.tolist(), strict=True)], dtype=bool)


def _numbers(outcome: NDArray[Any]) -> Scores:
    """Predictions as float64, (k,), NaN for what is no number: one of them costs its own record only."""
    if outcome.dtype.kind in "biuf":
        return outcome.astype(np.float64)
    return np.array([_number(item) for item in outcome.tolist()], dtype=float)


def _number(item: object) -> float:
    try:
        return float(item) if isinstance(item, int | float) else math.nan
    except OverflowError:  # an integer of hundreds of digits
        return math.nan


def _same(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001  a label may be anything, pandas.NA say, whose equality has no truth value
        return False
