"""The sensitive half: exact integer sums of bounded per-record scores.

| symbol | name here | meaning | shape |
|---|---|---|---|
| V | `records` | the validation records, preprocessed row by row | X (m, d), labels (m,), broken (m,) |
| g | `score` | one record's score in [0, G] | — |
| 2²⁴·m·f_V(λ)/G | `evaluate(model)` | the sum of the scores, each rounded to a multiple of 2⁻²⁴·G first | integer |

Every conceivable record has a score: a broken one is replaced by (x = 0, y = +1) under a margin score, so it scores
φ(0), and scores 0 under any other. A record's score depends on the model and that record alone, so at a fixed model
replacing one record moves the sum by at most 2²⁴ steps, and the order of summation cannot matter.
"""

from typing import Protocol

import numpy as np

from dpbo_core.data import Encoded
from dpbo_core.models.linear import LinearModel
from dpbo_core.models.record_scores import RecordScore
from dpbo_core.models.scores import MarginScore, to_grid
from dpbo_core.models.trainer import Model
from dpbo_core.privacy.sensitive import Opaque, Sensitive


class Scorer(Protocol):
    """What a method sees of the sensitive half."""

    def evaluate(self, model: Model) -> Sensitive[int]:
        """The exact integer sum of the records' scores under `model`."""
        ...


class Objective(Opaque):
    """The validation set with its score, sealed."""

    __slots__ = ("_records", "_score")

    def __init__(self, records: Sensitive[Encoded], score: MarginScore | RecordScore) -> None:
        self._records, self._score = records, score

    def evaluate(self, model: Model) -> Sensitive[int]:
        """Σ_i round(2²⁴ g(w; x_i, y_i)/G), exactly; never raises on account of a record."""
        records = self._records.expose()
        score = self._score
        if isinstance(model, LinearModel):
            assert isinstance(score, MarginScore)  # noqa: S101  a study of a linear model has no other
            scores, broken = score.phi(model.margins(records.X, records.signs)), score.broken_score
        else:
            assert not isinstance(score, MarginScore)  # noqa: S101  nor one of an estimator a margin
            usable = ~records.broken & (records.labels >= 0)
            scores, broken = np.where(usable, model.scores(records.X, records.truth, score), 0.0), 0.0
        steps = to_grid(scores, score.score_range, broken_score=broken)
        return Sensitive(int(steps.sum(dtype=np.int64)))
