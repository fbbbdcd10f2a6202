"""The kinds of score, of a margin, a record or a pair of records, and what a score's file declares.

What is declared is all that the other modules need to know of a score by its name. `NaturalUnit` converts a mean
score to the unit that people know: a loss, or the values of a user's own function.

Margin scores g = φ(y·wᵀx), which a certified linear model is scored by.

| symbol | name here | meaning | shape |
|---|---|---|---|
| t | `margins` | y·wᵀx, one a record | (m,) |
| φ | `phi` | nondecreasing from 0 to G | (m,) → (m,) |
| s | `steepness` | slope of the score | scalar > 0 |
| R | `span(‖w‖)` | φ(‖w‖) − φ(−‖w‖), the range over all records at fixed w | scalar ≤ min(G, 2L‖w‖) |

A score never raises and never warns: what it would say could hold a record. A NaN margin scores φ(0).

Scores of any estimator's predictions: one record at a time, bounded, larger is better.

| symbol | name here | meaning | shape |
|---|---|---|---|
| y | `truth` | class indices, or targets of a regression | (k,) |
| ŷ, p | `outcome` | what the verb `needs` gave: a class, a number, or a probability a class | (k,) or (k, C) |
| g | `of(outcome, truth)` | one record's score in [0, G], a function of its own row alone | (k,) |

A loss ℓ clipped at E becomes the score E − min(ℓ, E), so the mean loss is at most E − score. What the estimator or
the user's function gives is never trusted: NaN scores 0 and everything else is clipped to [0, G] by `to_grid`.

Scores that count correctly ranked pairs of records, from a histogram of decision values in public cells.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s | `outcome` | what a model's verb gave for each record | (k,) or (k, 2) |
| c | `of(outcome, truth)` − 1 | the cell of s, from the lowest values to the highest | (k,) in 0 … B − 1 |
| B | `n_cells` | cells, public | scalar |
| h | `counts` | records of each class in each cell, the first class first | (2, B) int64 |
| C₂, D | `pairs_of(h)` | Σ 2·[s_i > s_j] + [s_i = s_j] over all pairs, and what it is if all are right | integers |

A cell is a function of the record's own row and of public facts, whatever the record: what is not finite, and what
a model cannot predict, is in the lowest. A record's CLASS is its label's alone, so that D is one for every model.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.errors import StudyInvalid


@dataclass(frozen=True)
class Numbers:
    """The numbers that a study gives for its score."""

    steepness: float  # slope of a margin score
    shares: tuple[float, ...] = ()  # the public share of every class, in the order of the classes
    error_bound: float | None = None  # E, None if the study leaves it out

    def __post_init__(self) -> None:
        if self.shares:
            check_shares(self.shares)


def check_shares(shares: Sequence[float]) -> None:
    """Refuse class shares unless there are two or more, each above 0, that add up to 1 within 0.001."""
    positive = len(shares) > 1 and all(math.isfinite(share) and share > 0.0 for share in shares)
    if not positive or abs(sum(shares) - 1.0) > 1e-3:
        raise StudyInvalid(
            "model.class_shares are not the shares of at least two classes",
            cause="a share is 0 or missing, or they do not add up to 1",
            remedy="write the public share of every class, such as { no = 0.9, yes = 0.1 }",
        )


@dataclass(frozen=True)
class Declared:
    """A score by its name."""

    name: str  # in a study
    earns: str  # what one record scores, for the page that lists scores
    between: str  # the ends of that, likewise
    # the score of a certified linear model's margin; None if it has none
    of_margin: Callable[[Numbers], Any] | None = None
    # the score of what any other estimator predicts; None if it has none
    of_outcome: Callable[[Numbers], Any] | None = None
    # the score where it is a count of pairs; None if it is not one
    of_pairs: Callable[[Numbers], Any] | None = None
    called: str = "a score"  # what a sentence calls one, with its article
    regression: bool = False  # whether the target is a number
    needs: tuple[str, ...] = ()  # keys of [model] that it cannot do without
    allows: tuple[str, ...] = ()  # keys of [model] that it may have beside these


FUNCTION = Declared(
    "a user's own function",
    earns="f(truth, prediction), clipped",
    between="`score_low` and `score_high`",
    needs=("score_low", "score_high"),
)


@dataclass(frozen=True)
class NaturalUnit:
    """The unit in which people read a mean score f: z + f if more is better, z − f if it is a loss."""

    zero: float = 0.0
    greater_is_better: bool = True

    def of(self, score: float) -> float:
        """Return a mean score converted to the unit in which people read it: where that is a loss, the loss."""
        return self.zero + (score if self.greater_is_better else -score)

    def metric(self, name: str, score: float | None, interval: Sequence[float] | None) -> dict[str, Any]:
        """Return a score, with its noise, and its interval converted to the metric `name`, as plain JSON."""
        ends = None if interval is None else sorted(self.of(end) for end in interval)
        return {
            "name": name,
            "value": None if score is None else self.of(score),
            "greater_is_better": self.greater_is_better,
            "interval": ends,
        }


def steep(margins: ArrayLike, steepness: float) -> NDArray[np.float64]:
    """Return margins times steepness, with overflow to ±∞ and NaN to 0, contiguous whatever the input's layout."""
    t = np.array(margins, dtype=np.float64, order="C")
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        t *= steepness
    np.copyto(t, 0.0, where=np.isnan(t))
    return t


