"""Any scikit-learn estimator: trained from scratch on the public rows, scored row by row.

| symbol | name here | meaning | shape |
|---|---|---|---|
| X, y | `X`, `y` | public training rows and their classes or targets | (n, d), (n,) |
| V | `X`, `truth` of `scores` | sensitive rows and their classes or targets | (m, d), (m,) |
| g | result of `scores` | one record's score | (m,) |
| x₀ | `stand_in` | a public training row, put instead of a row that cannot be predicted | (d,) |

Rows are float64; or, with `columns`, cells that the estimator is given as a data frame (`data.named_columns`).

A prediction that depends on the other rows of its batch would let one record change every score, so
`rowwise.check_rowwise` refuses such an estimator. A row that cannot be used is replaced by x₀ in place, so that the
other rows are predicted in a batch of the same shape and at the same position, whatever that row was.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbo_core.data import Encoded
from dpbo_core.data.named_columns import UNCONVERTIBLE, FrameEstimator, NamedColumn, data_frame
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.class_state import foreign_classes, restored
from dpbo_core.models.import_path import check_names, estimator_class
from dpbo_core.models.integer_sums import to_grid
from dpbo_core.models.isolated_estimator import IsolatedEstimator, contained, one_thread
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel
from dpbo_core.models.order_independent import scores_by_content
from dpbo_core.models.record_isolation import IsolatedModel
from dpbo_core.models.scores.kinds import Integers, PairScore, RecordScore, Verb, counts, shaped
from dpbo_core.models.scores.union import MarginScore, Score
from dpbo_core.models.scoring.in_memory import ROWS_PER_BLOCK, ScorableModel, unscorable_reason, usable_mask
from dpbo_core.privacy.sensitive import attempted

MODEL_REMEDY = "correct [model] or the ends of [space]"
COLUMNS_REMEDY = (
    "it is given the table's own columns, with their texts and gaps, without those of [data] ignore: encode, "
    f"impute or drop them in the Pipeline, by a ColumnTransformer say; or {MODEL_REMEDY}"
)
MIN_THREADED_ROWS = 20_000  # from here on OpenMP's threads save more in a training than they wait for one another
_BLOCK_ROWS = 1024
_MAX_TREE_ROWS = 262_144  # a call of a forest has the cost of its trees, and no row's leaves depend on another's
_MAX_TREE_CELLS = 2**25  # however wide rows are
PreparedRows = tuple[NDArray[Any], NDArray[np.bool_]]  # (m, d), for trees in single precision; which are sound
_TREE_MODULES = ("sklearn.tree._classes", "sklearn.ensemble._forest")


@dataclass(frozen=True)
class EstimatorFactory:
    """An estimator class by import path, its fixed parameters, and the search seed for its `random_state`s."""

    import_path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    regression: bool = False
    columns: tuple[NamedColumn, ...] | None = None
    # axis → (name → value), for values that a point of the search can only name, such as a list
    decode: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def build(self, /, **hyperparameters: Any) -> Any:
        """Return an unfitted estimator with `params`, overridden by `hyperparameters`, and seeded."""
        kind, wanted = estimator_class(self.import_path), {**self.params, **decoded(hyperparameters, self.decode)}
        try:
            signature = inspect.signature(kind).parameters
            open_ended = any(p.kind is p.VAR_KEYWORD for p in signature.values())
            first = {name for name in wanted if name in signature or (open_ended and "__" not in name)}
            estimator = cloned(kind(**{name: wanted[name] for name in first}))
            check_names(list(wanted), list(estimator.get_params(deep=True)), display_name=self.import_path)
            estimator.set_params(**{name: value for name, value in wanted.items() if name not in first})
            seeded(estimator, self.seed)
        except StudyInvalid:
            raise
        except Exception as error:  # noqa: BLE001  third-party constructors raise what they like
            raise _hyperparameters_refused(self.import_path, "could not be built", error, MODEL_REMEDY) from None
        check_task(estimator, self.import_path, regression=self.regression)
        return estimator

    def train(
        self, X: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, /, **hyperparameters: Any
    ) -> "FittedEstimator":
        """Return a new estimator fitted on public rows X (n, d), classes or targets y and weights (n,) if any."""
        return fitted(
            self.build(**hyperparameters), X, y, weights, display_name=self.import_path, columns=self.columns
        )


def cloned(estimator: Any) -> Any:
    """Return an unfitted copy of an estimator, by scikit-learn's own rule."""
    from sklearn.base import clone

    return clone(estimator)


