"""`PrivateSearch`: a hyperparameter search with scikit-learn's face, whose every result is differentially private.

The budget is kept in a ledger outside the object, under the data set's name. A clone, a copy, another process or
another day asks the same ledger, so nothing is spent twice and nothing is forgotten; the object itself holds no
record of the validation set, before or after `fit`.
"""

import warnings
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from dpbo_core.data.frames import frame_of
from dpbo_core.ledger.address import ledger_url
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.advice import Advice, advise
from dpbo_core.methods.problem import DEFAULT_DELTA
from dpbo_core.models.estimators import decoded, weight_parameters
from dpbo_core.models.scores.union import OF_CLASSES
from dpbo_core.privacy.release import bounded_score, score_interval
from dpbo_core.privacy.sensitive import attempted
from dpbo_core.report.evaluation import EvaluationResult
from dpbo_core.sklearn_api.arguments import (
    axes_of,
    number_of,
    number_or_none,
    python_door,
    sections_of,
    whole_number_of,
)
from dpbo_core.sklearn_api.public_encoder import PublicColumns, PublicEncoder
from dpbo_core.sklearn_api.search_run import Progress, evaluate_search, run_search, set_callbacks, step_shown
from dpbo_core.sklearn_api.search_study import (
    check_settings,
    public_positives,
    public_target,
    split_of,
    study_of,
    two_tables,
)
from dpbo_core.study import EvaluationSection
from dpbo_core.study.data_files import left_out
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import planning_problem, resolve
from dpbo_core.study.run import Run

UNTRAINED_BEST = (
    "the chosen candidate, {}, cannot be trained on these public records; it scored as one answer for all. The "
    "release, best_params_ and best_score_ stand, and there is no best_estimator_. Take such candidates out of the "
    "space, and give a new edition, which spends budget again."
)
ABSENT_VALUE = object()  # a hyperparameter that a point does not have


def _best_has(verb: str) -> Callable[["PrivateSearch"], bool]:
    """Return `available_if`'s check that the best estimator, or before `fit` `estimator`, has the method `verb`."""

    def check(search: "PrivateSearch") -> bool:
        if search.refit is False:
            raise AttributeError(f"refit = False: nothing is trained at best_params_, so there is no {verb}")
        if hasattr(search, "release_") and not hasattr(search, "best_estimator_"):
            raise AttributeError(f"what was chosen cannot be trained on the public rows, so there is no {verb}")
        return hasattr(getattr(search, "best_estimator_", search.estimator), verb)

    return check