@dataclass(frozen=True)
class Steep(ABC):
    """What the scores with a slope share: 0 to 1, and half of it at a margin of 0."""

    graded: ClassVar[bool] = True  # φ is continuous, so that near models give a record near scores
    score_range: ClassVar[float] = 1.0  # G: one record's scores lie in [0, G]
    broken_score: ClassVar[float] = 0.5  # φ(0): what a record that cannot be read scores
    natural_unit: ClassVar[NaturalUnit] = NaturalUnit()  # A margin score is its own unit
    slope: ClassVar[float]  # L at s = 1
    rounding: ClassVar[float]  # η: how far `phi` and `overwrite` may be from φ of a finite margin

    steepness: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.steepness) and self.steepness > 0.0):
            raise StudyInvalid(
                f"the score's steepness is {self.steepness:g}",
                cause="a score must rise with the margin",
                remedy="give a finite number above 0, such as 10",
            )

    @property
    def lipschitz(self) -> float:
        """The Lipschitz constant L of φ, and of one record's score in w, for ‖x‖₂ ≤ 1."""
        return self.slope * self.steepness

    @abstractmethod
    def phi(self, margins: ArrayLike) -> NDArray[np.float64]:
        """Return the score φ of each margin, (m,)."""

    @abstractmethod
    def span(self, norm: float) -> float:
        """Return the largest difference R of two records' scores at weights of this norm."""

    @abstractmethod
    def overwrite(self, margins: NDArray[np.float64]) -> None:
        """Replace finite margins, in an array of any shape, by the score φ of each, in place."""


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


Integers = NDArray[np.int64]
PAIR_SCORE_REFUSAL = "a score of pairs is no record's own"
Asked = Callable[[Verb], "NDArray[Any] | None"]  # what a fitted estimator gives for public rows


@dataclass(frozen=True)
class PairScore(Jumps, ABC):
    """A score that counts correctly ranked pairs; a subclass maps a model's values to histogram cells."""

    graded: ClassVar[bool] = False  # a record has no score of its own

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """The number B of histogram cells."""

    @abstractmethod
    def cells(self, name: str, asked: Asked) -> RecordScore:
        """Return the map from predictions to 1 + a histogram cell, made from those of public rows."""

    @abstractmethod
    def of_margins(self, decisions: Scores, norm: float) -> Integers:
        """The histogram cell of each decision value ŵᵀx (k,) of a linear model whose weights have this norm."""


def check_two_classes(name: str, n_classes: int, *, instead: tuple[str, ...], also: str = "") -> None:
    """Refuse a score of pairs for other than two classes; the message names the scores `instead`, and `also`."""
    if n_classes != 2:
        raise StudyInvalid(
            f"the target has {n_classes} classes, and {name} ranks the records of one class above those of another",
            cause="between more classes there are several such numbers, and one record moves their mean too far",
            remedy=f"choose by {' or '.join(instead)}{also}, or make a study of one class against the rest",
        )


def counts(classes: NDArray[Any], usable: NDArray[np.bool_], cells: Integers, n_cells: int) -> Integers:
    """Return how many usable records of each class are in each cell, (2, B), as sensitive as the records.

    Of each record (m,): the index of its class, False in `usable` if it is in neither, and its cell in 0 … B − 1.
    """
    counted = usable & ((classes == 0) | (classes == 1))
    places = np.where(counted, classes * n_cells + cells, 2 * n_cells).astype(np.int64)
    table = np.bincount(places, minlength=2 * n_cells + 1)
    return table[: 2 * n_cells].reshape(2, n_cells).astype(np.int64)


def pairs_of(table: Integers) -> tuple[int, int]:
    """Return (C₂, D) of a table of counts (2, B): twice the pairs ranked right, a tie as half, and twice all pairs.

    O(B): each record of the second class in a cell beats all records of the first class in lower cells.
    """
    below = np.cumsum(table[0]) - table[0]
    ranked = int((table[1] * (2 * below + table[0])).sum(dtype=np.int64))
    return ranked, 2 * int(table[0].sum()) * int(table[1].sum())


def auc_of(tables: Integers) -> float:
    """Return the AUC of all PUBLIC tables (…, 2, B) together: pairs ranked right over all pairs; ½ if none."""
    pairs_by_table = [pairs_of(table) for table in tables.reshape(-1, *tables.shape[-2:])]
    pairs = sum(D for _, D in pairs_by_table)
    return sum(C for C, _ in pairs_by_table) / pairs if pairs else 0.5
