"""The area under the ROC curve: the share of pairs in which the record of the second class has the larger value.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s | `values` | decision_function, else the probability of the second class | (k,) |
| c, q | `centre`, `scale` | median and interquartile range of s among PUBLIC rows | scalars |
| ψ | `_squashed` | ±(1 − 1/(1 + |t|)), from −1 to 1 | (k,) |
| F | — | ½ψ((s − c)/q) + ½ψ(s), or with log-odds for s in the second term of a probability | (k,) |
| B | `N_CELLS` | 2¹⁶ cells of equal width in F | scalar |

F is a sum of maps whose every step is nondecreasing in double precision too, so it reverses no two values.
The first term tells values apart on the model's own scale, however narrow that is; the second wherever they are,
since a model may be much surer of the rows that it was fitted to than of others. Ties count one half.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.kinds import Asked, Declared, Integers, PairScore, RecordScore, Scores, Verb

N_CELLS = 2**16
MAX_DECISION_VALUE = 1e300  # of a decision value: beyond it every number is as large


def _squashed(t: Scores) -> Scores:
    """Return numbers mapped to (−1, 1) by a function that never decreases, rounding included."""
    return np.copysign(1.0 - 1.0 / (1.0 + np.abs(t)), t)


def _cell(share: Scores) -> Integers:
    """Return the histogram cell of each number in [−1, 1], of equal widths; NaN is in the lowest."""
    places = np.floor((np.nan_to_num(share, nan=-1.0) + 1.0) * (N_CELLS / 2))
    return np.clip(places, 0, N_CELLS - 1).astype(np.int64)


@dataclass(frozen=True)
class Decisions(RecordScore):
    """The cells of one estimator's decision values."""

    verb: Verb  # which of its outcomes they are
    centre: float  # median of public values
    scale: float  # their interquartile range; 1 where that is 0

    @property
    def needs(self) -> Verb:
        """The estimator method needed: `decision_function`, or `predict_proba` where the estimator has none."""
        return self.verb

    @property
    def score_range(self) -> float:
        """The number B of histogram cells, since a record's cell takes the place of its score."""
        return float(N_CELLS)

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:  # noqa: ARG002  a rank needs no label
        """Return each record's histogram cell, (k,), by its decision value, plus 1; the lowest where not finite."""
        with np.errstate(all="ignore"):
            values = _values(outcome)
            own = _squashed(np.clip((values - self.centre) / self.scale, -MAX_DECISION_VALUE, MAX_DECISION_VALUE))
            wide = values if self.verb == "decision_function" else np.log(values) - np.log1p(-values)
            cells = _cell(0.5 * own + 0.5 * _squashed(np.clip(wide, -MAX_DECISION_VALUE, MAX_DECISION_VALUE)))
        return 1.0 + np.where(np.isfinite(values), cells, 0)


def _values(outcome: NDArray[Any]) -> Scores:
    """Return the values to rank by, (k,): decision values, or the last class's of probabilities (k, C)."""
    if outcome.ndim == 2:
        outcome = outcome[:, -1] if outcome.shape[1] else np.full(len(outcome), np.nan)
    return np.asarray(outcome, dtype=np.float64)


@dataclass(frozen=True)
class RocAuc(PairScore):
    """AUC by the count of pairs."""

    needs: ClassVar[Verb] = "decision_function"  # decision values, where there are such
    n_cells: ClassVar[int] = N_CELLS  # B: as many as values can be told apart by

    def cells(self, name: str, asked: Asked) -> Decisions:
        """Return the map from decision values to 1 + a histogram cell, by the scale of public ones."""
        for verb in ("decision_function", "predict_proba"):
            outcome = asked(verb)
            if outcome is None or (outcome.ndim == 2 and outcome.shape[1] != 2):
                continue
            values = _values(outcome)
            finite = np.clip(values[np.isfinite(values)], -MAX_DECISION_VALUE, MAX_DECISION_VALUE)
            low, centre, high = np.quantile(finite, [0.25, 0.5, 0.75]) if len(finite) else (0.0, 0.0, 0.0)
            scale = float(high - low)
            return Decisions(verb, float(centre), scale if 0.0 < scale < MAX_DECISION_VALUE else 1.0)
        raise StudyInvalid(
            f"{name} gives neither decision values nor probabilities, so that nothing ranks the records",
            cause="it names a class alone, or fails on the public rows",
            remedy="name an estimator with decision_function (SVC has it) or predict_proba, or another score",
        )

    def of_margins(self, decisions: Scores, norm: float) -> Integers:
        """The histogram cell of each decision value ŵᵀx, (k,), of equal widths from −‖w‖ to ‖w‖; 0 for NaN."""
        with np.errstate(all="ignore"):
            share = decisions / norm if norm > 0.0 else np.zeros(len(decisions))
            return np.where(np.isfinite(share), _cell(np.clip(share, -1.0, 1.0)), 0)


ROC_AUC = Declared(
    "roc_auc",
    earns="its pairs with the other class that are ranked right, ties half (two classes; methods that count pairs)",
    between="0 and 1 for the whole table",
    of_pairs=lambda _: RocAuc(),
    called="an AUC",
)
