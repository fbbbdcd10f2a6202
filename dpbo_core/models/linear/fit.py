"""Linear models with a certificate, trained on the public rows: every λ to a certificate, each fold from w = 0.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x_i, y_i | `X`, `signs` | rows with ‖x‖₂ ≤ 1, and their classes in {−1, +1} | (n, d), (n,) |
| ŵ | `weights` | the weights | (d,) |
| λ | `regularization` | strength of the penalty | scalar > 0 |
| τ_λ | `certificate` | ‖ŵ − w_λ‖ ≤ τ_λ | scalar ≥ 0 |

The softmax (multinomial logistic) model: one column of weights a class.

| symbol | name here | meaning | shape |
|---|---|---|---|
| W | `weights` | one column a class | (d, K) |
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.data import Encoded
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.integer_sums import GRID, to_grid
from dpbo_core.models.linear.fast_exact_scores import NearSteps, SignedRows, StoredRows
from dpbo_core.models.linear.losses import default_tolerance, initial_loss, row_blocks
from dpbo_core.models.linear.newton import MAX_ANCHOR_FEATURES, LogisticPath, Start, descend
from dpbo_core.models.scores.accuracy import Accuracy, Correct
from dpbo_core.models.scores.kinds import PAIR_SCORE_REFUSAL, Integers, PairScore, auc_of, counts
from dpbo_core.models.scores.union import OF_CLASSES, MarginScore, Score
from dpbo_core.models.scoring.in_memory import ScorableModel, SignedSteps, unscorable_reason, usable_mask

SCORES_PER_BLOCK = 16_384  # scores that are in memory at once: larger arrays cost a system call each
MIN_BLOCK_RECORDS = 256  # records of a block, however many models score it


@dataclass(frozen=True, eq=False, repr=False)
class LinearModel(ScorableModel):
    """ŵ and what is known of it. Its repr gives the number of weights alone: a step's λ may be a secret."""

    weights: NDArray[np.float64]
    regularization: float
    certificate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _frozen(self.weights))

    def __repr__(self) -> str:
        return f"LinearModel(d={len(self.weights)})"

    @property
    def norm(self) -> float:
        """The norm ‖ŵ‖ of the weights: no record with ‖x‖₂ ≤ 1 has a margin beyond it."""
        return float(np.linalg.norm(self.weights))

    def margins(self, X: ArrayLike, signs: ArrayLike) -> NDArray[np.float64]:
        """Return the margin y·ŵᵀx of each record.

        Each margin is a function of its own row and ŵ alone, to the last bit: one scalar product a row, its order
        fixed by d (a matrix product's rounding may depend on a row's place in the block).
        A sign of 0 gives margin 0. Never warns; a row that is not finite gives what arithmetic gives. Rows that are
        not contiguous doubles take a block of at most 4096 of them in extra memory.
        """
        rows, classes = _as_rows(X, signs, len(self.weights))
        slopes = self.weights
        margins = np.empty(len(rows))
        with np.errstate(all="ignore"):
            whole = rows.flags.c_contiguous and rows.dtype == np.float64
            for block in [slice(None)] if whole else row_blocks(*rows.shape):
                part = np.ascontiguousarray(rows[block], dtype=np.float64)
                np.vecdot(part, slopes, out=margins[block])
            margins *= classes
        return margins

    def steps(self, records: Encoded, score: Score) -> Integers:
        """Return each record's margin score as an integer from 0 to 2²⁴, (m,)."""
        if not isinstance(score, MarginScore):
            raise unscorable_reason(score, "a linear model is scored by its margin")
        return _margin_steps(self.margins(records.X, records.signs), score)

    def order_independent_steps(self, records: Encoded, score: Score) -> Integers:
        """Each record's score as an integer, (m,), whatever the order: a margin depends on its own row alone."""
        return self.steps(records, score)

    def pair_table(self, records: Encoded, score: PairScore) -> Integers:
        """Return the number of usable records of each class in each histogram cell of wᵀx, (2, B)."""
        cells = score.of_margins(self.margins(records.X, np.ones(records.n_records)), self.norm)
        return counts(records.labels, usable_mask(records), cells, score.n_cells)

    @classmethod
    def steps_of_all(cls, models: Sequence[Self], records: Encoded, score: Score) -> Integers:
        """Return each record's score under several models, (m, L), as integers from 0 to 2²⁴."""
        if len(models) == 1 or not isinstance(score, MarginScore):
            return super().steps_of_all(models, records, score)
        return _margin_steps(margins_of(models, records.X, records.signs), score)

    @classmethod
    def block_rows(cls, models: Sequence[Self], n_records: int) -> int:  # noqa: ARG003
        """Return the number of records of a block, so that about `SCORES_PER_BLOCK` scores are held at once."""
        return max(MIN_BLOCK_RECORDS, SCORES_PER_BLOCK // len(models))

    @classmethod
    def signed_steps(cls, models: Sequence[Self], records: Encoded, score: Score) -> Iterator[SignedSteps]:
        """Return blocks (sign, integer scores (r, L)) whose signed sum has every record's scores once."""
        near = NearSteps.of(np.stack([model.weights for model in models], axis=1), score)
        if near is None:
            return super().signed_steps(models, records, score)
        return near.blocks(records, lambda part: cls.steps_of_all(models, part, score))


def _frozen(weights: ArrayLike) -> NDArray[np.float64]:
    own = np.array(weights, dtype=np.float64)
    own.flags.writeable = False
    return own


def _margin_steps(margins: NDArray[np.float64], score: MarginScore) -> Integers:
    return to_grid(score.phi(margins), score.score_range, broken_score=score.broken_score)


def margins_of(models: Sequence[LinearModel], X: ArrayLike, signs: ArrayLike) -> NDArray[np.float64]:
    """Return the margins y·ŵᵀx of each record under several models, (m, L): column l is `models[l].margins`.

    To the last bit: the same scalar product of a row and a model's weights, one at a time; a row is in the cache
    while all models see it.
    """
    slopes = np.stack([model.weights for model in models])
    rows, classes = _as_rows(X, signs, slopes.shape[1])
    with np.errstate(all="ignore"):
        margins: NDArray[np.float64] = np.vecdot(
            np.ascontiguousarray(rows, dtype=np.float64)[:, None, :], slopes[None, :, :]
        )
        margins *= classes[:, None]
    return margins


def _as_rows(X: ArrayLike, signs: ArrayLike, d: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rows, classes = np.asarray(X), np.asarray(signs)
    if rows.ndim != 2 or rows.shape[1] != d or classes.shape != (len(rows),):
        raise ValueError(f"rows of shape {rows.shape}, signs of shape {classes.shape}, a model of {d} features")
    return rows, classes


def train(
    X: ArrayLike, signs: ArrayLike, *, loss: str, regularization: float, tolerance: float | None = None
) -> LinearModel:
    """Return the model ŵ ≈ argmin (λ/2)‖w‖² + (1/n) Σ ℓ(y_i wᵀx_i), descending from w = 0.

    It is refused unless ‖ŵ − argmin‖ is certified to be at most `tolerance`, which is `default_tolerance(loss, λ)`
    where None. `loss` is "logistic" or "hinge", and λ the `regularization`.
    """
    return minimise(SignedRows.of(X, signs), loss=loss, regularization=regularization, tolerance=tolerance)


def minimise(
    rows: SignedRows,
    *,
    loss: str,
    regularization: float,
    tolerance: float | None = None,
    start: Start | None = None,
) -> LinearModel:
    """Return the linear model of signed rows, refused unless certified to `tolerance`.

    A logistic model's descent begins at `start` (None: w = 0). The certificate is computed at the returned weights,
    so it holds for every start.
    """
    initial_loss(loss)
    _check_positive("regularisation", regularization)
    goal = default_tolerance(loss, regularization) if tolerance is None else tolerance
    _check_positive("tolerance", goal)
    with np.errstate(all="ignore"):
        if loss == "logistic":
            place, certificate = descend(rows, float(regularization), float(goal), start)
            w = place.w
        else:
            from dpbo_core.models.linear.interior_point import minimise_hinge

            w, certificate = minimise_hinge(rows, float(regularization), float(goal))
    if not certificate <= goal:
        raise StudyInvalid(
            f"training at lambda = {regularization:g} reached a certificate of {certificate:.2g}; "
            f"the tolerance asks for {goal:.2g}",
            cause="the tolerance is below what double precision can certify at so small a lambda, or rows are not "
            "scaled to norm 1",
            remedy=f"ask for a tolerance of {2.0 * certificate:.1g} or more, or raise the low end of lambda",
        )
    return LinearModel(w, float(regularization), certificate)


def _check_positive(what: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0.0):
        raise StudyInvalid(
            f"the {what} is {value:g}",
            cause="without a penalty the model has no certificate" if what == "regularisation" else "",
            remedy="give a finite number above 0",
        )


@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxModel(ScorableModel):
    """W. It predicts the class of the largest score, the first of equals. Its repr gives nothing of it."""

    weights: NDArray[np.float64]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _frozen(self.weights))

    def steps(self, records: Encoded, score: Score) -> Integers:
        """Return each record's score as an integer, (m,): 2²⁴ where its class is predicted right, else 0."""
        if not isinstance(score, Correct | Accuracy):
            raise unscorable_reason(
                score, "a softmax model has no margin: it is scored by whether its class is right"
            )
        right = self.predicted(records.X) == records.labels
        return np.where(right & usable_mask(records), GRID, 0).astype(np.int64)

    def predicted(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the index of each row's class, (m,).

        Each answer is a function of its own row and W alone, to the last bit: sums run feature by feature.
        """
        classes = np.empty(len(X), dtype=np.int64)
        K = self.weights.shape[1]
        with np.errstate(all="ignore"):
            for block in row_blocks(*X.shape):
                scores = np.zeros((K, len(X[block])))
                for j, row in enumerate(self.weights):
                    scores += row[:, None] * X[block, j]
                classes[block] = np.argmax(scores, axis=0)
        return classes


@dataclass(eq=False)
class LinearTrainer:
    """The public training set of a binary linear model. It keeps what it trained and cross-validated.

    The model of λ is a function of (λ, training set): the same to the last bit whichever others were trained before
    it. So a search that is killed and run again, or another search on the same rows, trains the same models. Rows
    that are stored train the models that an array of them would, by the same sums.
    """

    X: NDArray[np.float64] | StoredRows = field(repr=False)
    signs: NDArray[np.float64] = field(repr=False)
    loss: str
    score: MarginScore | PairScore
    tolerance: float | None
    _trained: dict[float, LinearModel] = field(default_factory=dict, repr=False)
    _public_scores: dict[tuple[float, int], float] = field(default_factory=dict, repr=False)
    _newest: tuple[tuple[float, int], NDArray[np.float64]] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        X: NDArray[np.float64] | StoredRows,
        labels: NDArray[np.int64],
        loss: str,
        *,
        score: MarginScore | PairScore,
        tolerance: float | None,
    ) -> "LinearTrainer":
        """Return a trainer of linear models on rows of classes 0 and 1 (signs −1, +1); refuse other classes."""
        check_two_classes(int(labels.max()) + 1, loss)
        return cls(X, np.where(labels == 1, 1.0, -1.0), loss, score, tolerance)

    @property
    def n_records(self) -> int:
        """The number n of public training records."""
        return len(self.X)

    def train(self, point: Mapping[str, Any]) -> LinearModel:
        """Return the certified model at point["lambda"], cached; it depends on λ and the public rows alone."""
        regularization = float(point["lambda"])
        if regularization not in self._trained:
            self._trained[regularization] = self.retrain(regularization)
        return self._trained[regularization]

    def retrain(self, regularization: float) -> LinearModel:
        """Return the certified model at λ = `regularization`, bit for bit that of `train`, without the cache."""
        return minimise(
            self._signed_rows,
            loss=self.loss,
            regularization=regularization,
            tolerance=self.tolerance,
            start=self._start(regularization),
        )

    def prepare(self, lowest: float) -> None:
        """Compute the starting points for every λ ≥ `lowest` now.

        The duration of a later training then does not depend on which λ were trained before.
        """
        self._start(lowest)

    def without_answer(self, regularization: float) -> LinearModel:
        """Return the model w = 0, for a λ that cannot be trained; its certificate is ∞."""
        return LinearModel(np.zeros(self.X.shape[1]), regularization, math.inf)

    def _start(self, regularization: float) -> Start | None:
        return None if self._warm_path is None else self._warm_path.start(regularization)

    @cached_property
    def _signed_rows(self) -> SignedRows:
        return self.X.signed() if isinstance(self.X, StoredRows) else SignedRows.of(self.X, self.signs)

    @cached_property
    def _warm_path(self) -> LogisticPath | None:
        starts = self.loss == "logistic" and self.X.shape[1] <= MAX_ANCHOR_FEATURES
        return LogisticPath(self._signed_rows) if starts else None

    def public_score(self, point: Mapping[str, Any], *, seed: int) -> float:
        """Return the cross-validated public score at point["lambda"], or the AUC of pairs within folds; cached."""
        key = (float(point["lambda"]), seed)
        if key not in self._public_scores:
            if isinstance(self.score, PairScore):
                self._public_scores[key] = self._cross_validated_auc(self.score, point, seed)
            else:
                self._public_scores[key] = float(self.score.phi(self.public_margins(point, seed=seed)).mean())
        return self._public_scores[key]

    def public_steps(self, point: Mapping[str, Any], *, seed: int) -> NDArray[np.int64]:
        """Each public record's margin score from 0 to 2²⁴, (n,), under the model trained without its fold."""
        if isinstance(self.score, PairScore):
            raise TypeError(PAIR_SCORE_REFUSAL)
        scores = self.score.phi(self.public_margins(point, seed=seed))
        return to_grid(scores, self.score.score_range, broken_score=self.score.broken_score)

    def public_margins(self, point: Mapping[str, Any], *, seed: int) -> NDArray[np.float64]:
        """Each public record's margin y·ŵᵀx, (n,), under the model trained without its fold; newest cached."""
        key = (float(point["lambda"]), seed)
        if self._newest is None or self._newest[0] != key:
            from dpbo_core.models.baseline import fold_of

            folds = fold_of(self.signs.astype(np.int64), seed=seed)
            margins = np.empty(len(folds))
            for fold in range(folds.max() + 1):
                out = folds == fold
                margins[out] = self._margins(self._without(out, point), out)
            self._newest = key, margins
        return self._newest[1]

    def _cross_validated_auc(self, score: PairScore, point: Mapping[str, Any], seed: int) -> float:
        from dpbo_core.models.baseline import fold_of, one_class

        folds = fold_of(self.signs.astype(np.int64), seed=seed)
        tables = [np.zeros((2, score.n_cells), dtype=np.int64)]
        for fold in range(folds.max() + 1):
            out = folds == fold
            if not one_class(self.signs, out):
                model = self._without(out, point)
                classes = (self.signs[out] > 0.0).astype(np.int64)
                cells = score.of_margins(self.signs[out] * self._margins(model, out), model.norm)
                tables.append(counts(classes, np.ones(len(cells), dtype=bool), cells, score.n_cells))
        return auc_of(np.array(tables))

    def _without(self, out: NDArray[np.bool_], point: Mapping[str, Any]) -> LinearModel:
        l2 = float(point["lambda"])
        if isinstance(self.X, StoredRows):
            rest = self.X.signed_where(~out)
            return minimise(rest, loss=self.loss, regularization=l2, tolerance=self.tolerance)
        return train(self.X[~out], self.signs[~out], loss=self.loss, regularization=l2, tolerance=self.tolerance)

    def _margins(self, model: LinearModel, out: NDArray[np.bool_]) -> NDArray[np.float64]:
        if isinstance(self.X, StoredRows):
            return np.concatenate([model.margins(X, signs) for X, signs in self.X.unsigned_where(out)])
        return model.margins(self.X[out], self.signs[out])


def check_two_classes(n_classes: int, loss: str) -> None:
    """Refuse a linear model for other than two classes."""
    if n_classes != 2:
        raise StudyInvalid(
            f"the target has {n_classes} classes, and a {loss} model separates two",
            cause="a multi-class target, or an identifier named as the target",
            remedy=f'use a scikit-learn estimator by import path with score = "{OF_CLASSES}"',
        )
