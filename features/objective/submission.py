"""Models and predictions made elsewhere, as what a private objective scores instead of hyperparameters.

| of | what the ledger knows it by | what its guarantee assumes |
|---|---|---|
| a fitted model | a digest of its bytes | `public_models` |
| one not on the list, and not scored one by one | the same | `rowwise_predictions` too |
| a table of predictions | the name that it is handed in under | `rowwise_predictions` |

Both are reserved with the n scores, so the study accepts them by name beforehand. A table's CONTENT is no part of
its name: that two tables are equal can depend on one record, so whether a score is drawn must not.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo.features.objective.parameters import canonical_text, parameters_of
from dpbo_core.data import Preprocessing
from dpbo_core.data.predictions import PredictionColumns, rows_of, values_of
from dpbo_core.data.table import Table, table_of
from dpbo_core.data.values import positions, value_column
from dpbo_core.errors import AssumptionNotAccepted, StudyInvalid
from dpbo_core.models.estimator_allowlist.inspection import unlisted_part
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import EstimatorFactory, FittedEstimator
from dpbo_core.models.isolated_estimator import contained
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.predicted import PredictionsTrainer
from dpbo_core.models.scores.kinds import PairScore, RecordScore
from dpbo_core.models.scores.union import MarginScore
from dpbo_core.models.scoring.in_memory import Objective, ScorableModel, Scorer
from dpbo_core.privacy.guarantee import CALLER_ASSUMPTIONS, PUBLIC_MODELS, ROWWISE_PREDICTIONS, PrivacyGuarantee
from dpbo_core.privacy.sensitive import Sensitive, attempted, sealed
from dpbo_core.report.histogram_cells import needed_columns
from dpbo_core.study import StudySpec
from dpbo_core.study.data_files import check_n_validation, left_out
from dpbo_core.study.data_split import FileSplit, validation_parts
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.prediction_half import candidate_columns, names_classes
from dpbo_core.study.public_half import PublicHalf, TableSplit

MODEL, TABLE = "submitted model", "submitted predictions"  # instead of hyperparameters
PREDICTION_COLUMN = "prediction"
PREDICTION_POINT = {"candidate": PREDICTION_COLUMN}
SUBMISSION_ASSUMPTIONS = (PUBLIC_MODELS.name, ROWWISE_PREDICTIONS.name)


@dataclass(frozen=True, eq=False, repr=False)
class Submission:
    """A submitted model or table of predictions, with all public checks done."""

    text: str  # its key in the ledger, in place of hyperparameters
    assumptions: tuple[str, ...]  # names of those that the guarantee must state for it
    model: ScorableModel  # one that predicts each row by itself
    # called after the charge; returns the session's records in the form that `model` takes
    records: Callable[[Scorer], Scorer]

    def check(self, guarantee: PrivacyGuarantee) -> None:
        """Refuse a submission that needs assumptions which the reserved guarantee does not state."""
        for name in self.assumptions:
            if name not in guarantee.assumptions:
                raise AssumptionNotAccepted(
                    f"what is handed in assumes {name!r}: {CALLER_ASSUMPTIONS[name].statement}",
                    cause="the objective does not accept it by name, under which all its scores are reserved",
                    remedy=f'accept "{name}" if you can answer for it; after the first score under a new edition',
                )


def submitted_model(
    spec: StudySpec, split: TableSplit, public: PublicHalf, model: FinalModel | Any, digest: str
) -> Submission:
    """Return a fitted model, tried on the public rows and ready for scoring; the ledger knows it by `digest`."""
    table = split.public_table()
    final = model if isinstance(model, FinalModel) else _as_final(spec, split, public, model, table)
    if (final.preprocessing.target, final.classes) != (public.target, public.preprocessing.classes):
        raise StudyInvalid(
            "the model predicts another target, or other classes, than the study",
            cause="it was fitted on another table",
            remedy=f"hand in a model of {public.target!r}",
        )
    unread = frozenset(table.columns) - {*needed_columns(final.preprocessing)}
    fitted = replace(final.preprocessing, ignored=unread | left_out(spec))
    encoded = fitted.transform(table)
    usable = encoded.labels >= 0
    trained, unlisted = _scorable(spec, public, final.model, encoded.X[usable], encoded.truth[usable])
    needs = (PUBLIC_MODELS.name, *((ROWWISE_PREDICTIONS.name,) if unlisted and not spec.model.enforced else ()))
    half = replace(public, preprocessing=fitted)
    return Submission(canonical_text({MODEL: digest}), needs, trained, lambda _: split.sensitive(half))


def build_silenced(made: Callable[[], Submission], model: FinalModel | Any, *, scored: bool) -> Submission:
    """Return `made()`, a submission of `model`, while suppressing all that the model's code prints.

    Once records were `scored`, its error messages are hidden too, unless all of the model is allowlisted.
    """
    own = model.model if isinstance(model, FinalModel) else model
    own = own.estimator if isinstance(own, FittedEstimator) else own
    with contained():
        if not scored or isinstance(own, LinearModel) or not unlisted_part(own):
            return made()
        return sealed(made, failure=_untried)


def submitted_predictions(
    public: PublicHalf, columns: PredictionColumns, name: str, table: Callable[[], Table]
) -> Submission:
    """Predictions made ready for scoring under `name`; nothing is read now: `table` reads them after the charge."""
    if not isinstance(name, str) or not name.strip():
        raise StudyInvalid("the predictions have no name", remedy="name them, as a team and a number say")
    regression, width = public.problem.model.regression, len(columns.feature_names)
    trainer = PredictionsTrainer(
        {PREDICTION_COLUMN: tuple(range(width))},
        width,
        _score_of_predictions(public),
        regression,
        np.zeros((0, width)),
        np.zeros(0),
    )

    def joined(records: Scorer) -> Scorer:
        if not isinstance(records, Objective):
            raise TypeError("predictions are of records in one table")
        return records.with_rows(Sensitive(columns.rows(table())))

    text = canonical_text(parameters_of({TABLE: name}))
    return Submission(text, (ROWWISE_PREDICTIONS.name,), trainer.train(PREDICTION_POINT), joined)


def prediction_columns(spec: StudySpec, split: TableSplit, public: PublicHalf) -> PredictionColumns:
    """The columns of a table of predictions for this study: `prediction`, or a `prediction:class` for each."""
    score, classes = _score_of_predictions(public), public.preprocessing.classes
    if spec.data.person_count is not None:
        raise StudyInvalid(
            "predictions are handed in for n_validation records, and here their number is private",
            cause="data.n_persons counts each person once",
            remedy="hand in the model",
        )
    if isinstance(split, FileSplit) and validation_parts(spec, split.folder):
        raise StudyInvalid(
            "predictions are handed in for records of one file, and here they are the parts of a folder",
            remedy="hand in the model, which is taken from part to part",
        )
    names = candidate_columns((PREDICTION_COLUMN,), classes, score)[PREDICTION_COLUMN]
    return PredictionColumns.of(names, public.target, classes, of_classes=names_classes(classes, score))


def predictions_in_memory(spec: StudySpec, predictions: Any, columns: PredictionColumns) -> Callable[[], Table]:
    """Return a function that makes a table of SENSITIVE predictions; their number and shape are checked now."""
    values = attempted(lambda: values_of(predictions), [])
    values = values if isinstance(values, list) else np.atleast_1d(values)
    check_n_validation(spec, len(values), display_name="the table of predictions")
    width = len(columns.feature_names)
    rows = attempted(lambda: rows_of(values, len(values), width), None)
    if rows is None:
        raise StudyInvalid(
            "the predictions have another shape",
            cause="each record has one class or number, or of more than two classes a probability of each",
            remedy=f"give {width} numbers a record",
        )
    return lambda: table_of(
        {name: [row[place] for row in rows] for place, name in enumerate(columns.feature_names)},
        source="predictions",
    )


def digest_of(estimator: Any) -> str:
    """Return a digest of a fitted estimator in memory, the same in every process."""
    import joblib

    digest = attempted(lambda: str(joblib.hash(estimator, hash_name="sha1")), "")
    if not digest:
        raise StudyInvalid("the model cannot be pickled", remedy="hand in a model that pickle can write")
    return digest


def _scorable(
    spec: StudySpec,
    public: PublicHalf,
    model: LinearModel | FittedEstimator,
    X: NDArray[np.float64],
    truth: NDArray[Any],
) -> tuple[ScorableModel, str]:
    """The model checked to predict row by row, and its first part not on the allowlist by name ("" for none)."""
    score = public.problem.score
    if isinstance(model, LinearModel):
        if not isinstance(score, MarginScore | PairScore):
            raise StudyInvalid("a linear model of ours has margins alone", remedy="score it by a score of margins")
        return model, ""
    own = model.estimator.estimator if isinstance(model.estimator, _InStudysClasses) else model.estimator
    unlisted = unlisted_part(own)
    factory, predictions = EstimatorFactory(spec.model.estimator), _score_of_predictions(public)
    trainer = EstimatorTrainer(X, truth, factory, predictions, enforced=spec.model.enforced)
    return trainer.held(model), unlisted


def _untried() -> StudyInvalid:
    """Return the error of a model that failed on public rows, without its own message."""
    return StudyInvalid(
        "the model cannot be tried on the public rows",
        cause="it fails there, or knows other classes; it is not on the list, so its own words stay here",
        remedy="ask it about the public rows alone, and see; no score was used up",
    )


def _score_of_predictions(public: PublicHalf) -> RecordScore | PairScore:
    """The study's score, refused if it is of a linear model's margins, which other predictions do not have."""
    score = public.problem.score
    if isinstance(score, MarginScore):
        raise StudyInvalid(
            "the study scores the margins of a linear model, and what is handed in has none",
            remedy="name an estimator of scikit-learn's, and a score of what it predicts",
        )
    return score


def _as_final(spec: StudySpec, split: TableSplit, public: PublicHalf, estimator: Any, table: Table) -> FinalModel:
    """Return a copy of a fitted estimator as a final model that answers in the study's classes."""
    regression, own = spec.model.regression, table.without(left_out(spec))
    if hasattr(estimator, "feature_names_in_"):
        fitted = Preprocessing.named(own, public.target, regression=regression, hints=split.hints())
    else:
        fitted = Preprocessing.fit(
            own,
            public.target,
            standardize=False,
            unit_ball=False,
            regression=regression,
            missing="mean" if spec.data.fills_gaps else "refuse",
        )
    X = fitted.transform(own).X
    copied = attempted(lambda: copy.deepcopy(estimator), None)  # the caller's own sees no record
    if copied is None:
        raise StudyInvalid("the model cannot be copied", remedy="hand in a model that copy.deepcopy can copy")
    named = _InStudysClasses(copied, () if regression else public.preprocessing.classes)
    return FinalModel(fitted, FittedEstimator(named, X[0].copy(), columns=fitted.columns))