def decoded(hyperparameters: Mapping[str, Any], decode: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return hyperparameters with the values that `decode` has instead of their names, by axis."""
    return {
        name: decode.get(name, {}).get(value, value) if isinstance(value, str) else value
        for name, value in hyperparameters.items()
    }


def seeded(estimator: Any, seed: int) -> Any:
    """Set every `random_state` that is None to `seed`, in nested estimators too; returns the same estimator."""
    parameters = estimator.get_params(deep=True)
    seeds = [name for name in parameters if name.rpartition("__")[2] == "random_state"]
    free = [name for name in seeds if parameters[name] is None]
    return estimator.set_params(**dict.fromkeys(free, seed)) if free else estimator


def fitted(
    estimator: Any,
    X: ArrayLike,
    y: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    display_name: str,
    columns: tuple[NamedColumn, ...] | None = None,
) -> "FittedEstimator":
    """Fit `estimator` in place on public rows (a data frame if `columns`), with any `weights` (n,), and wrap it."""
    try:
        rows = np.array(X, dtype=np.float64 if columns is None else object)
        stand_in = rows[0].copy()
        table = rows if columns is None else data_frame(columns, rows)
        with one_thread() if len(rows) < MIN_THREADED_ROWS else nullcontext():
            estimator.fit(table, np.asarray(y), **weight_parameters(estimator, weights))
    except Exception as error:  # noqa: BLE001  anything may come; the rows are public, so its message may be shown
        remedy = MODEL_REMEDY if columns is None else COLUMNS_REMEDY
        raise _hyperparameters_refused(display_name, "could not be trained", error, remedy) from None
    return FittedEstimator(estimator, stand_in, columns=columns)


def weight_parameters(estimator: Any, weights: ArrayLike | None) -> dict[str, Any]:
    """Return the arguments that pass the weights (n,) to `fit`, of a Pipeline to its last step; {} for None."""
    from sklearn import get_config, pipeline

    if weights is None:
        return {}
    if isinstance(estimator, pipeline.Pipeline) and not get_config()["enable_metadata_routing"]:
        last, step = estimator.steps[-1]
        return {f"{last}__{name}": value for name, value in weight_parameters(step, weights).items()}
    return {"sample_weight": np.asarray(weights)}


def check_task(estimator: Any, display_name: str, *, regression: bool) -> None:
    """Refuse anything but a regressor for a regression; a regressor, clusterer or outlier detector for classes."""
    from sklearn.base import is_clusterer, is_outlier_detector, is_regressor

    kinds = (is_regressor,) if regression else (is_regressor, is_clusterer, is_outlier_detector)
    if any(_has_tag(kind, estimator) for kind in kinds) is not regression:
        wanted = "regressor" if regression else "classifier"
        raise StudyInvalid(
            f"{display_name} is not a {wanted}",
            cause=f"the score compares {'numbers' if regression else 'classes'}",
            remedy=f"name a {wanted}, or a score of {'classes' if regression else 'numbers'}",
        )


def _has_tag(kind: Any, estimator: Any) -> bool:
    try:
        return bool(kind(estimator))
    except Exception:  # noqa: BLE001  a class that does not say what it is, is believed to be a classifier
        return False


def _hyperparameters_refused(import_path: str, what: str, error: Exception, remedy: str) -> StudyInvalid:
    message = (str(error).strip().splitlines() or [""])[0][:200]
    return StudyInvalid(
        f"{import_path} {what} with these hyperparameters",
        cause=f"{type(error).__name__}: {message}",
        remedy=remedy,
    )


@dataclass(frozen=True, eq=False, repr=False)
class FittedEstimator(ScorableModel):
    """A fitted estimator and one public row. Its repr is constant."""

    estimator: Any  # fitted; an `IsolatedEstimator` if only child processes may unpickle it
    stand_in: NDArray[np.float64]  # (d,) x₀
    alone: IsolatedModel | None = None  # scores each record in a process of its own; None if this one predicts all
    cells: RecordScore | None = None  # from decision values to histogram cells; None for scores of single records
    columns: tuple[NamedColumn, ...] | None = None  # of the data frame that it is given; None if given numbers

    def __repr__(self) -> str:
        return f"FittedEstimator(d={len(self.stand_in)})"

    def scores(self, X: ArrayLike, truth: ArrayLike, score: RecordScore) -> NDArray[np.float64]:
        """Return each record's score, (m,), not clipped to [0, G]; 0 for a row that is not finite or fails.

        Never raises or warns whatever the rows X (m, d) hold. Finite is meant in single precision, as trees cast to
        it. Element i is a function of row i, truth i and m alone.
        """
        d, y, rows = len(self.stand_in), np.asarray(truth), np.asarray(X)
        if rows.ndim != 2 or rows.shape[1] != d or y.shape != (len(rows),):
            raise ValueError(f"rows of shape {rows.shape}, labels of shape {y.shape}, an estimator of {d} features")
        if self.alone is not None:
            sound = _finite_mask(rows)
            scores = self.alone.scores(np.where(sound[:, None], rows, self.stand_in), y, score)
            return np.where(sound, scores, 0.0)
        result = np.zeros(len(rows))
        for block in self.batches(len(rows)):
            result[block] = self.batch_scores(rows[block], y[block], score)
        return result

    def scores_by_content(
        self, X: NDArray[np.float64], truth: NDArray[Any], score: RecordScore
    ) -> NDArray[np.float64]:
        """Return each record's unclipped score, (m,), which depends on its row and truth alone, not on m."""
        if self.alone is not None or not len(X):
            return self.scores(X, truth, score)
        return scores_by_content(
            lambda rows, labels: self.batch_scores(rows, labels, score), self.stand_in, X, truth
        )

    def steps(self, records: Encoded, score: Score) -> Integers:
        """Return each record's score as an integer from 0 to 2²⁴, (m,); 0 if it cannot be predicted."""
        return self._scores_on_grid(records, score, FittedEstimator.scores)

    def order_independent_steps(self, records: Encoded, score: Score) -> Integers:
        """Return each record's score as an integer from 0 to 2²⁴, (m,), the same whatever the records' order."""
        return self._scores_on_grid(records, score, FittedEstimator.scores_by_content)

    def _scores_on_grid(self, records: Encoded, score: Score, scores: "Scores") -> Integers:
        if isinstance(score, MarginScore | PairScore):
            raise unscorable_reason(score, "an estimator has no margin: it is scored by what it predicts")
        numbers = np.where(usable_mask(records), scores(self, records.X, records.truth, score), 0.0)
        return to_grid(numbers, score.score_range, broken_score=0.0)

    def pair_table(self, records: Encoded, score: PairScore) -> Integers:
        """Return how many usable records of each class are in each histogram cell, (2, B)."""
        return self.table(records.X, records.labels, score, usable_mask(records))

    def table(
        self, X: NDArray[Any], labels: NDArray[Any], score: PairScore, counted: NDArray[np.bool_] | None = None
    ) -> Integers:
        """Return how many `counted` rows each class has in each histogram cell, (2, B); of None all are counted.

        Rows that cannot be predicted are in the lowest cell. A label but 0 and 1 is in neither class.
        """
        if self.cells is None:
            raise TypeError("a model without cells ranks nothing")
        cells = np.rint(self.scores(X, labels, self.cells)).astype(np.int64) - 1
        each = np.ones(len(labels), dtype=bool) if counted is None else counted
        return counts(labels, each, np.clip(cells, 0, score.n_cells - 1), score.n_cells)

    @classmethod
    def steps_of_all(cls, models: Sequence[Self], records: Encoded, score: Score) -> Integers:
        """Return each record's score from 0 to 2²⁴ under several models, (m, L); rows are prepared once."""
        if isinstance(score, MarginScore | PairScore) or not all(map(models[0].prepares_like, models)):
            return super().steps_of_all(models, records, score)
        rows = models[0].prepared(records.X)
        scores = [np.where(usable_mask(records), one.scores_of(rows, records.truth, score), 0.0) for one in models]
        return np.stack([to_grid(one, score.score_range, broken_score=0.0) for one in scores], axis=1)

    @classmethod
    def block_rows(cls, models: Sequence[Self], n_records: int) -> int:
        """Return the number of rows to score at a time: whole batches, or all for child processes."""
        if any(model.alone is not None for model in models):
            return max(1, n_records)
        return (
            min(model.together for model in models) if all(model.of_trees for model in models) else ROWS_PER_BLOCK
        )

    @property
    def of_trees(self) -> bool:
        """Whether it is scikit-learn's own tree or forest, which takes rows in single precision as they are."""
        return type(self.estimator).__module__ in _TREE_MODULES and self.columns is None

    @property
    def together(self) -> int:
        """The number of rows that one call of the estimator predicts."""
        if not self.of_trees:
            return _BLOCK_ROWS
        return max(_BLOCK_ROWS, min(_MAX_TREE_ROWS, _MAX_TREE_CELLS // len(self.stand_in)))

    def batches(self, m: int) -> Iterator[slice]:
        """Return the slices of m rows, each of which one call of the estimator predicts."""
        return (slice(start, start + self.together) for start in range(0, m, self.together))

    def prepared(self, X: NDArray[Any]) -> PreparedRows:
        """Return rows (m, d) ready to predict, with x₀ for one that is not finite, and a mask of the others."""
        if not self.of_trees:
            sound = _finite_mask(X)
            return np.where(sound[:, None], X, self.stand_in), sound
        with np.errstate(all="ignore"):  # what is too small for single precision is 0 there
            rows, stand_in = X.astype(np.float32), self.stand_in.astype(np.float32)
        sound = np.asarray(np.isfinite(rows).all(axis=1), dtype=bool)
        rows = np.where(sound[:, None], rows, stand_in)
        rows.setflags(write=False)  # the next model is given the same array
        return rows, sound

    def prepares_like(self, other: "FittedEstimator") -> bool:
        """Return whether rows that `prepared` made for one model can be used with the other."""
        return (
            self.alone is None
            and other.alone is None
            and (self.of_trees, self.columns) == (other.of_trees, other.columns)
            and np.array_equal(self.stand_in, other.stand_in)
        )

    def scores_of(self, prepared: PreparedRows, truth: NDArray[Any], score: RecordScore) -> NDArray[np.float64]:
        """Return each record's unclipped score, (m,), from rows that `prepared` made: as `scores`, bit for bit."""
        (rows, sound), result = prepared, np.zeros(len(truth))
        for block in self.batches(len(truth)):
            result[block] = self._batch_scores(rows[block], sound[block], truth[block], score)
        return result

    def batch_scores(
        self, rows: NDArray[np.float64], truth: NDArray[Any], score: RecordScore
    ) -> NDArray[np.float64]:
        """Return unclipped scores (k,) of rows (k, d) in one batch, 0 for an unusable row.

        Element i is a function of k, i, row i and truth i alone.
        """
        return self._batch_scores(*self.prepared(rows), truth, score)

    def _batch_scores(
        self, rows: NDArray[Any], sound: NDArray[np.bool_], truth: NDArray[Any], score: RecordScore
    ) -> NDArray[np.float64]:
        """Return each record's unclipped score from one batch; 0 if not `sound`, or where the estimator fails."""
        # what a class of others keeps of the rows meanwhile is forgotten (`class_state`)
        with contained() if self._foreign else nullcontext(), restored(self._foreign):
            outcome = self.outcome(rows, score.needs)
            if outcome is None:  # some row makes the batch fail: find such rows one by one, and replace them by x₀
                sound = sound.copy()
                for i in np.flatnonzero(sound):
                    sound[i] = self.outcome(rows[i : i + 1], score.needs) is not None
                outcome = self.outcome(np.where(sound[:, None], rows, self.stand_in), score.needs)
            if outcome is not None:
                return np.where(sound, score.of(outcome, truth), 0.0)
            result = np.zeros(len(rows))  # the batch fails even so: predict each row by itself
            for i in np.flatnonzero(sound):
                one = self.outcome(rows[i : i + 1], score.needs)
                if one is not None:
                    result[i] = score.of(one, truth[i : i + 1])[0]
            return result

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_foreign"}

    @cached_property
    def _foreign(self) -> tuple[type, ...]:
        return () if self.alone is not None or self.of_trees else foreign_classes(self.estimator)

    def outcome(self, rows: NDArray[np.float64], verb: Verb) -> NDArray[Any] | None:
        """Return what the estimator's method `verb` gives for rows (k, d), nothing printed; None if it fails."""

        def predicted() -> NDArray[Any] | None:
            with contained():
                return shaped(getattr(self.estimator, verb)(self.estimator_input(rows)), verb, len(rows))

        return attempted(predicted, None)  # whatever it raised may quote a record

    def by_rows(self) -> Any:
        """Return the estimator as an object whose methods take arrays (k, d), even if it needs a data frame."""
        if self.columns is None or isinstance(self.estimator, IsolatedEstimator):
            return self.estimator
        return FrameEstimator(self.estimator, self.columns)

    def estimator_input(self, rows: NDArray[Any]) -> Any:
        """Return rows (k, d) as the estimator takes them; copied, so that it cannot change ours, but for trees."""
        if self.of_trees:
            return rows
        return np.array(rows, order="C") if self.columns is None else data_frame(self.columns, rows)


def _finite_mask(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask (k,) of the rows that are finite in single precision, or whose cells fit their columns."""
    if rows.dtype == object:
        return np.array([row[0] is not UNCONVERTIBLE for row in rows], dtype=bool)
    with np.errstate(all="ignore"):
        return np.asarray(np.isfinite(rows.astype(np.float32)).all(axis=1), dtype=bool)


Scores = Callable[[FittedEstimator, NDArray[Any], NDArray[Any], RecordScore], NDArray[np.float64]]
Model = LinearModel | FittedEstimator  # what a candidate is trained to
Scorable = Model | SoftmaxModel
