"""A candidate whose predictions were made elsewhere, as a model: its predictions are columns of the records' table.

| symbol | name here | meaning | shape |
|---|---|---|---|
| X | `rows` | predictions of all candidates, NaN if there is none | (m, d) |
| — | `columns` | those of one candidate: one, or of more than two classes one a class | indices into d |

A record's score under a candidate is a function of that record's cells in the candidate's columns and its truth: a
cell that cannot be used costs this candidate this record's score, and no other.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.baseline import constant_score
from dpbo_core.models.estimator_trainer import with_cells
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.integer_sums import GRID, to_grid
from dpbo_core.models.scores.kinds import PAIR_SCORE_REFUSAL, PairScore, RecordScore, auc_of


@dataclass(frozen=True)
class PredictedColumns:
    """An estimator's methods that return a row's own cells as predictions; rows are finite in these columns."""

    columns: tuple[int, ...]  # of one candidate
    regression: bool  # whether they are numbers

    def predict(self, rows: NDArray[np.float64]) -> NDArray[Any]:
        """Return the candidate's predictions, (k,), from its columns of a table: class indices, or numbers."""
        values = rows[:, self.columns[0]]
        return values if self.regression else values.astype(np.int64)

    def predict_proba(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the candidate's probabilities, (k, C), from its columns; a single one is of the second class."""
        if len(self.columns) > 1:
            return rows[:, list(self.columns)]
        second = np.clip(rows[:, self.columns[0]], 0.0, 1.0)
        return np.column_stack([1.0 - second, second])

    def decision_function(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the candidate's decision values, (k,), from its column of a table."""
        return rows[:, self.columns[0]]


@dataclass(frozen=True, eq=False, repr=False)
class Predicted(FittedEstimator):
    """One candidate. Its `estimator` is a `PredictedColumns`."""

    def prepares_like(self, other: FittedEstimator) -> bool:  # noqa: ARG002  each has columns of its own
        """Return False: rows prepared for one candidate cannot be used for another, which has other columns."""
        return False

    def batch_scores(
        self, rows: NDArray[np.float64], truth: NDArray[Any], score: RecordScore
    ) -> NDArray[np.float64]:
        """Return the candidate's score of each record, (k,): 0 if one of its cells is unusable."""
        sound = np.isfinite(rows[:, list(self.estimator.columns)]).all(axis=1)
        outcome = self.outcome(np.where(np.isfinite(rows), rows, 0.0), score.needs)
        if outcome is None:
            raise TypeError("a table of predictions has an answer for every verb")
        with np.errstate(all="ignore"):
            return np.where(sound, score.of(outcome, truth), 0.0)


@dataclass(eq=False)
class PredictionsTrainer:
    """Candidates by name. Where there is a table of PUBLIC records too, it says what each scores there."""

    columns: Mapping[str, tuple[int, ...]]  # of each candidate
    width: int  # d
    score: RecordScore | PairScore  # what is scored
    regression: bool  # whether numbers were predicted
    X: NDArray[np.float64] = field(repr=False)  # (n, d) public predictions; n = 0 if there are none
    truth: NDArray[Any] = field(repr=False)  # (n,) class indices or targets

    @property
    def n_records(self) -> int:
        """The number n of public records."""
        return len(self.X)

    def train(self, point: Mapping[str, Any]) -> Predicted:
        """Return the candidate that `point` names, whose predictions are columns of a table; nothing is trained."""
        (name,) = point.values()
        model = Predicted(PredictedColumns(self.columns[name], self.regression), np.zeros(self.width))
        if isinstance(self.score, PairScore):
            rows = self.X if self.n_records else np.zeros((1, self.width))
            cells = with_cells(model, self.score, np.where(np.isfinite(rows), rows, 0.0))[1]
            return Predicted(model.estimator, model.stand_in, cells=cells)
        return model

    def public_score(self, point: Mapping[str, Any], *, seed: int) -> float:
        """Return the candidate's mean score, or AUC, on public records; refused without such; `seed` is unused."""
        if isinstance(self.score, PairScore):
            self._require_public_records()
            return auc_of(self.train(point).table(self.X, self.truth, self.score))
        steps = self.public_steps(point, seed=seed)
        return int(steps.sum()) * self.score.score_range / (GRID * len(steps))

    def public_steps(self, point: Mapping[str, Any], *, seed: int) -> NDArray[np.int64]:  # noqa: ARG002  no folds
        """Return each public record's score from 0 to 2²⁴, (n,); refused if there are none; `seed` is unused."""
        if isinstance(self.score, PairScore):
            raise TypeError(PAIR_SCORE_REFUSAL)
        self._require_public_records()
        return to_grid(
            self.train(point).scores(self.X, self.truth, self.score), self.score.score_range, broken_score=0.0
        )

    def baseline(self, n_classes: int) -> float | None:
        """The best constant prediction's mean score on public records; None without these or for a user's score."""
        if not self.n_records:
            return None
        return constant_score(self.score, self.truth, np.ones(self.n_records), n_classes=n_classes)

    def _require_public_records(self) -> None:
        if not self.n_records:
            raise StudyInvalid(
                "there are no public predictions, and this asks what each candidate scores in public",
                cause="the study names a sensitive table of predictions alone",
                remedy="give data.public, the same columns on public records",
            )
