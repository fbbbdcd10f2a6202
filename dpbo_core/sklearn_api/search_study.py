"""A `PrivateSearch`'s settings, its two tables and its study, from its parameters and what a call was given.

Of the sensitive table only its shape, its column names and its identity as an object are used, and no value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _num_samples

from dpbo_core.data.aliasing import aliased
from dpbo_core.data.features import class_labels
from dpbo_core.data.frames import Frame, frame_of, target_values
from dpbo_core.data.values import numbers, positions, value_column
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import Division
from dpbo_core.methods import method_named
from dpbo_core.methods.advice import AUTO
from dpbo_core.models.prototype import Prototype
from dpbo_core.models.scores.kinds import PairScore
from dpbo_core.sklearn_api.arguments import number_of, sections_of, whole_number_of
from dpbo_core.sklearn_api.public_encoder import target_name
from dpbo_core.sklearn_api.row_marks import RowMarks
from dpbo_core.sklearn_api.split_by_position import halves, validated_on
from dpbo_core.sklearn_api.tables_in_memory import FrameSplit, model_section
from dpbo_core.study import (
    AxisSection,
    BudgetSection,
    DataSection,
    LinearSection,
    ModelSection,
    PersonFiles,
    PrivacySection,
    PublicFiles,
    SearchSection,
    StudySpec,
)
from dpbo_core.study.named_score import score_of, score_on

MAX_PROCESSES = 2**16
EXAMPLE_PIPELINE = "make_pipeline(StandardScaler(), LogisticRegression())"


def check_settings(search: Any) -> None:
    """Refuse an empty space, and a `refit`, `error_score`, `n_jobs`, `random_state` or `verbose` not supported."""
    if search.search_space == {}:
        raise StudyInvalid("the search space has no axis", remedy='name at least one: {"C": Real(1e-3, 1e3)}')
    if not isinstance(search.refit, bool):
        raise StudyInvalid(
            f"refit = {search.refit!r}",
            cause="one score is released, so there is no other to choose by; a rule over all scores "
            "would need all of them",
            remedy="give True or False",
        )
    if not (isinstance(search.error_score, str) and search.error_score == "raise"):
        raise StudyInvalid(
            f"error_score = {search.error_score!r}",
            cause="a candidate that cannot be trained fails on public rows, with a message that names it; a "
            "validation record that cannot be scored is never an error, it scores a constant",
            remedy='leave it at "raise", and take the candidate out of the space',
        )
    if search.n_jobs is not None and not (_whole(search.n_jobs) and 0 < abs(search.n_jobs) <= MAX_PROCESSES):
        raise StudyInvalid(
            "n_jobs is no number of processes that a machine can start",
            remedy="give a number of processes, -1 for all processors, or None",
        )
    if search.random_state is not None and not _whole(search.random_state):
        raise StudyInvalid(
            f"random_state is a {type(search.random_state).__name__}",
            cause="the seed is part of the study, by which a release is found again; a generator changes in use",
            remedy="give a whole number, or None for 0",
        )
    if not (_whole(search.verbose) or isinstance(search.verbose, bool)) or search.verbose < 0:
        raise StudyInvalid(f"verbose = {search.verbose!r}", remedy="give 0 or 1")


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def public_target(estimator: Any, y: Any) -> NDArray[Any]:
    """Return the PUBLIC classes or targets, (n,), checked to fit the estimator's task."""
    if y is None:
        raise StudyInvalid(
            "This PrivateSearch estimator requires y to be passed, but the target y is None",
            remedy="call fit(X_public, y_public, X_validation=..., y_validation=...)",
        )
    check_predicts(estimator)
    target = column_or_1d(y, warn=True)
    if target.dtype == object and all(isinstance(one, bool | int | float | np.number) for one in target.tolist()):
        target = np.array(target.tolist())  # numbers that a data frame held as objects
    if not is_regressor(estimator):
        check_classification_targets(target)
    return np.asarray(target)


def check_predicts(estimator: Any) -> None:
    """Refuse anything but an instance of an estimator that predicts: a class, a list of steps, or a scaler, say."""
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        what = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise StudyInvalid(
            f"the estimator is {what}",
            cause="a class without its parentheses, or steps without their Pipeline",
            remedy=f"give an instance, {EXAMPLE_PIPELINE} say",
        )
    if hasattr(estimator, "transform") and not hasattr(estimator, "predict"):
        raise StudyInvalid(
            f"{type(estimator).__name__} predicts nothing: it transforms columns",
            cause="a scaler or an encoder was given in the model's place, or stands last in a Pipeline",
            remedy=f"put it before the model in one Pipeline, {EXAMPLE_PIPELINE} say: public rows alone fit it",
        )


