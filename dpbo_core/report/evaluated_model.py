"""The model that is evaluated, the kind of its report, and what it says of the public records.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | — | public training records | scalar |
| y, s | `public.truth`, `public.outcome` | their classes or targets, and what the model says of each | (n,) |

Of the study's own model, which is trained here, each outcome is that of a training without the record's fold.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Preprocessing, Table
from dpbo_core.data.values import shown
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.baseline import fold_of
from dpbo_core.models.estimator_allowlist.inspection import check_listed, unlisted_part
from dpbo_core.models.estimator_trainer import EstimatorTrainer, with_cells
from dpbo_core.models.estimators import FittedEstimator, Scorable
from dpbo_core.models.final_model.dpbo_served_model import BOOSTER_FILES, ESTIMATOR
from dpbo_core.models.final_model.storage import NUMBERS, loaded_estimator
from dpbo_core.models.linear.fit import LinearModel, LinearTrainer, SoftmaxModel
from dpbo_core.models.record_isolation import enforced_prediction
from dpbo_core.models.rowwise import check_rowwise
from dpbo_core.models.scores.kinds import PairScore, RecordScore, Verb
from dpbo_core.models.scores.regression_error import as_numbers
from dpbo_core.models.scores.union import Score
from dpbo_core.models.scoring.in_memory import usable_mask
from dpbo_core.privacy.release import Release
from dpbo_core.report.binary import Binary
from dpbo_core.report.counting import Counter
from dpbo_core.report.histogram_cells import Grouping, Integers, needed_columns, only_needed
from dpbo_core.report.multiclass import MAX_CLASSES, Multiclass
from dpbo_core.report.regression import Regression
from dpbo_core.report.report_kind import PublicRecords, ReportKind
from dpbo_core.study import ModelSection, StudySpec
from dpbo_core.study.data_files import training_parts, training_table
from dpbo_core.study.final_training import FinalModel, model_is_public
from dpbo_core.study.public_half import PublicHalf, named_map

LINEAR_VERB: Verb = "decision_function"  # what a linear model's margins stand for
# of a table
CELL_KINDS: Mapping[str | None, type[ReportKind]] = {None: Binary, "classes": Multiclass, "errors": Regression}


@dataclass(frozen=True, eq=False, repr=False)
class EvaluatedModel:
    """A model and what it says of the public records."""

    kind: type[ReportKind]  # of its report
    model: Scorable  # trained; not yet held to predicting row by row
    preprocessing: Preprocessing  # from raw columns to its rows
    # the public rows, preprocessed, (n, d); of a linear model that is trained here none is needed, (n, 0)
    X: NDArray[np.float64]
    public: PublicRecords  # what it says of them
    unlisted: str  # what in it is not known to predict each row alone; "" for nothing

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model needs of a table, the target last."""
        return needed_columns(self.preprocessing)

    def counter(self, edges: tuple[float, ...], grouping: Grouping | None, section: ModelSection) -> Counter:
        """A counter of records by histogram cell under this model, checked on public rows to predict row by row."""
        cells = self.kind.cells(self.public, edges)
        return Counter(self.preprocessing, self.predicting_by_row(section, cells), cells, grouping)

    def predicting_by_row(self, section: ModelSection, score: RecordScore) -> Scorable:
        """The model, checked on public rows to predict each row by itself, or made to if the study enforces it."""
        model = self.model
        if not isinstance(model, FittedEstimator):  # ours are, row by row to the last bit
            return model
        if section.enforced:
            how = enforced_prediction().alone(model.by_rows(), self.X, self.public.truth, score, needed_by={})
            return replace(model, alone=how)
        if not self.unlisted:
            check_listed(model.estimator)
        check_rowwise(model, self.X, needs=score.needs)
        return replace(model, alone=None)


