"""Training any scikit-learn estimator on the public set, and checking that it predicts row by row."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.baseline import ConstantAnswer, best_constant, fold_of, one_class
from dpbo_core.models.estimator_allowlist.inspection import check_listed
from dpbo_core.models.estimators import MODEL_REMEDY, EstimatorFactory, FittedEstimator
from dpbo_core.models.integer_sums import GRID, to_grid
from dpbo_core.models.isolated_estimator import IsolatedEstimator, check_importable, modules_of, pickled_form
from dpbo_core.models.prototype import Prototype
from dpbo_core.models.public_process import no_result_error, numbers_of
from dpbo_core.models.record_isolation import enforced_prediction
from dpbo_core.models.rowwise import N_ROWS_OF_SIMILAR_MODEL, N_ROWS_TRIED, check_rowwise
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.kinds import PAIR_SCORE_REFUSAL, PairScore, RecordScore, Verb, auc_of

N_SCALE_ROWS = 4096  # whose decision values say on which scale a model's are


Factory = EstimatorFactory | Prototype  # of fresh estimators at chosen hyperparameters, fitted to public rows


@dataclass(eq=False)
class EstimatorTrainer:
    """The public training set of any scikit-learn estimator. Cross-validated scores are cached.

    `listed`: its class is on the allowlist, so that no assumption is needed, and each fitted estimator is checked
    against that list. `enforced`: each record is scored in a process of its own. An estimator that is enforced and
    not listed is also built, trained, pickled and called in child processes only.
    """

    X: NDArray[np.float64] = field(repr=False)
    truth: NDArray[Any] = field(repr=False)
    factory: Factory
    score: RecordScore | PairScore = field(default_factory=Correct)
    listed: bool = False
    enforced: bool = False
    weights: NDArray[np.float64] | None = field(default=None, repr=False)
    _modules: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict, repr=False)
    _public_scores: dict[tuple[Any, ...], float] = field(default_factory=dict, repr=False)
    _tried: set[str] = field(default_factory=set, repr=False)
    _newest: tuple[tuple[Any, ...], NDArray[np.int64]] | None = field(default=None, repr=False)

    @property
    def n_records(self) -> int:
        """The number n of public training records."""
        return len(self.X)

    def train(self, point: Mapping[str, Any]) -> FittedEstimator:
        """Return the estimator at `point`, fitted from scratch and checked to predict row by row."""
        return self.held(self.trained(point))

    def trained(self, point: Mapping[str, Any]) -> FittedEstimator:
        """Return the estimator at `point`, fitted from scratch (in a child if `enforced`), not yet checked."""
        if self.listed or not self.enforced:
            return self.fitted(slice(None), point)
        columns = self.factory.columns
        estimator = IsolatedEstimator.of_bytes(self._in_child_process(isolated_training, point, 0))
        stand_in = np.array(self.X[0], dtype=np.float64 if columns is None else object)
        return FittedEstimator(estimator, stand_in, columns=columns)

    def check(self, points: Sequence[Mapping[str, Any]]) -> None:
        """Refuse points whose parameters fail scikit-learn's own validation; nothing is trained."""
        if self.enforced and not self.listed:
            self._in_child_process(check_parameters, {"points": points}, 0)
        else:
            check_parameters(self, {"points": points}, 0)

    def constant(self) -> FittedEstimator:
        """Return a model of the public records' best constant prediction, for a point that cannot be trained."""
        truth = self.truth
        n_classes = 0 if self.factory.regression else int(truth.max()) + 1
        answer = best_constant(self.score, truth, np.ones(len(truth)), n_classes=n_classes)
        stand_in = np.array(self.X[0], dtype=np.float64 if self.factory.columns is None else object)
        fitted = FittedEstimator(ConstantAnswer(answer), stand_in, columns=self.factory.columns)
        return with_cells(fitted, self.score, self.X)[0] if isinstance(self.score, PairScore) else fitted

    def fitted(self, rows: "slice | NDArray[np.bool_]", point: Mapping[str, Any]) -> FittedEstimator:
        """Return the estimator at `point`, fitted in this process on some public `rows`, not checked."""
        weights = None if self.weights is None else self.weights[rows]
        return self.factory.train(self.X[rows], self.truth[rows], weights, **point)

    def held(self, fitted: FittedEstimator) -> FittedEstimator:
        """Return the fitted estimator, checked to predict row by row or, if `enforced`, made to do so."""
        if self.listed and not self.enforced:
            check_listed(fitted.estimator)
        scored: RecordScore
        if isinstance(self.score, PairScore):
            fitted, scored = with_cells(fitted, self.score, self.X)
        else:
            scored = self.score
        if self.enforced:
            how = enforced_prediction().alone(fitted.by_rows(), self.X, self.truth, scored, needed_by=self._modules)
            return replace(fitted, alone=how)
        rows_alone = N_ROWS_OF_SIMILAR_MODEL if scored.needs in self._tried else N_ROWS_TRIED
        outcome = check_rowwise(fitted, self.X, needs=scored.needs, rows_alone=rows_alone)
        self._tried.add(scored.needs)
        if isinstance(self.score, BoundedFunction):
            self.score.check(outcome, self.truth[: len(outcome)])
        return fitted

    def public_score(self, point: Mapping[str, Any], *, seed: int) -> float:
        """Return the mean cross-validated public score at `point`, or the AUC of pairs within folds; cached."""
        key = _key(point, seed)
        if key not in self._public_scores:
            if isinstance(self.score, PairScore):
                (area,) = self.numbers(_public_area, point, seed, shape=(1,))
                self._public_scores[key] = min(max(float(area), 0.0), self.score.score_range)
            else:
                steps = self.public_steps(point, seed=seed)
                self._public_scores[key] = int(steps.sum()) * self.score.score_range / (GRID * len(steps))
        return self._public_scores[key]

    def public_steps(self, point: Mapping[str, Any], *, seed: int) -> NDArray[np.int64]:
        """Return each public record's cross-validated score at `point`, (n,), 0 to 2²⁴; the newest is cached."""
        key = _key(point, seed)
        if self._newest is None or self._newest[0] != key:
            steps = self.numbers(cross_validated_steps, point, seed, shape=(len(self.X),))
            self._newest = key, np.clip(steps.astype(np.int64), 0, GRID)
        return self._newest[1]

    def numbers(self, work: "Work", point: Mapping[str, Any], seed: int, *, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return `work(self, point, seed)`; if `enforced`, from a child process, and checked for its `shape`."""
        if not self.enforced:
            return work(self, point, seed)
        numbers = self._in_child_process(work, point, seed)
        if numbers.shape != shape or not np.isfinite(numbers).all():
            raise no_result_error("what came back is not one number for each public record")
        return numbers

    def _in_child_process(self, work: "Work", point: Mapping[str, Any], seed: int) -> NDArray[Any]:
        pickled_form(self.factory, "the estimator")
        check_importable(modules_of(self.factory))
        plain = EstimatorTrainer(self.X, self.truth, self.factory, self.score, weights=self.weights)
        return numbers_of(work, plain, dict(point), seed)


Work = Callable[[EstimatorTrainer, Mapping[str, Any], int], NDArray[Any]]


def check_parameters(trainer: EstimatorTrainer, asked: Mapping[str, Any], _seed: int) -> NDArray[np.int64]:
    """Refuse points, in `asked["points"]`, whose parameters fail scikit-learn's own validation.

    It is a `Work`, since it may run in a child process.
    """
    from sklearn.utils._param_validation import InvalidParameterError

    for point in asked["points"]:
        factory = trainer.factory
        estimator = factory.build(point) if isinstance(factory, Prototype) else factory.build(**point)
        parts = {name.rpartition("__")[0] for name in point}
        own = estimator.get_params(deep=True)
        for part in [estimator if not name else own.get(name) for name in sorted(parts)]:
            reason = ""
            try:
                part._validate_params()
            except InvalidParameterError as error:
                reason = str(error).strip().splitlines()[0][:200]
            except Exception:  # noqa: BLE001, S112  it has no such check, or another: its fit tells
                continue
            if reason:
                at = ", ".join(f"{name} = {value}" for name, value in point.items())
                raise StudyInvalid(
                    f"{type(part).__name__} could not be trained with these hyperparameters: {at}",
                    cause=f"InvalidParameterError: {reason}",
                    remedy=MODEL_REMEDY,
                )
    return np.zeros(0, dtype=np.int64)


def cross_validated_steps(trainer: EstimatorTrainer, point: Mapping[str, Any], seed: int) -> NDArray[np.int64]:
    """Return each public record's cross-validated score at `point`, (n,), from 0 to 2²⁴."""
    score, truth = trainer.score, trainer.truth
    if isinstance(score, PairScore):
        raise TypeError(PAIR_SCORE_REFUSAL)
    classes = truth if truth.dtype.kind == "i" else np.zeros(len(truth), dtype=np.int64)
    folds, steps = fold_of(classes, seed=seed), np.empty(len(classes), dtype=np.int64)
    for fold in range(folds.max() + 1):
        out = folds == fold
        scores = trainer.fitted(~out, point).scores(trainer.X[out], truth[out], score)
        steps[out] = to_grid(scores, score.score_range, broken_score=0.0)
    return steps


def isolated_training(trainer: EstimatorTrainer, point: Mapping[str, Any], _seed: int) -> NDArray[np.uint8]:
    """Return the estimator at `point`, fitted in this process, as bytes for `IsolatedEstimator.of_bytes`."""
    return IsolatedEstimator.of(trainer.fitted(slice(None), point).by_rows()).to_bytes()


def _public_area(trainer: EstimatorTrainer, point: Mapping[str, Any], seed: int) -> NDArray[np.float64]:
    score, X, truth = trainer.score, trainer.X, trainer.truth
    if not isinstance(score, PairScore):
        raise TypeError(PAIR_SCORE_REFUSAL)
    folds, tables = fold_of(truth, seed=seed), [np.zeros((2, score.n_cells), dtype=np.int64)]
    for fold in range(folds.max() + 1):
        out = folds == fold
        if not one_class(truth, out):
            ranked, _ = with_cells(trainer.fitted(~out, point), score, X[~out])
            tables.append(ranked.table(X[out], truth[out], score))
    return np.array([auc_of(np.array(tables))])


def _key(point: Mapping[str, Any], seed: int) -> tuple[Any, ...]:
    """Return the cache key of a point and the seed of the folds; 1 and 1.0 are two values."""
    return (*((name, type(value).__name__, value) for name, value in sorted(point.items())), seed)


def with_cells(
    fitted: FittedEstimator, score: PairScore, X_public: NDArray[np.float64]
) -> tuple[FittedEstimator, RecordScore]:
    """Return the estimator with a map from its decision values to histogram cells, and that map.

    The cells' scale follows from the decision values of at most 4096 public rows.
    """
    rows = X_public[:: 1 + (len(X_public) - 1) // N_SCALE_ROWS]

    def asked(verb: Verb) -> NDArray[Any] | None:
        return fitted.outcome(rows, verb) if callable(getattr(fitted.estimator, verb, None)) else None

    estimator = fitted.estimator
    name = estimator.name if isinstance(estimator, IsolatedEstimator) else type(estimator).__name__
    cells = score.cells(name, asked)
    return replace(fitted, cells=cells), cells