@dataclass(frozen=True, eq=False, repr=False)
class TwoTables:
    """The PUBLIC table and the SENSITIVE one of a call, each as records and their classes or targets."""

    X: Any  # PUBLIC records
    y: Any  # their classes or targets
    X_validation: Any  # SENSITIVE records
    y_validation: Any  # their classes or targets
    # positions of the sensitive rows in the one table that was divided; None if two were passed
    rows: NDArray[np.int64] | None = None
    share: float | None = None  # of that table's rows that are sensitive; None if two were passed
    # (n,) of the PUBLIC records, where they count differently in training
    weights: NDArray[np.float64] | None = None


def two_tables(
    search: Any,
    public: tuple[Any, Any],
    sensitive: tuple[Any, Any],
    validation_size: float | None,
    sample_weight: Any = None,
    *,
    ledger: PrivacyLedger,
) -> TwoTables:
    """Return the public and the sensitive table, as passed or as `validation_size` divides the first.

    Anything else is refused. The ledger is asked first whether this dataset was divided by another share before,
    since rows that were sensitive then could be read as public now.
    """
    if validation_size is not None:
        if any(part is not None for part in sensitive):
            raise StudyInvalid(
                "both a validation set and validation_size are given",
                cause="validation_size takes the validation rows out of X and y",
                remedy="leave one of them out",
            )
        if search.person is not None:
            raise StudyInvalid(
                "validation_size divides rows, and a person's rows would lie on both sides",
                cause=f"person = {search.person!r} says that somebody has several",
                remedy="divide the table by persons yourself, and give X_validation and y_validation",
            )
        if public[1] is None:
            public_target(search.estimator, None)
        n_rows = _num_samples(public[0])
        validated_on(n_rows, validation_size)
        ledger.check_division(search.dataset, float(validation_size), n_rows)  # before a row is read as public
        X_rest, y_rest, X_taken, y_taken, taken = halves(*public, validation_size)
        weights = checked_weights(sample_weight, _num_samples(public[0]), but=taken)
        return TwoTables(X_rest, y_rest, X_taken, y_taken, taken, float(validation_size), weights)
    if any(part is None for part in sensitive):
        raise StudyInvalid(
            "there is no validation set",
            cause="fit(X, y) alone, as cross_val_score and other searches call it; here X and y are PUBLIC, "
            "and folds of them hold no sensitive record to score",
            remedy="call fit(X_public, y_public, X_validation=..., y_validation=...), or, for one table, "
            "fit(X, y, validation_size=0.3), which declares all other rows public; evaluate(...) then says "
            "privately what the released model is worth",
        )
    weights = checked_weights(sample_weight, _num_samples(public[0]))
    return TwoTables(*public, *sensitive, weights=weights)


def checked_weights(
    sample_weight: Any, n: int, *, but: NDArray[np.int64] | None = None
) -> NDArray[np.float64] | None:
    """Return the training weights of n rows, without those at the positions `but`; None if none are passed.

    `but` are sensitive rows of the same table. Their weights are not even checked: an error would depend on them.
    """
    if sample_weight is None:
        return None
    if _num_samples(sample_weight) != n:
        raise StudyInvalid(f"sample_weight is not {n} numbers", remedy="give one for each row of X")
    public = np.arange(n) if but is None else np.delete(np.arange(n), but)
    values = target_values(sample_weight, display_name="sample_weight", public=public)
    weights = numbers(value_column([values[i] for i in public]))
    if not (np.isfinite(weights).all() and (weights >= 0.0).all()):
        raise StudyInvalid(
            "the weight of a public row is no finite number of at least 0", remedy="give one for each row of X"
        )
    return weights