@dataclass(frozen=True, eq=False, repr=False)
class ComparedModel:
    """A model with the map to its rows and the study's score of it. Public."""

    preprocessing: Preprocessing
    model: Scorable
    score: Score

    @classmethod
    def of(cls, evaluated: EvaluatedModel, section: ModelSection, score: Score) -> "ComparedModel":
        """Return a model that predicts each row by itself, checked on public rows."""
        checked: RecordScore | None = score if isinstance(score, RecordScore) else None
        if isinstance(score, PairScore) and isinstance(evaluated.model, FittedEstimator):
            ranked, checked = with_cells(evaluated.model, score, evaluated.X)
            evaluated = replace(evaluated, model=ranked)
        model = evaluated.model if checked is None else evaluated.predicting_by_row(section, checked)
        return cls(evaluated.preprocessing, model, score)

    @property
    def n_cells(self) -> int:
        """The number B of cells by whose order records are ranked."""
        if not isinstance(self.score, PairScore):
            raise TypeError("a score of records ranks nothing")
        return self.score.n_cells

    def steps(self, table: Table, *, by_person: bool) -> Integers:
        """Return each record's score in steps of G/2²⁴, (m,); by person whatever the records' order."""
        encoded = self.preprocessing.transform(only_needed(table, self.preprocessing))
        scored = self.model.order_independent_steps if by_person else self.model.steps
        return scored(encoded, self.score)

    def ranks(self, table: Table, *, by_person: bool) -> tuple[Integers, Integers]:
        """Return each record's cell, ascending by value, (m,), and class, −1 for none; by person in any order."""
        encoded = self.preprocessing.transform(only_needed(table, self.preprocessing))
        model, score = self.model, self.score
        if isinstance(model, FittedEstimator) and model.cells is not None:
            scored = model.scores_by_content if by_person else model.scores
            cells = np.rint(scored(encoded.X, encoded.truth, model.cells)).astype(np.int64) - 1
        elif isinstance(model, LinearModel) and isinstance(score, PairScore):
            cells = score.of_margins(model.margins(encoded.X, np.ones(encoded.n_records)), model.norm)
        else:
            raise TypeError("a model without cells ranks nothing")
        return np.clip(cells, 0, self.n_cells - 1), np.where(usable_mask(encoded), encoded.labels, -1)


def released_model(spec: StudySpec, public: PublicHalf, release: Release) -> EvaluatedModel:
    """The study's released model, trained now on its public set or read from a private training's release."""
    if public.problem.trainer is not None:
        if not model_is_public(release):
            raise no_model()
        return model_at(spec, public, release.value["hyperparameters"])
    released = release.value.get("model")
    if released is None:
        raise StudyInvalid(
            "the study released no model that could be evaluated",
            cause="none of its trials came to one, or one by a function that returns no linear model",
            remedy="ask the study under a new edition, with more steps",
        )
    weights = np.array(released["weights"], dtype=np.float64)
    model = LinearModel(weights, 0.0, math.inf) if weights.ndim == 1 else SoftmaxModel(weights)
    return _privately_trained(public.preprocessing, model)


def _privately_trained(fitted: Preprocessing, model: LinearModel | SoftmaxModel) -> EvaluatedModel:
    """Return a privately trained model to evaluate by class; it has no public records."""
    nobody = np.zeros(0, dtype=np.int64)
    public = PublicRecords(nobody, nobody, classes=tuple(map(shown, fitted.classes)))
    return EvaluatedModel(Multiclass, model, fitted, np.zeros((0, fitted.n_features)), public, "")


