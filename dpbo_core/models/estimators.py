"""Any scikit-learn estimator: trained cold on the public rows, scored row by row.

| symbol | name here | meaning | shape |
|---|---|---|---|
| X, y | `X`, `y` | public training rows and their classes or targets | (n, d), (n,) |
| V | `X`, `truth` of `scores` | sensitive rows and their classes or targets | (m, d), (m,) |
| g | result of `scores` | one record's score | (m,) |
| x₀ | `stand_in` | a public training row, put in the place of a row that cannot be predicted | (d,) |

A prediction that looks at the other rows of its batch would give one record a hand on every score, so
`check_rowwise` refuses it. A broken row is replaced by x₀ in place: the others are predicted in a batch of the same
shape, at the same position, whatever it was.
"""

import difflib
import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.containment import contained
from dpbo_core.models.import_path import estimator_class
from dpbo_core.models.record_scores import Correct, RecordScore, Verb, equal

_BLOCK_ROWS = 1024
_ROWS_TRIED = 64


@dataclass(frozen=True)
class EstimatorFactory:
    """An estimator class by import path, its fixed parameters, and the search seed for its `random_state`s."""

    import_path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    regression: bool = False

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
            check_names(list(wanted), list(estimator.get_params(deep=True)), shown_as=self.import_path)
            estimator.set_params(**{name: value for name, value in wanted.items() if name not in first})
            seeded(estimator, self.seed)
        except StudyInvalid:
            raise
        except Exception as error:  # noqa: BLE001  third-party constructors raise what they like
            raise _letter(self.import_path, "could not be built", error) from None
        check_task(estimator, self.import_path, regression=self.regression)
        return estimator

    def train(self, X: ArrayLike, y: ArrayLike, /, **hyperparameters: Any) -> "FittedEstimator":
        """Fit a new estimator (a cold start) on the public rows X (n, d) and classes or targets y (n,).

        Raises:
            StudyInvalid: anything `build` refuses, rows that are not a numeric table, or a failing fit.
        """
        return fitted(self.build(**hyperparameters), X, y, shown_as=self.import_path)


def check_names(names: list[str], valid: list[str], *, shown_as: str) -> None:
    """Every hyperparameter is a parameter of the estimator.

    Raises:
        StudyInvalid: one is not; names the nearest.
    """
    for name in names:
        if name not in valid:
            by_case = {other.lower(): other for other in valid}
            near = difflib.get_close_matches(name.lower(), by_case, n=1, cutoff=0.0)
            raise StudyInvalid(
                f"{shown_as} has no parameter {name!r}",
                cause="a misspelt name in [space] or [model]",
                remedy=f"the nearest valid name is {by_case[near[0]]!r}" if near else "it takes no parameters",
            )


def seeded(estimator: Any, seed: int) -> Any:
    """The estimator with `seed` in every `random_state` left free."""
    parameters = estimator.get_params(deep=True)
    free = [name for name, value in parameters.items() if _is_seed(name) and value is None]
    return estimator.set_params(**dict.fromkeys(free, seed)) if free else estimator


def fitted(estimator: Any, X: ArrayLike, y: ArrayLike, *, shown_as: str) -> "FittedEstimator":
    """`estimator` (unfitted, and ours to fit) trained on public rows.

    Raises:
        StudyInvalid: rows that are not a numeric table, or a failing fit.
    """
    try:
        rows = np.array(X, dtype=np.float64)
        stand_in = rows[0].copy()
        estimator.fit(rows, np.asarray(y))
    except Exception as error:  # noqa: BLE001  anything may come; the rows are public, so its message may be shown
        raise _letter(shown_as, "could not be trained", error) from None
    return FittedEstimator(estimator, stand_in)


def equal_rows(a: NDArray[Any], b: NDArray[Any]) -> bool:
    """Whether two outcomes are the same to the last bit, NaN being itself."""
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        return bool(np.array_equal(a, b, equal_nan=True))
    return bool(equal(a.ravel(), b.ravel()).all())


