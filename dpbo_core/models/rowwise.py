"""The test, on public rows, that an estimator predicts each row from that row alone.

It is a test, not a proof. It finds statistics computed over the batch, random draws at prediction, and iterations
whose number depends on the largest row: ways in which one record could change the scores of the others.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.data.named_columns import extreme_cells
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.isolated_estimator import contained
from dpbo_core.models.scores.kinds import Verb, equal

N_ROWS_TRIED = 64
N_ROWS_OF_SIMILAR_MODEL = 8  # alone, of a model whose like was tried
_N_FRAMES_TRIED = 8  # data frames of one row: each takes hundreds of times as long as a row of numbers
_N_GROUPED_ROWS = 7  # rows that go together where not all are tried alone


@contained()
def check_rowwise(
    model: FittedEstimator, X_public: ArrayLike, *, needs: Verb = "predict", rows_alone: int = N_ROWS_TRIED
) -> NDArray[Any]:
    """Refuse a model whose predictions of public rows depend on the other rows of a batch or on their order.

    Numbers may differ in their last digits where the SHAPE of the batch differs (linear algebra then adds in
    another order), never where the other rows of a batch of one shape do. The first 64 rows are tried, `rows_alone`
    alone and the others in groups of seven: `N_ROWS_OF_SIMILAR_MODEL` are enough if another model of this trainer
    passed with all rows alone. Returns their outcome, (k,) or (k, C), for further checks.
    """
    rows = np.asarray(X_public, dtype=np.float64 if model.columns is None else object)[:N_ROWS_TRIED]
    together = model.outcome(rows, needs)
    reverse = model.outcome(rows[::-1], needs)
    n_apart = len(rows) if model.columns is None else min(len(rows), _N_FRAMES_TRIED)
    n_alone = min(n_apart, rows_alone)
    pieces = [slice(i, i + 1) for i in range(n_alone)] + [
        slice(i, i + _N_GROUPED_ROWS) for i in range(n_alone, n_apart, _N_GROUPED_ROWS)
    ]
    apart = [model.outcome(rows[piece], needs) for piece in pieces]
    rows_shown = np.arange(len(rows))[:, None] % 2 == 1
    # every second row is replaced: the rows that are kept must be predicted exactly as before
    beside = model.outcome(np.where(rows_shown, rows, model.stand_in), needs)
    if together is None or reverse is None or beside is None or any(one is None for one in apart):
        raise StudyInvalid(
            f"the estimator cannot {needs} the public rows one at a time",
            cause="" if needs == "predict" else "the score needs probabilities, which it does not give",
            remedy=f"name an estimator whose {needs} takes any number of rows and gives one outcome for each",
        )
    outcome_apart = np.concatenate([one for one in apart if one is not None]) if apart else together
    close = partial(np.isclose, rtol=1e-6, atol=1e-9, equal_nan=True)  # but for the last digits
    near = close if together.dtype.kind == "f" else equal
    agree = near(together, reverse[::-1]).all() and near(together[: len(outcome_apart)], outcome_apart).all()
    if not (agree and equal(together[1::2], beside[1::2]).all()):
        raise StudyInvalid(
            "the estimator's prediction of a row depends on the other rows of the batch",
            cause="it uses statistics of the batch, or draws at random when it predicts",
            remedy="name an estimator that predicts each row by itself",
        )
    extremes = _extremes(rows) if model.columns is None else extreme_cells(model.columns, rows)
    _check_beside_extremes(model, rows, rows_shown, needs, extremes)
    return together


def _extremes(rows: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    d = rows.shape[1]
    axis = np.eye(d)[np.arange(len(rows)) % d]
    return [1e8 * axis, 1e20 * axis, 1e6 * np.abs(rows).max(axis=0, initial=1.0) * np.ones_like(rows)]


def _check_beside_extremes(
    model: FittedEstimator,
    rows: NDArray[Any],
    rows_shown: NDArray[np.bool_],
    needs: Verb,
    extremes: Sequence[NDArray[Any]],
) -> None:
    verbs: set[Verb] = {needs, "predict_proba"} if hasattr(model.estimator, "predict_proba") else {needs}
    for verb in sorted(verbs):
        calm = model.outcome(np.where(rows_shown, rows, model.stand_in), verb)
        for far in extremes:
            loud = model.outcome(np.where(rows_shown, rows, far), verb)
            if calm is None or loud is None:  # a row that cannot be predicted is put aside when it is scored
                continue
            if not _same_rows(calm[1::2], loud[1::2]):
                raise StudyInvalid(
                    "the estimator's prediction of a row depends on how large the other rows of the batch are",
                    cause="it iterates over all rows together, as NMF does",
                    remedy="name an estimator that predicts each row by itself",
                )


def _same_rows(a: NDArray[Any], b: NDArray[Any]) -> bool:
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        return bool(np.array_equal(a, b, equal_nan=True))
    return bool(equal(a.ravel(), b.ravel()).all())
