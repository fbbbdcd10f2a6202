"""Any scikit-learn classifier: trained cold on the public rows, scored as correct or not, row by row.

| symbol | name here | meaning | shape |
|---|---|---|---|
| X, y | `X`, `y` | public training rows and classes | (n, d), (n,) |
| V | `X`, `labels` of `correct` | sensitive rows and their classes | (m, d), (m,) |
| g | result of `correct` | whether the prediction equals the label | (m,) bool |
| x₀ | `stand_in` | a public training row, put in the place of a row that cannot be predicted | (d,) |

A prediction that looks at the other rows of its batch would give one record a hand on every score, so
`check_rowwise` refuses it. A broken row is replaced by x₀ in place: the others are predicted in a batch of the same
shape, at the same position, whatever it was.
"""

import difflib
import inspect
import io
import logging
import math
import warnings
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.import_path import estimator_class

_BLOCK_ROWS = 1024
_ROWS_TRIED = 64


@dataclass(frozen=True)
class EstimatorFactory:
    """An estimator class by import path, its fixed parameters, and the search seed for its `random_state`s."""

    import_path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    @cached_property
    def _class(self) -> type[Any]:
        return estimator_class(self.import_path)

    def build(self, /, **hyperparameters: Any) -> Any:
        """An unfitted estimator: `params`, then `hyperparameters`, then the seed in every `random_state` left free.

        Raises:
            StudyInvalid: the path, a parameter's name (with the nearest valid one) or its value, or no classifier.
        """
        from sklearn.base import clone

        kind, wanted = self._class, {**self.params, **hyperparameters}
        try:
            signature = inspect.signature(kind).parameters
            open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.values())
            first = {name for name in wanted if name in signature or (open_ended and "__" not in name)}
            estimator = clone(kind(**{name: wanted[name] for name in first}))
            self._check_names(list(wanted), list(estimator.get_params(deep=True)))
            estimator.set_params(**{name: value for name, value in wanted.items() if name not in first})
            free = [name for name in estimator.get_params(deep=True) if wanted.get(name) is None and _is_seed(name)]
            estimator.set_params(**dict.fromkeys(free, self.seed))
        except StudyInvalid:
            raise
        except Exception as error:  # noqa: BLE001  third-party constructors raise what they like
            raise self._letter("could not be built", error) from None
        if _predicts_no_class(estimator):
            raise StudyInvalid(
                f"{self.import_path} is not a classifier",
                cause="a record's score is whether its class is predicted",
                remedy="name a classifier",
            )
        return estimator

    def train(self, X: ArrayLike, y: ArrayLike, /, **hyperparameters: Any) -> "FittedEstimator":
        """Fit a new estimator (a cold start) on the public rows X (n, d) and classes y (n,).

        Raises:
            StudyInvalid: anything `build` refuses, rows that are not a numeric table, or a failing fit.
        """
        estimator = self.build(**hyperparameters)
        try:
            rows = np.array(X, dtype=np.float64)
            stand_in = rows[0].copy()
            estimator.fit(rows, np.asarray(y))
        except Exception as error:  # noqa: BLE001  as above; the rows are public, so its message may be shown
            raise self._letter("could not be trained", error) from None
        return FittedEstimator(estimator, stand_in)

    def _check_names(self, names: list[str], valid: list[str]) -> None:
        for name in names:
            if name not in valid:
                by_case = {other.lower(): other for other in valid}
                near = difflib.get_close_matches(name.lower(), by_case, n=1, cutoff=0.0)
                raise StudyInvalid(
                    f"{self.import_path} has no parameter {name!r}",
                    cause="a misspelt name in [space] or [model]",
                    remedy=f"the nearest valid name is {by_case[near[0]]!r}" if near else "it takes no parameters",
                )

    def _letter(self, what: str, error: Exception) -> StudyInvalid:
        said = (str(error).strip().splitlines() or [""])[0][:200]
        return StudyInvalid(
            f"{self.import_path} {what} with these hyperparameters",
            cause=f"{type(error).__name__}: {said}",
            remedy="correct [model] or the ends of [space]",
        )