def model_at(spec: StudySpec, public: PublicHalf, point: Mapping[str, Any]) -> EvaluatedModel:
    """The model at `point`, trained on the study's public set; for a private training an untrained one like it."""
    trainer, fitted, unlisted = public.problem.trainer, public.preprocessing, public.problem.unlisted
    if trainer is None:  # the training set is sensitive: whichever will be released has such a shape
        return _privately_trained(fitted, LinearModel(np.zeros(fitted.n_features), 0.0, math.inf))
    if isinstance(trainer, LinearTrainer):
        values = trainer.public_margins(point, seed=spec.search.seed) * trainer.signs
        X, truth = np.empty((len(values), 0)), (trainer.signs > 0.0).astype(np.int64)
        public_records = PublicRecords(truth, values, LINEAR_VERB, logistic=spec.model.estimator == "logistic")
        return _evaluated(trainer.train(point), fitted, X, public_records, unlisted)
    if not isinstance(trainer, EstimatorTrainer):
        raise no_model()
    model = trainer.trained(point)
    verb = _verb_of(model, fitted)
    classes = np.asarray(trainer.truth if fitted.classes else np.zeros(len(trainer.truth)), dtype=np.int64)
    folds = fold_of(classes, seed=spec.search.seed)
    work = partial(_out_of_fold, verb=verb, folds=folds)
    outcome = trainer.numbers(work, point, spec.search.seed, shape=(len(folds),))
    bound = getattr(spec.model, "error_bound", None)
    public_records = PublicRecords(trainer.truth, outcome, verb, error_bound=bound)
    return _evaluated(model, fitted, trainer.X, public_records, unlisted)


