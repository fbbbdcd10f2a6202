"""Training our linear models on the public set: every λ to a certificate, each cross-validation fold from w = 0."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.linear.fast_exact_scores import SignedRows, StoredRows
from dpbo_core.models.linear.fit import LinearModel, minimise, train
from dpbo_core.models.linear.newton import MAX_ANCHOR_FEATURES, LogisticPath, Start
from dpbo_core.models.scores.grid import to_grid
from dpbo_core.models.scores.pairs import PAIR_SCORE_REFUSAL, PairScore, auc_of, counts
from dpbo_core.models.scores.union import OF_CLASSES, MarginScore


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
        return (
            LogisticPath(self._signed_rows)
            if self.loss == "logistic" and self.X.shape[1] <= MAX_ANCHOR_FEATURES
            else None
        )

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

        folds, tables = (
            fold_of(self.signs.astype(np.int64), seed=seed),
            [np.zeros((2, score.n_cells), dtype=np.int64)],
        )
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
