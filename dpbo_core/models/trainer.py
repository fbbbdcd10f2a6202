"""Training one candidate on the public set: ours with a certificate, or any scikit-learn estimator."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.cross_validation import fold_of
from dpbo_core.models.estimators import EstimatorFactory, FittedEstimator
from dpbo_core.models.linear.fit import LinearModel, minimise, train
from dpbo_core.models.linear.path import LARGEST, LogisticPath
from dpbo_core.models.linear.signed_rows import SignedRows
from dpbo_core.models.linear.stored_rows import StoredRows
from dpbo_core.models.listed.inspection import check_listed
from dpbo_core.models.outcome import Verb
from dpbo_core.models.rowwise import check_rowwise
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.grid import GRID, to_grid
from dpbo_core.models.scores.pairs import Cells, Integers, PairScore, auc_of, counts
from dpbo_core.models.scores.record import RecordScore
from dpbo_core.models.scores.union import OF_CLASSES, MarginScore

Model = LinearModel | FittedEstimator
Score = MarginScore | RecordScore | PairScore
PUBLIC_ROWS = 4096  # whose decision values say on which scale a model's are
OF_PAIRS = "a score of pairs is no record's own"


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
        """From class indices 0 and 1; the larger class is +1.

        Raises:
            StudyInvalid: more than two classes.
        """
        check_two_classes(int(labels.max()) + 1, loss)
        return cls(X, np.where(labels == 1, 1.0, -1.0), loss, score, tolerance)

    @property
    def n_records(self) -> int:
        """n: how many public training records there are."""
        return len(self.X)

    def train(self, point: Mapping[str, Any]) -> LinearModel:
        """The certified model at point["lambda"], begun near it where the loss is logistic."""
        regularization = float(point["lambda"])
        if regularization not in self._trained:
            self._trained[regularization] = minimise(
                self._rows,
                loss=self.loss,
                regularization=regularization,
                tolerance=self.tolerance,
                start=None if self._path is None else self._path.start(regularization),
            )
        return self._trained[regularization]

    @cached_property
    def _rows(self) -> SignedRows:
        return self.X.signed() if isinstance(self.X, StoredRows) else SignedRows.of(self.X, self.signs)

    @cached_property
    def _path(self) -> LogisticPath | None:
        return LogisticPath(self._rows) if self.loss == "logistic" and self.X.shape[1] <= LARGEST else None

    def public_score(self, point: Mapping[str, Any], *, seed: int) -> float:
        """Cross-validated score at point["lambda"], in [0, G]; folds are cold starts, pairs within a fold."""
        key = (float(point["lambda"]), seed)
        if key not in self._public_scores:
            if isinstance(self.score, PairScore):
                self._public_scores[key] = self._public_pairs(self.score, point, seed)
            else:
                self._public_scores[key] = float(self.score.phi(self.public_margins(point, seed=seed)).mean())
        return self._public_scores[key]

    def public_steps(self, point: Mapping[str, Any], *, seed: int) -> NDArray[np.int64]:
        """Each public record's margin score in whole steps, (n,), under the model trained without its fold."""
        if isinstance(self.score, PairScore):
            raise TypeError(OF_PAIRS)
        scores = self.score.phi(self.public_margins(point, seed=seed))
        return to_grid(scores, self.score.score_range, broken_score=self.score.broken_score)

    def public_margins(self, point: Mapping[str, Any], *, seed: int) -> NDArray[np.float64]:
        """Each public record's margin y·ŵᵀx, (n,), under the model trained without its fold."""
        key = (float(point["lambda"]), seed)
        if self._newest is None or self._newest[0] != key:
            self._newest = key, self._cross_validated(point, seed)
        return self._newest[1]

    def _cross_validated(self, point: Mapping[str, Any], seed: int) -> NDArray[np.float64]:
        folds = fold_of(self.signs.astype(np.int64), seed=seed)
        margins = np.empty(len(folds))
        for fold in range(folds.max() + 1):
            out = folds == fold
            margins[out] = self._margins(self._without(out, point), out)
        return margins

    def _public_pairs(self, score: PairScore, point: Mapping[str, Any], seed: int) -> float:
        folds, tables = (
            fold_of(self.signs.astype(np.int64), seed=seed),
            [np.zeros((2, score.n_cells), dtype=np.int64)],
        )
        for fold in range(folds.max() + 1):
            out = folds == fold
            if not one_class(self.signs, out):
                model = self._without(out, point)
                positive = self.signs[out] > 0.0
                values = self.signs[out] * self._margins(model, out)
                tables.append(table_of_margins(values, model.norm, positive, score))
        return auc_of(np.array(tables))

    def _without(self, out: NDArray[np.bool_], point: Mapping[str, Any]) -> LinearModel:
        """A cold start on the records that are not left out."""
        regularization = float(point["lambda"])
        if isinstance(self.X, StoredRows):
            rows = self.X.signed_where(~out)
            return minimise(rows, loss=self.loss, regularization=regularization, tolerance=self.tolerance)
        return train(
            self.X[~out],
            self.signs[~out],
            loss=self.loss,
            regularization=regularization,
            tolerance=self.tolerance,
        )

    def _margins(self, model: LinearModel, out: NDArray[np.bool_]) -> NDArray[np.float64]:
        """y·ŵᵀx of the records that are left out."""
        if isinstance(self.X, StoredRows):
            return np.concatenate([model.margins(X, signs) for X, signs in self.X.unsigned_where(out)])
        return model.margins(self.X[out], self.signs[out])