def _out_of_fold(
    trainer: EstimatorTrainer, point: Mapping[str, Any], _seed: int, *, verb: Verb, folds: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return each public record's `verb` output, (n,), by a model at `point` trained without the record's fold."""
    outcome = np.full(len(folds), math.nan)
    for fold in range(folds.max() + 1):
        out = folds == fold
        without = trainer.fitted(~out, point)
        outcome[out] = _outcome(without, trainer.X[out], verb)
    return outcome


def file_model(spec: StudySpec, folder: str | Path, final: FinalModel) -> EvaluatedModel:
    """Return a saved model to evaluate, with its predictions of the study's public rows, which it may have seen."""
    fitted, model = final.preprocessing, final.model
    if training_parts(spec, folder) is not None:
        raise StudyInvalid(
            "the study names a folder of training files, and a model of a file needs the public records in memory",
            cause="it is asked about each public record",
            remedy="name one public file in a study for it",
        )
    table, target = training_table(spec, folder, fitted)
    if target != fitted.target:
        raise StudyInvalid(
            f"the model predicts {fitted.target!r}, and the study's target is {target!r}",
            cause="a model of another study",
            remedy="name a model of the same target",
        )
    encoded = fitted.transform(only_needed(table, fitted))
    labelled = encoded.labels >= 0
    X, truth = encoded.X[labelled], encoded.truth[labelled]
    if not labelled.any():
        raise StudyInvalid("the model can read no record of the public training file", remedy="name another model")
    if isinstance(model, LinearModel):
        values = model.margins(X, np.ones(len(X)))
        return _evaluated(model, fitted, X, PublicRecords(truth, values, LINEAR_VERB, logistic=True), "")
    verb = _verb_of(model, fitted)
    outcome, unlisted = _outcome(model, X, verb), unlisted_part(model.estimator)
    public = PublicRecords(truth, outcome, verb, error_bound=getattr(spec.model, "error_bound", None))
    return _evaluated(model, fitted, X, public, unlisted)


def no_model() -> StudyInvalid:
    """Return the error to raise where a study has no model to evaluate."""
    return StudyInvalid(
        "the study released no model that could be evaluated",
        cause="its method releases no hyperparameters",
        remedy="evaluate a model of a file, or a study whose method releases hyperparameters",
    )


def read_model(folder: str | Path) -> tuple[FinalModel, str]:
    """Return a saved model, from the folder dpbo or MLflow wrote, and the digest of its files."""
    inside = Path(folder) / "data" / "data"
    home = inside if (inside / NUMBERS).exists() else Path(folder)
    final, digest = FinalModel.load(home), hashlib.sha256()
    boosters = (name for name, _ in BOOSTER_FILES.values() if (home / name).exists())
    for name in (NUMBERS, ESTIMATOR, *boosters):
        path = home / name
        content = path.read_bytes() if path.exists() else b""
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return final, digest.hexdigest()


def estimator_of_file(spec: StudySpec, folder: str | Path, path: Path) -> tuple[FinalModel, str]:
    """Return an estimator that skops saved, as a model of the study's own columns, and its file's digest.

    It must hold trusted types alone, and be fitted on named columns of the study with its labels, 0, 1, ….
    """
    content = path.read_bytes()  # once: what is hashed is what is loaded
    estimator = loaded_estimator(path, verb="predict", content=content)
    table, target = training_table(spec, folder, cells=True)
    fitted = named_map(spec, table, target)
    wanted, had = getattr(estimator, "feature_names_in_", None), {one.name: one for one in fitted.features}
    labels = tuple(range(len(fitted.classes)))
    predicted = tuple(getattr(estimator, "classes_", ())) if fitted.classes else ()
    if wanted is None or not set(wanted) <= set(had) or not predicted == labels == fitted.classes:
        raise StudyInvalid(
            f"the estimator in {str(path)!r} cannot be given the study's records",
            cause="it was not fitted on a data frame with columns of the study, or its labels are not the study's, "
            "counted from 0",
            remedy='write its predictions into a column, and name it: against = "column:NAME"',
        )
    fitted = replace(fitted, features=tuple(had[name] for name in wanted), ignored=frozenset())
    row = fitted.transform(only_needed(table, fitted)).X[0]
    model = FittedEstimator(estimator, row, columns=fitted.columns)
    return FinalModel(fitted, model), hashlib.sha256(content).hexdigest()


def _verb_of(model: FittedEstimator, fitted: Preprocessing) -> Verb:
    """The method to evaluate: `predict`; of two classes `predict_proba`, else `decision_function`, or refused."""
    if len(fitted.classes) != 2:
        return "predict"
    for verb in ("predict_proba", "decision_function"):
        if callable(getattr(model.estimator, verb, None)):
            return verb
    raise StudyInvalid(
        f"{type(model.estimator).__name__} gives neither probabilities nor decision values",
        cause="it names a class alone, so that there is nothing to rank the records by",
        remedy="evaluate a model with predict_proba or decision_function",
    )


def _evaluated(
    model: LinearModel | FittedEstimator,
    fitted: Preprocessing,
    X: NDArray[np.float64],
    public: PublicRecords,
    unlisted: str,
) -> EvaluatedModel:
    """Return a fitted model to evaluate, public outcomes that are not finite dropped."""
    C, truth, outcome = len(fitted.classes), public.truth, public.outcome
    kind = report_kind(fitted)
    if C and public.verb == "predict":
        outcome = np.where(np.isin(outcome, np.arange(C)), np.nan_to_num(outcome), -1.0).astype(np.int64)
    else:
        sound = np.isfinite(outcome)
        X, truth, outcome = X[sound], truth[sound], outcome[sound]
    public = replace(public, truth=truth, outcome=outcome, classes=tuple(map(shown, fitted.classes)))
    return EvaluatedModel(kind, model, fitted, X, public, unlisted)


def report_kind(fitted: Preprocessing, *, private: bool = False) -> type[ReportKind]:
    """Return the kind of report on a model by its number of classes, over 50 refused; or of a private training."""
    C = len(fitted.classes)
    if private:
        return Multiclass
    if C > MAX_CLASSES:
        raise StudyInvalid(
            f"the target has {C} classes, and at most {MAX_CLASSES} can be evaluated",
            cause="the table has a cell for every pair of classes, and noise in each",
            remedy="put rare classes together",
        )
    return Binary if C == 2 else Multiclass if C else Regression


def _outcome(model: FittedEstimator, X: NDArray[np.float64], verb: Verb) -> NDArray[np.float64]:
    """The model's `verb` output for PUBLIC rows, (n,), of probabilities the second; another shape is refused."""
    outcome = model.outcome(X, verb)
    if outcome is None or (outcome.ndim == 2 and outcome.shape[1] != 2):
        raise StudyInvalid(
            f"{type(model.estimator).__name__} fails on public rows",
            cause=f"its {verb} gives no class or number for each row, or a fold has one class alone",
            remedy="give more public records of each class, or evaluate another model",
        )
    return as_numbers(outcome[:, 1] if outcome.ndim == 2 else outcome)