def split_of(search: Any, tables: TwoTables, ledger: PrivacyLedger, group: str | None = None) -> FrameSplit:
    """Return the public and the sensitive table as frames, their study, and the row marks of the ledger."""
    marks = RowMarks.of(ledger, search.dataset)
    share = tables.share
    training = frame_of(tables.X, public_target(search.estimator, tables.y), display_name="X")
    named = {name for name in (search.person, group) if name is not None}
    width = len({*training.names} | named)
    validation = frame_of(
        tables.X_validation,
        tables.y_validation,
        display_name="X_validation",
        width=width,
        private_count=search.n_persons is not None,
    )
    if not validation.names:  # an empty table, whose number of records is private: it gets the public columns
        names = (*training.names, *sorted(named - {*training.names}))
        validation = replace(validation, names=names, native=np.empty((0, len(names)), dtype=object))
    spec, prototype = study_of(search, training, validation.n_records)
    return FrameSplit(
        spec,
        training,
        validation,
        prototype,
        target_name(training.names),
        score=search.scoring if callable(search.scoring) else None,
        aliased=aliased((tables.X, tables.y), (tables.X_validation, tables.y_validation)),
        beside=() if group is None or group in training.names else (group,),
        division=None if share is None else Division(share, training.n_records + validation.n_records),
        weights=tables.weights,
        marks=marks,
    )


def study_of(search: Any, training: Frame, n_validation: int | None) -> tuple[StudySpec, Prototype]:
    """Return the study that the search's parameters describe, and the estimator to clone for each candidate."""
    axes, decode = sections_of(search.search_space)
    model = model_section(search, training)
    spec = described(
        search,
        data=_data(search.n_persons, target_name(training.names), n_validation),
        model=model,
        space=axes,
        search=SearchSection(
            steps=None if search.n_steps is None else whole_number_of("n_steps", search.n_steps),
            candidates="sobol",
            n_candidates=whole_number_of("n_candidates", search.n_candidates),
            seed=whole_number_of("random_state", search.random_state or 0),
        ),
        choice="hyperparameters",
    )
    return spec, Prototype(search.estimator, spec.search.seed, model.regression, decode)


def public_positives(spec: StudySpec, training: Frame) -> float | None:
    """Return the share of the second class in the PUBLIC table; None unless the score counts pairs, as AUC does."""
    if not isinstance(score_of(spec.model), PairScore):
        return None
    target = target_name(training.names)
    table = training.table(target_name=target, source="X", texts=None)
    classes = class_labels(target, table)
    if not isinstance(spec.model, LinearSection):
        score_on(spec.model, classes)
    return float((positions(table.columns[target], classes) == 1).mean())


def _data(n_persons: int | None, target: str, n_validation: int | None) -> PublicFiles | PersonFiles:
    """Return the study's [data] of tables in memory, by a public number of persons or records; refused without."""
    if n_persons is not None:
        people = whole_number_of("n_persons", n_persons)
        return PersonFiles(training="X", validation="X_validation", n_persons=people, target=target, missing="mean")
    if n_validation is None:
        raise StudyInvalid("neither n_validation nor n_persons is given", remedy="give the public number of either")
    n = whole_number_of("n_validation", n_validation)
    return PublicFiles(training="X", validation="X_validation", n_validation=n, target=target, missing="mean")


def described(
    estimator: Any,
    *,
    data: DataSection,
    model: ModelSection,
    space: Mapping[str, AxisSection],
    search: SearchSection,
    choice: str,
) -> StudySpec:
    """Return the study of these sections, with `estimator`'s parameters for its name, its method and its privacy.

    A method that releases no candidate is refused; `choice` is the message's word for what is missing.
    """
    cap = estimator.budget
    spec = StudySpec(
        name=estimator.study,
        edition=estimator.edition,
        method=estimator.method,
        accepts=tuple(estimator.accepts),
        privacy=PrivacySection(
            dataset=estimator.dataset,
            epsilon=number_of("epsilon", estimator.epsilon),
            delta=number_of("delta", estimator.delta),
            max_records_per_person=whole_number_of("max_records_per_person", estimator.max_records_per_person),
            person=estimator.person,
        ),
        budget=None
        if cap is None
        else BudgetSection(epsilon=number_of("budget", cap[0]), delta=number_of("budget", cap[1])),
        data=data,
        model=model,
        space=dict(space),
        search=search,
        options=dict(estimator.options or {}),
    )
    named = None if estimator.method == AUTO else method_named(estimator.method, spec.options)
    if named is not None and not named.releases_hyperparameters:
        raise StudyInvalid(f"{estimator.method} releases no {choice}", remedy='use method = "auto"')
    return spec