def check_two_classes(n_classes: int, loss: str) -> None:
    """A linear model separates two.

    Raises:
        StudyInvalid: there are more or fewer.
    """
    if n_classes != 2:
        raise StudyInvalid(
            f"the target has {n_classes} classes, and a {loss} model separates two",
            cause="a multi-class target, or an identifier named as the target",
            remedy=f'use a scikit-learn estimator by import path with score = "{OF_CLASSES}"',
        )


def one_class(truth: NDArray[Any], out: NDArray[np.bool_]) -> bool:
    """Whether a fold, or what is left without it, has no pair of two classes."""
    return any(len(np.unique(part)) < 2 for part in (truth[out], truth[~out]))


def table_of_margins(
    values: NDArray[np.float64], norm: float, positive: NDArray[np.bool_], score: PairScore
) -> Integers:
    """Records of each class in each cell under a linear model of that norm, (2, B), from ŵᵀx of each (m,)."""
    cells = score.of_margins(values, norm)
    return counts(positive.astype(np.int64), np.ones(len(values), dtype=bool), cells, score.n_cells)


class Factory(Protocol):
    """Fresh estimators at chosen hyperparameters, fitted to public rows."""

    def train(self, X: NDArray[np.float64], y: NDArray[Any], /, **hyperparameters: Any) -> FittedEstimator:
        """Train the model of λ from a cold start, whatever was trained before."""
        ...