def check_task(estimator: Any, shown_as: str, *, regression: bool) -> None:
    """A regression has a regressor and a classification has none.

    Raises:
        StudyInvalid: it is otherwise.
    """
    from sklearn.base import is_clusterer, is_outlier_detector, is_regressor

    kinds = (is_regressor,) if regression else (is_regressor, is_clusterer, is_outlier_detector)
    if any(_says(kind, estimator) for kind in kinds) is not regression:
        wanted = "regressor" if regression else "classifier"
        raise StudyInvalid(
            f"{shown_as} is not a {wanted}",
            cause=f"the score compares {'numbers' if regression else 'classes'}",
            remedy=f'name a {wanted}, or another score ("absolute_error" for numbers, "accuracy" for classes)',
        )


def _says(kind: Any, estimator: Any) -> bool:
    try:
        return bool(kind(estimator))
    except Exception:  # noqa: BLE001  a class that does not say what it is, is believed to be a classifier
        return False


def _letter(import_path: str, what: str, error: Exception) -> StudyInvalid:
    said = (str(error).strip().splitlines() or [""])[0][:200]
    return StudyInvalid(
        f"{import_path} {what} with these hyperparameters",
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

    def check_rowwise(self, X_public: ArrayLike, *, needs: Verb = "predict") -> NDArray[Any]:
        """Predict up to 64 public rows as a batch, in reverse, one at a time and beside other rows; all must agree.

        A test on public rows, not a proof: it finds batch statistics and draws at prediction, the usual ways.
        Numbers may differ in their last digits where the SHAPE of the batch differs (linear algebra then adds in
        another order), never where the other rows of a batch of one shape do.

        Returns:
            The public rows' outcome, (k,) or (k, C), for further checks.

        Raises:
            StudyInvalid: they disagree, or a public row cannot be predicted.
        """
        rows = np.asarray(X_public, dtype=np.float64)[:_ROWS_TRIED]
        together = self._outcome(rows, needs)
        reverse = self._outcome(rows[::-1], needs)
        alone = [self._outcome(rows[i : i + 1], needs) for i in range(len(rows))]
        kept = np.arange(len(rows))[:, None] % 2 == 1
        beside = self._outcome(np.where(kept, rows, self.stand_in), needs)
        if together is None or reverse is None or beside is None or any(one is None for one in alone):
            raise StudyInvalid(
                f"the estimator cannot {needs} the public rows one at a time",
                cause="" if needs == "predict" else "the score needs probabilities, which it does not give",
                remedy=f"name an estimator whose {needs} takes any number of rows and gives one outcome for each",
            )
        singles = np.concatenate([one for one in alone if one is not None]) if alone else together
        near = _near if together.dtype.kind == "f" else equal
        agree = near(together, reverse[::-1]).all() and near(together, singles).all()
        if not (agree and equal(together[1::2], beside[1::2]).all()):
            raise StudyInvalid(
                "the estimator's prediction of a row depends on the other rows of the batch",
                cause="it uses statistics of the batch, or draws at random when it predicts",
                remedy="name an estimator that predicts each row by itself",
            )
        self._check_beside_extremes(rows, kept, needs)
        return together

    def _check_beside_extremes(self, rows: NDArray[np.float64], kept: NDArray[np.bool_], needs: Verb) -> None:
        """The same beside rows no public table has: what iterates over a batch may stop where the largest row says.

        Raises:
            StudyInvalid: a row's class, number or probabilities depend on them.
        """
        d = rows.shape[1]
        axis = np.eye(d)[np.arange(len(rows)) % d]
        verbs: set[Verb] = {needs, "predict_proba"} if hasattr(self.estimator, "predict_proba") else {needs}
        for verb in sorted(verbs):
            calm = self._outcome(np.where(kept, rows, self.stand_in), verb)
            for far in (1e8 * axis, 1e20 * axis, 1e6 * np.abs(rows).max(axis=0, initial=1.0) * np.ones_like(rows)):
                loud = self._outcome(np.where(kept, rows, far), verb)
                if calm is None or loud is None:  # a row that cannot be predicted is put aside when it is scored
                    continue
                if not equal_rows(calm[1::2], loud[1::2]):
                    raise StudyInvalid(
                        "the estimator's prediction of a row depends on how large the other rows of the batch are",
                        cause="it iterates over all rows together, as NMF does",
                        remedy="name an estimator that predicts each row by itself",
                    )

    def scores(self, X: ArrayLike, truth: ArrayLike, score: RecordScore) -> NDArray[np.float64]:
        """Each record's score. Never raises or warns whatever the rows hold.

        A row that is not finite in single precision (trees cast to it), or that cannot be predicted, scores 0.

        Args:
            X: (m, d) rows.
            truth: (m,) class indices as in training, or targets.
            score: what is scored.

        Returns:
            (m,) float64, not yet clipped. Element i is a function of row i, truth i and m alone.

        Raises:
            StudyInvalid: another number of columns than in training, or of labels than rows; both are public.
        """
        d, y = len(self.stand_in), np.asarray(truth)
        rows = _numeric(X, d)
        if rows.ndim != 2 or rows.shape[1] != d or y.shape != (len(rows),):
            raise StudyInvalid(
                f"rows of shape {rows.shape} with labels of shape {y.shape} for an estimator of {d} features",
                cause="the validation table has other columns than the training table",
                remedy="give both tables the same features",
            )
        result = np.zeros(len(rows))
        for start in range(0, len(rows), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            result[block] = self._block_scores(rows[block], y[block], score)
        return result

    def correct(self, X: ArrayLike, labels: ArrayLike) -> NDArray[np.bool_]:
        """Whether each row's predicted class equals its label, (m,); `scores` under accuracy."""
        return self.scores(X, labels, Correct()) > 0.0

    def _block_scores(
        self, rows: NDArray[np.float64], truth: NDArray[Any], score: RecordScore
    ) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            sound = np.asarray(np.isfinite(rows.astype(np.float32)).all(axis=1), dtype=bool)
        outcome = self._outcome(np.where(sound[:, None], rows, self.stand_in), score.needs)
        if outcome is None:
            for i in np.flatnonzero(sound):
                sound[i] = self._outcome(rows[i : i + 1], score.needs) is not None
            outcome = self._outcome(np.where(sound[:, None], rows, self.stand_in), score.needs)
        if outcome is not None:
            return np.where(sound, score.of(outcome, truth), 0.0)
        result = np.zeros(len(rows))
        for i in np.flatnonzero(sound):
            one = self._outcome(rows[i : i + 1], score.needs)
            if one is not None:
                result[i] = score.of(one, truth[i : i + 1])[0]
        return result

    def _outcome(self, rows: NDArray[np.float64], verb: Verb) -> NDArray[Any] | None:
        """(k,) classes or numbers, or (k, C) probabilities; None where the estimator fails. It is contained."""
        try:
            with contained():
                found = np.asarray(getattr(self.estimator, verb)(np.ascontiguousarray(rows)))
                found = found if verb == "predict" else found.astype(np.float64)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None
        except BaseException:  # noqa: BLE001  whatever it raised may quote a record
            return None
        if verb == "predict_proba":
            return found if found.ndim == 2 and len(found) == len(rows) else None
        return found.reshape(-1) if found.size == math.prod(found.shape[:1]) == len(rows) else None


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


def _near(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.bool_]:
    """Equal but for the last digits, elementwise."""
    return np.asarray(np.isclose(a, b, rtol=1e-6, atol=1e-9, equal_nan=True))


def _is_seed(name: str) -> bool:
    return name.rpartition("__")[2] == "random_state"