@dataclass(eq=False, repr=False)
class PrivateSearch(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Search `search_space` for the hyperparameters that score best on a SENSITIVE validation set.

    Models are trained on the public X and y alone. The validation set is touched through differentially private
    releases only, paid from the budget of `dataset`. Nobody in the validation set may be in the public training
    set. You must ensure that: dpbo refuses one object, or one piece of memory, passed as both, but does not compare
    the tables' contents, because the result of that comparison would not be private. A public table is also refused
    if more than a tenth of its rows were sensitive in earlier calls (`row_marks`).

    Args:
        estimator: any scikit-learn classifier or regressor. A Pipeline is given the columns of a data frame as they
            are, by name and with the public X's types; anything else numbers, which are made of them.
        search_space: name → `Real`, `Integer` or `Categorical`; (axis, {"kernel": "rbf"}) exists only there. A list
            or array of values, scipy's `uniform`, `loguniform` and `randint` stand for the axis of their range.
        epsilon: ε of this search in total.
        delta: δ of this search in total; a method without δ spends none of it, and 0 leaves those methods.
        dataset: the budget's name. Data that share people share a name.
        budget: (ε, δ) of the data set's cap, set at its first use; without any cap the ledger refuses.
        method: "auto" takes what the advice recommends, from public facts alone.
        n_steps: observations of a search; its usual number, mostly 20, where None.
        n_candidates: points that are spread over the space; the best of them is sought.
        scoring: "accuracy", "roc_auc", "balanced_accuracy", "brier", "log_loss", "absolute_error", "squared_error",
            or a function f(truth, prediction) of ONE record, defined at the top of a module: of two numbers, or of
            the indices of two classes in `classes_`. Larger is better; a loss clipped at E becomes E − loss.
        score_bounds: (low, high) of a function; values outside are clipped.
        error_bound: E of an error or the log-loss: public.
        class_shares: public share of each class for the balanced accuracy. Where None pairs of two classes are
            counted, which needs no shares; more classes have those of the public y.
        person: the column of X_validation that says whose record it is; whoever has more than
            `max_records_per_person` records is protected whole, and the surplus scores a constant.
        max_records_per_person: k.
        n_persons: how many persons X_validation is about, public and stated by you: each then counts once, by the
            mean of that person's records, all of them, and how many records there are is private.
        options: of the method, as in a study's [method].
        accepts: assumptions you answer for, by name; "rowwise_predictions" for estimators of others.
        rowwise: "enforced" scores every validation record alone, in a process of its own: no assumption, whatever
            the estimator and the score function are. Both must be importable from a module.
        study: the study's name in the ledger.
        edition: the same study asked twice gives the same release; new data is a new edition, and a new spend.
        random_state: seeds training and search. Noise is never seeded.
        ledger: the ledger's URL; where None that of the command: DPBO_LEDGER_URL, the team's
            DPBO_DATABASE_URL, or ./mlruns/ledger.db.
        refit: whether `best_estimator_` is trained at the end.
        n_jobs: processes for the public work that is known beforehand; the sensitive half is scored in this one.
        verbose: 1 says on the standard error how far it is: public facts and released scores.
        error_score: "raise" alone: a candidate that cannot be trained fails on public rows, and a validation record
            that cannot be scored is no error.

    Attributes:
        best_params_: the hyperparameters released.
        best_score_: their released score, clipped to its range; `release_.value["score"]` has it as drawn.
        best_score_interval_: the 90% interval of that score, low before high; None if none is stated.
        best_estimator_: a Pipeline trained on the public X and y at `best_params_`; none with `refit` = False,
            or where that cannot be trained.
        guarantee_: the guarantee.
        release_: everything that was released.
        trajectory_: what each step released, for a method that releases its steps; else None.
        cv_results_: the same as scikit-learn has it: `params`, `param_…`, `mean_test_score` (private scores, with
            their noise) and `rank_test_score`; no such attribute where no step was released.
        search_space_: the axes that were searched, whatever `search_space` wrote them as.
        replayed_: whether all this had been released before, so that nothing was spent now.
        validation_rows_: with `validation_size`, the positions of the rows that were validated on; else absent.
        classes_: of y, for a classification.
        n_features_in_: of X.
        feature_names_in_: of X where it has text names.

    Example:
        >>> from sklearn.datasets import load_breast_cancer
        >>> from sklearn.linear_model import LogisticRegression
        >>> from dpbo_core import PrivateSearch, Real
        >>> X, y = load_breast_cancer(return_X_y=True)
        >>> search = PrivateSearch(
        ...     LogisticRegression(solver="liblinear"), {"C": Real(1e-4, 1e2, log=True)}, epsilon=1.0, delta=0.0,
        ...     dataset="clinic", budget=(5.0, 1e-5), method="private_grid", n_candidates=4,
        ... )
        >>> search = search.fit(X[0::2], y[0::2], X_validation=X[1::2], y_validation=y[1::2])
        >>> sorted(search.best_params_), search.guarantee_.epsilon, search.replayed_
        (['C'], 1.0, False)
    """

    estimator: Any
    search_space: Mapping[str, Any]
    _: KW_ONLY
    epsilon: float
    delta: float = DEFAULT_DELTA
    dataset: str
    budget: tuple[float, float] | None = None
    method: str = "auto"
    n_steps: int | None = None
    n_candidates: int = 256
    scoring: str | Callable[[Any, Any], float] = OF_CLASSES
    score_bounds: tuple[float, float] | None = None
    error_bound: float | None = None
    class_shares: Mapping[Any, float] | None = None
    person: str | None = None
    max_records_per_person: int = 1
    n_persons: int | None = None
    options: Mapping[str, Any] | None = None
    accepts: tuple[str, ...] = ()
    rowwise: str | None = None
    study: str = "PrivateSearch"
    edition: str = "1"
    random_state: int | None = 0
    ledger: str | None = None
    refit: bool = True
    n_jobs: int | None = None
    verbose: int = 0
    error_score: str = "raise"

    @python_door
    def fit(
        self,
        X: Any,
        y: Any,
        *,
        X_validation: Any = None,
        y_validation: Any = None,
        validation_size: float | None = None,
        sample_weight: Any = None,
    ) -> Self:
        """Search privately, charge the ledger (a repeat is free), and if `refit` train the best on public data.

        Args:
            X: PUBLIC training records, (n, d): a pandas, polars or Arrow table, or an array.
            y: their classes or targets, (n,).
            X_validation: SENSITIVE validation records, (m, d), the same columns (and `person`); m is public.
            y_validation: their classes or targets, (m,).
            validation_size: for one table X, y instead of two: the share of its rows that is SENSITIVE and
                validated on. Which rows those are is a public rule of their positions alone, `validation_rows_`.
                It declares ALL OTHER ROWS PUBLIC: models are trained on them, and no ε protects them. Give the
                table in the same order every time, new rows at its end. The dataset's first study fixes the share:
                another one is refused, and so is a table with fewer rows. Its public rows alone state what a column
                is: one of numbers, or of texts of numbers, or of truth values is one of numbers, y too.
            sample_weight: (n,) what each row of X counts in training, PUBLIC; a score counts validation rows alike.

        Raises:
            StudyInvalid: something cannot be used as it is, X_validation sharing memory with X, say. Nothing inside
                a validation record is ever an error.
            BudgetRefused: the ledger said no; nothing was charged.
            AssumptionNotAccepted: the guarantee rests on something that `accepts` does not name.
        """
        check_settings(self)
        if validation_size is None:  # with a `validation_size`, y holds sensitive targets too
            public_target(self.estimator, y)
        ledger = PrivacyLedger(ledger_url(self.ledger))
        tables = two_tables(
            self, (X, y), (X_validation, y_validation), validation_size, sample_weight, ledger=ledger
        )
        X, y = tables.X, public_target(self.estimator, tables.y)
        frame_of(X, y, display_name="X")
        validate_data(self, X, reset=True, skip_check_array=True)
        split = split_of(self, tables, ledger)
        spec, prototype = split.spec, split.prototype
        study = resolve(spec, unlisted=prototype.unlisted())
        with step_shown(self, study.n_steps) as shown:
            progress = Progress(loud=bool(self.verbose), shown=shown)
            run = Run.in_memory(study, QueryContext(ledger), split)
            result = run_search(run, n_jobs=self.n_jobs, progress=progress)
        release = result.release
        self.release_, self.guarantee_, self.replayed_ = release, release.guarantee, result.replayed
        self.best_score_, self.best_score_interval_ = bounded_score(release), score_interval(release)
        self.trajectory_ = release.value.get("trajectory")
        self.search_space_ = axes_of(self.search_space)
        named = release.value["hyperparameters"]
        self.best_params_ = prototype.decoded(named)
        self.__dict__.pop("best_estimator_", None)
        if self.refit:
            kind = PublicColumns if split.takes_columns else PublicEncoder
            encoder = kind(ignore=tuple(left_out(spec)), regression=spec.model.regression)
            progress.say("training at what was chosen, on the public rows")
            rows = encoder.fit_transform(X, y)
            model = attempted(lambda: _trained(prototype.build(named), rows, y, tables.weights), None)
            if model is None:
                chosen = ", ".join(f"{name} = {value}" for name, value in named.items())
                warnings.warn(UNTRAINED_BEST.format(chosen), stacklevel=2)
            else:
                self.best_estimator_ = Pipeline([("encode", encoder), ("model", model)])
        if not spec.model.regression:
            self.classes_ = np.unique(y)
        if tables.rows is not None:
            self.validation_rows_ = tables.rows
        elif hasattr(self, "validation_rows_"):
            del self.validation_rows_
        progress.done(f"released: {release.guarantee.in_words()}")
        if result.replayed:
            warnings.warn(
                f"released on {release.released_at[:10]}; nothing was drawn or spent this time. "
                "For new data give a new edition.",
                stacklevel=2,
            )
        return self

    def set_callbacks(self, *callbacks: Any) -> Self:
        """Set scikit-learn's `ProgressBar`s (1.9) instead of earlier ones; any other callback is refused.

        Raises:
            StudyInvalid: it is another, or this scikit-learn has none.
        """
        set_callbacks(self, callbacks)
        return self

    def set_output(self, *, transform: Any = None) -> Self:
        """Set what transformers in `estimator` and `best_estimator_` hand on: "default", "pandas" or "polars"."""
        best = getattr(self, "best_estimator_", None)
        for inner in (self.estimator, best, best[-1] if isinstance(best, Pipeline) else None):
            set_output = getattr(inner, "set_output", None)
            if set_output is not None:
                set_output(transform=transform)
        return self

    @property
    def cv_results_(self) -> dict[str, Any]:
        """The released steps as scikit-learn's `cv_results_`, their scores noisy; absent where none was released.

        Raises:
            AttributeError: nothing was fitted, or the method released its choice alone.
        """
        decode = sections_of(self.search_space)[1]
        steps = getattr(self, "trajectory_", None) or ()
        points = [decoded(step["hyperparameters"], decode) for step in steps]
        if not points:
            raise AttributeError("there are no cv_results_: no step was released, only what was chosen")
        names = sorted({name for point in points for name in point})
        columns = {f"param_{name}": _masked([point.get(name, ABSENT_VALUE) for point in points]) for name in names}
        released = np.array([step["score"] for step in steps], dtype=np.float64)
        ranks = np.array([1 + int((released > score).sum()) for score in released])
        return {"params": points, **columns, "mean_test_score": released, "rank_test_score": ranks}

    def advise(self, X: Any, y: Any, *, n_validation: int | None = None) -> Advice:
        """Return each search method's privacy cost and expected error, from public facts alone. Charges nothing.

        Args:
            X: public training records.
            y: their classes or targets.
            n_validation: the number of validation records; not asked where `n_persons` is given.

        Raises:
            StudyInvalid: neither is given, or no study follows from the parameters.
        """
        training = frame_of(X, public_target(self.estimator, y), display_name="X")
        spec, prototype = study_of(self, training, n_validation)
        problem = planning_problem(spec, unlisted=prototype.unlisted())
        return advise(replace(problem, positives=public_positives(spec, training)), spec.method, spec.options)

    @python_door
    def evaluate(
        self,
        X: Any,
        y: Any,
        *,
        X_validation: Any = None,
        y_validation: Any = None,
        validation_size: float | None = None,
        sample_weight: Any = None,
        epsilon: float,
        edition: str = "1",
        bins: int | None = None,
        group: str | None = None,
        groups: tuple[Any, ...] | None = None,
        false_positive_cost: float | None = None,
        false_negative_cost: float | None = None,
        prevalence: float | None = None,
        repair: bool | None = None,
        threshold: str | None = None,
    ) -> EvaluationResult:
        """Release a whole report on the released model, for one spend of its own; repeated, the same at no cost.

        Args:
            X: the PUBLIC training records of `fit`.
            y: their classes or targets.
            X_validation: SENSITIVE records, those of `fit` or others, with the columns of X, `person` and `group`.
            y_validation: their classes or targets.
            validation_size: as in `fit`, for one table X, y.
            sample_weight: as in `fit`.
            epsilon: ε of the report, on top of the search's.
            edition: of the question; another edition spends budget again.
            bins: of the decision values or errors; from public facts where None.
            group: a column of X_validation that the report is also given by.
            groups: its PUBLIC categories; those of X where None. Every other value is the group "other".
            false_positive_cost: of flagging a negative, for the best threshold.
            false_negative_cost: of missing a positive.
            prevalence: share of positives where the model will be used.
            repair: True for a `repaired_model` with mended probabilities and threshold, at no cost.
            threshold: of that model, "cost=10:1" (a miss, a false alarm) or "recall=0.9".

        Raises:
            StudyInvalid: nothing was released under these parameters, or it cannot be evaluated.
            BudgetRefused, AssumptionNotAccepted: nothing was charged.
            Sealed: something failed on sensitive data; nothing of it is told, and a rerun continues.
        """
        check_is_fitted(self)
        ledger = PrivacyLedger(ledger_url(self.ledger))
        tables = two_tables(
            self, (X, y), (X_validation, y_validation), validation_size, sample_weight, ledger=ledger
        )
        validate_data(self, tables.X, reset=False, skip_check_array=True)
        split = split_of(self, tables, ledger, group)
        section = EvaluationSection(
            epsilon=number_of("epsilon", epsilon),
            edition=edition,
            bins=None if bins is None else whole_number_of("bins", bins),
            group=group,
            groups=None if groups is None else tuple(groups),
            false_positive_cost=number_or_none("false_positive_cost", false_positive_cost),
            false_negative_cost=number_or_none("false_negative_cost", false_negative_cost),
            prevalence=number_or_none("prevalence", prevalence),
            repair=repair,
            threshold=threshold,
        )
        released = split.spec
        if released.data.person_count is None:
            released = released.replace(data=released.data.with_records(self.release_.facts["n_validation"]))
        study = resolve(released, unlisted=split.prototype.unlisted())
        split = replace(split, spec=split.spec.replace(evaluation=section))
        return evaluate_search(study, split, QueryContext(ledger))

    @available_if(_best_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> NDArray[Any]:
        """Return predictions of `best_estimator_` for X (r, d)."""
        return np.asarray(self._best(X).predict(X))

    @available_if(_best_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return probabilities of `best_estimator_` for X, (r, C)."""
        return np.asarray(self._best(X).predict_proba(X))

    @available_if(_best_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return decision values of `best_estimator_` for X."""
        return np.asarray(self._best(X).decision_function(X))

    @available_if(_best_has("score"))  # type: ignore[untyped-decorator]
    def score(self, X: Any, y: Any) -> float:
        """Return `best_estimator_`'s own score on X and y. It is exact, not private: use public records only."""
        return float(self._best(X).score(X, y))

    def __sklearn_tags__(self) -> Any:
        """scikit-learn's tags: those of `estimator`, with gaps allowed and sparse matrices refused."""
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = deepcopy(inner.classifier_tags), deepcopy(inner.regressor_tags)
        tags.target_tags.required = True
        tags.input_tags.allow_nan, tags.input_tags.string = True, True
        return tags

    def _best(self, X: Any) -> Any:
        check_is_fitted(self)
        frame_of(X, None, display_name="X")
        validate_data(self, X, reset=False, skip_check_array=True)
        return self.best_estimator_


def _trained(model: Any, rows: Any, y: Any, weights: Any) -> Any:
    model.fit(rows, y, **weight_parameters(model, weights))
    return model


def _masked(values: list[Any]) -> Any:
    column: Any = np.ma.masked_all(len(values), dtype=object)  # type: ignore[no-untyped-call]
    for i, value in enumerate(values):
        if value is not ABSENT_VALUE:
            column[i] = value
    return column