@dataclass(eq=False)
class EstimatorTrainer:
    """The public training set of any scikit-learn estimator. It keeps what it cross-validated.

    Where it is `listed`, nothing was assumed to know that it predicts each row alone, and every trained one is held
    to that.
    """

    X: NDArray[np.float64] = field(repr=False)
    truth: NDArray[Any] = field(repr=False)
    factory: Factory
    score: RecordScore | PairScore = field(default_factory=Correct)
    listed: bool = False
    enforced: bool = False
    _modules: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict, repr=False)
    _public_scores: dict[tuple[Any, ...], float] = field(default_factory=dict, repr=False)
    _tried: set[str] = field(default_factory=set, repr=False)
    _newest: tuple[tuple[Any, ...], NDArray[np.int64]] | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        X: NDArray[np.float64],
        labels: NDArray[np.int64],
        import_path: str,
        *,
        params: Mapping[str, Any],
        seed: int,
    ) -> "EstimatorTrainer":
        """An estimator by import path with its fixed parameters; everything random in it takes `seed`."""
        return cls(X, labels, EstimatorFactory(import_path, params, seed))

    @property
    def n_records(self) -> int:
        """n: how many public training records there are."""
        return len(self.X)

    def train(self, point: Mapping[str, Any]) -> FittedEstimator:
        """The estimator at `point`, fitted from scratch, after checking that it predicts row by row.

        Where that is enforced nothing needs to be checked but that public rows can be scored so.

        Raises:
            StudyInvalid: it cannot be built, trained or predict row by row, it is not the listed estimator that it
                was taken for, or the score fails on public rows.
        """
        fitted = self.factory.train(self.X, self.truth, **point)
        if self.listed and not self.enforced:
            check_listed(fitted.estimator)
        scored: RecordScore
        if isinstance(self.score, PairScore):
            fitted, scored = with_cells(fitted, self.score, self.X)
        else:
            scored = self.score
        if self.enforced:
            from dpbo_core.models.enforced.enforced_model import alone

            how = alone(fitted.by_rows(), self.X, self.truth, scored, known=self._modules)
            return replace(fitted, alone=how)
        outcome = check_rowwise(fitted, self.X, needs=scored.needs, again=scored.needs in self._tried)
        self._tried.add(scored.needs)
        if isinstance(self.score, BoundedFunction):
            self.score.check(outcome, self.truth[: len(outcome)])
        return fitted

    def public_score(self, point: Mapping[str, Any], *, seed: int) -> float:
        """Score of the public records, each under the estimator trained without its fold; pairs within a fold."""
        key = _key(point, seed)
        if key not in self._public_scores:
            if isinstance(self.score, PairScore):
                self._public_scores[key] = self._public_pairs(self.score, point, seed)
                return self._public_scores[key]
            steps = self.public_steps(point, seed=seed)
            self._public_scores[key] = int(steps.sum()) * self.score.score_range / (GRID * len(steps))
        return self._public_scores[key]

    def public_steps(self, point: Mapping[str, Any], *, seed: int) -> NDArray[np.int64]:
        """Each public record's score in whole steps, (n,), under the estimator trained without its fold."""
        key = _key(point, seed)
        if self._newest is None or self._newest[0] != key:
            self._newest = key, self._cross_validated(point, seed)
        return self._newest[1]

    def _cross_validated(self, point: Mapping[str, Any], seed: int) -> NDArray[np.int64]:
        if isinstance(self.score, PairScore):
            raise TypeError(OF_PAIRS)
        classes = self.truth if self.truth.dtype.kind == "i" else np.zeros(len(self.truth), dtype=np.int64)
        folds, steps = fold_of(classes, seed=seed), np.empty(len(classes), dtype=np.int64)
        for fold in range(folds.max() + 1):
            out = folds == fold
            fitted = self.factory.train(self.X[~out], self.truth[~out], **point)
            scores = fitted.scores(self.X[out], self.truth[out], self.score)
            steps[out] = to_grid(scores, self.score.score_range, broken_score=0.0)
        return steps

    def _public_pairs(self, score: PairScore, point: Mapping[str, Any], seed: int) -> float:
        folds, tables = fold_of(self.truth, seed=seed), [np.zeros((2, score.n_cells), dtype=np.int64)]
        for fold in range(folds.max() + 1):
            out = folds == fold
            if one_class(self.truth, out):
                continue
            fitted = self.factory.train(self.X[~out], self.truth[~out], **point)
            ranked, _ = with_cells(fitted, score, self.X[~out])
            tables.append(table_of_estimator(ranked, self.X[out], self.truth[out], score))
        return auc_of(np.array(tables))


def _key(point: Mapping[str, Any], seed: int) -> tuple[Any, ...]:
    """Of a point and the seed that deals out the folds; 1 and 1.0 are two values."""
    return (*((name, type(value).__name__, value) for name, value in sorted(point.items())), seed)


def with_cells(
    fitted: FittedEstimator, score: PairScore, X_public: NDArray[np.float64]
) -> tuple[FittedEstimator, Cells]:
    """The estimator with the public map of its decision values, and that map.

    Raises:
        StudyInvalid: it gives none.
    """
    rows = X_public[:: 1 + (len(X_public) - 1) // PUBLIC_ROWS]

    def asked(verb: Verb) -> NDArray[Any] | None:
        return fitted.outcome(rows, verb) if callable(getattr(fitted.estimator, verb, None)) else None

    cells = score.cells(type(fitted.estimator).__name__, asked)
    return replace(fitted, cells=cells), cells


def table_of_estimator(
    model: FittedEstimator,
    X: NDArray[np.float64],
    labels: NDArray[np.int64],
    score: PairScore,
    usable: NDArray[np.bool_] | None = None,
) -> Integers:
    """Records of each class in each cell, (2, B). A row without a prediction is in the lowest cell of its class.

    Args:
        model: with its cells.
        X: (m, d) rows.
        labels: (m,) index of the class; anything but 0 and 1 is in neither.
        score: whose cells they are.
        usable: (m,) False for what is in neither class; all are where None.
    """
    if model.cells is None:
        raise TypeError("a model without cells ranks nothing")
    found = np.rint(model.scores(X, labels, model.cells)).astype(np.int64) - 1
    known = np.ones(len(labels), dtype=bool) if usable is None else usable
    return counts(labels, known, np.clip(found, 0, score.n_cells - 1), score.n_cells)