@dataclass(frozen=True, eq=False, repr=False)
class _InStudysClasses:
    """A fitted estimator whose answers are in the study's classes, by index, whatever order it has them in."""

    estimator: Any  # fitted
    classes: tuple[float | str, ...]  # the study's, sorted; none of a regression

    def __post_init__(self) -> None:
        if self.classes and sorted(self._order.tolist()) != list(range(len(self.classes))):
            raise StudyInvalid(
                f"the model's classes are not the study's, {', '.join(map(str, self.classes))}",
                cause="it was fitted on other labels, or is not fitted",
                remedy="hand in a model that was fitted on these",
            )

    @property
    def _order(self) -> NDArray[np.int64]:
        """The study's class index of each of the estimator's classes; −1 for one that the study has not."""
        return positions(value_column(list(getattr(self.estimator, "classes_", ()))), self.classes)

    def _own_columns(self, rows: Any) -> Any:
        return rows[list(self.estimator.feature_names_in_)] if hasattr(rows, "columns") else rows

    def predict(self, rows: Any) -> NDArray[Any]:
        """Predicted indices of the study's classes, −1 for another class; of a regression, its numbers."""
        predicted = np.asarray(self.estimator.predict(self._own_columns(rows)))
        return positions(value_column(list(predicted)), self.classes) if self.classes else predicted

    @property
    def predict_proba(self) -> Callable[[Any], NDArray[np.float64]]:
        """A function of rows: probabilities in the order of the study's classes."""
        asked, order = self.estimator.predict_proba, np.argsort(self._order)
        return lambda rows: np.asarray(asked(self._own_columns(rows)))[:, order]

    @property
    def decision_function(self) -> Callable[[Any], NDArray[np.float64]]:
        """A function of rows: values that are larger for the second of the study's two classes."""
        asked, sign = (
            self.estimator.decision_function,
            1.0 if len(self._order) != 2 or self._order[0] == 0 else -1.0,
        )
        return lambda rows: sign * np.asarray(asked(self._own_columns(rows)))