@dataclass(frozen=True, eq=False, repr=False)
class FittedEstimator:
    """A fitted estimator and one public row. Its repr is constant."""

    estimator: Any
    stand_in: NDArray[np.float64]

    def __repr__(self) -> str:
        return f"FittedEstimator(d={len(self.stand_in)})"

    def check_rowwise(self, X_public: ArrayLike) -> None:
        """Predict up to 64 public rows as a batch, in reverse and one at a time; all three must agree.

        A test on public rows, not a proof: it finds batch statistics and draws at prediction, the usual ways.

        Raises:
            StudyInvalid: they disagree, or a public row cannot be predicted.
        """
        rows = np.asarray(X_public, dtype=np.float64)[:_ROWS_TRIED]
        together = self._predict(rows)
        reverse = self._predict(rows[::-1])
        alone = [self._predict(rows[i : i + 1]) for i in range(len(rows))]
        if together is None or reverse is None or any(one is None for one in alone):
            raise StudyInvalid(
                "the estimator cannot predict the public rows one at a time",
                remedy="name an estimator whose predict takes any number of rows and gives one class for each",
            )
        singles = np.concatenate([one for one in alone if one is not None]) if alone else together
        if not (_equal(together, reverse[::-1]).all() and _equal(together, singles).all()):
            raise StudyInvalid(
                "the estimator's prediction of a row depends on the other rows of the batch",
                cause="it uses statistics of the batch, or draws at random when it predicts",
                remedy="name an estimator that predicts each row by itself",
            )

    def correct(self, X: ArrayLike, labels: ArrayLike) -> NDArray[np.bool_]:
        """Whether each row's predicted class equals its label. Never raises or warns whatever the rows hold.

        A row that is not finite in single precision (trees cast to it), or that predict cannot take, is incorrect.

        Args:
            X: (m, d) rows.
            labels: (m,) classes as in training; an unknown one is never predicted, so it is incorrect.

        Returns:
            (m,) bool. Element i is a function of row i, label i and m alone.

        Raises:
            StudyInvalid: another number of columns than in training, or of labels than rows; both are public.
        """
        d, truth = len(self.stand_in), np.asarray(labels)
        rows = _numeric(X, d)
        if rows.ndim != 2 or rows.shape[1] != d or truth.shape != (len(rows),):
            raise StudyInvalid(
                f"rows of shape {rows.shape} with labels of shape {truth.shape} for an estimator of {d} features",
                cause="the validation table has other columns than the training table",
                remedy="give both tables the same features",
            )
        result: NDArray[np.bool_] = np.zeros(len(rows), dtype=bool)
        for start in range(0, len(rows), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            result[block] = self._block_correct(rows[block], truth[block])
        return result

    def _block_correct(self, rows: NDArray[np.float64], truth: NDArray[Any]) -> NDArray[np.bool_]:
        with np.errstate(all="ignore"):
            sound = np.asarray(np.isfinite(rows.astype(np.float32)).all(axis=1), dtype=bool)
        predicted = self._predict(np.where(sound[:, None], rows, self.stand_in))
        if predicted is None:
            for i in np.flatnonzero(sound):
                sound[i] = self._predict(rows[i : i + 1]) is not None
            predicted = self._predict(np.where(sound[:, None], rows, self.stand_in))
        if predicted is not None:
            return sound & _equal(predicted, truth)
        result: NDArray[np.bool_] = np.zeros(len(rows), dtype=bool)
        for i in np.flatnonzero(sound):
            one = self._predict(rows[i : i + 1])
            result[i] = one is not None and _equal(one, truth[i : i + 1]).all()
        return result

    def _predict(self, rows: NDArray[np.float64]) -> NDArray[Any] | None:
        """(k,) classes, or None where predict fails. What it prints, logs or warns may quote a record: dropped.

        It stays in this process: joblib's workers would be handed the rows through shared memory.
        """
        from joblib import parallel_config

        silent, logged = io.StringIO(), logging.root.manager.disable
        try:
            logging.disable(logging.CRITICAL)
            with warnings.catch_warnings(), redirect_stdout(silent), redirect_stderr(silent):
                warnings.simplefilter("ignore")
                with np.errstate(all="ignore"), parallel_config(backend="sequential"):
                    predicted = np.asarray(self.estimator.predict(np.ascontiguousarray(rows)))
        except (Exception, SystemExit):  # noqa: BLE001  whatever it raised may quote a record
            return None
        finally:
            logging.disable(logged)
        return predicted.reshape(-1) if predicted.size == math.prod(predicted.shape[:1]) == len(rows) else None


def _numeric(X: ArrayLike, d: int) -> NDArray[np.float64]:
    """X as float64; a row that is no d numbers becomes NaN."""
    try:
        return np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        table = np.asarray(X, dtype=object)
        rows = np.full((len(table), d), np.nan)
        for i, row in enumerate(table):
            try:
                cells = np.asarray(row, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                continue
            if cells.shape == (d,):
                rows[i] = cells
        return rows


def _equal(predicted: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Elementwise equality, (k,) bool, for any two types."""
    if predicted.dtype.kind in "biuf" and labels.dtype.kind in "biuf":
        return np.asarray(predicted == labels)
    return np.array([_same(a, b) for a, b in zip(predicted.tolist(), labels.tolist(), strict=True)], dtype=bool)


def _same(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except Exception:  # noqa: BLE001  a label may be anything, pandas.NA say, whose equality has no truth value
        return False


def _predicts_no_class(estimator: Any) -> bool:
    from sklearn.base import is_clusterer, is_outlier_detector, is_regressor

    try:
        return bool(is_regressor(estimator) or is_clusterer(estimator) or is_outlier_detector(estimator))
    except Exception:  # noqa: BLE001  a class that does not say what it is, is believed
        return False


def _is_seed(name: str) -> bool:
    return name.rpartition("__")[2] == "random_state"
