"""The model that is evaluated: public, with its decision values on public records; of other than two classes, or of
numbers, with what it predicts there (`public_predictions`).

| symbol | name here | meaning | shape |
|---|---|---|---|
| n | — | public training records | scalar |
| s | `values` | their decision values; for the study's model, as trained without the record's fold | (n,) |
| y | `positive` | whether a public record is of the larger class | (n,) bool |
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Preprocessing
from dpbo_core.errors import StudyInvalid
from dpbo_core.evaluation.counting import Counter
from dpbo_core.evaluation.places import Grouping, Place, needed, only_needed
from dpbo_core.evaluation.public_predictions import Predictions, cross_predicted, of_rows, privately_trained
from dpbo_core.final_model import FinalModel, load
from dpbo_core.final_model.storage import ESTIMATOR, NUMBERS
from dpbo_core.final_model.train import model_is_public
from dpbo_core.models.cross_validation import fold_of
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import FittedEstimator, Model
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel
from dpbo_core.models.linear_trainer import LinearTrainer
from dpbo_core.models.listed.inspection import unlisted_part
from dpbo_core.models.outcome import Verb
from dpbo_core.models.rowwise import check_rowwise
from dpbo_core.privacy.release import Release
from dpbo_core.spec import StudySpec
from dpbo_core.study.data_split import training_table
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.training_set import training_parts

LINEAR: Verb = "decision_function"  # what a linear model's margins stand for
MARGIN, PROBABILITY = 0.0, 0.5  # above which a decision value means the larger class


@dataclass(frozen=True, eq=False, repr=False)
class Subject:
    """A public model and what the public records say of it.

    Attributes:
        model: trained; not yet held to predicting row by row.
        preprocessing: from raw columns to its rows.
        X: the public rows, preprocessed, (n, d); of a linear model that is trained here none is needed, (n, 0).
        values: (n,).
        positive: (n,).
        verb: the estimator's verb that gives decision values; unused by a linear model.
        threshold: the model's own.
        probable: how a decision value becomes a probability: "itself", "logistic", or "" for not at all.
        unlisted: what in it is not known to predict each row alone; "" for nothing.
    """

    model: Model
    preprocessing: Preprocessing
    X: NDArray[np.float64]
    values: NDArray[np.float64]
    positive: NDArray[np.bool_]
    verb: Verb
    threshold: float
    probable: str
    unlisted: str

    @property
    def columns(self) -> tuple[str, ...]:
        """What it needs of a table, the target last."""
        return needed(self.preprocessing)

    def probability(self, values: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """What the model says the probability of the larger class is, at each decision value."""
        if self.probable == "itself":
            return values
        return 0.5 * (1.0 + np.tanh(0.5 * values)) if self.probable == "logistic" else None

    def counted(self, place: Place, *, enforced: bool) -> Model:
        """The model, held to predicting each row by itself, or made to.

        Raises:
            StudyInvalid: it does not on public rows.
        """
        if isinstance(self.model, LinearModel):
            return self.model
        if enforced:
            from dpbo_core.models.enforced.enforced_model import alone

            truth = self.positive.astype(np.int64)
            return replace(self.model, alone=alone(self.model.estimator, self.X, truth, place, known={}))
        check_rowwise(self.model, self.X, needs=self.verb)
        return replace(self.model, alone=None)


def subject_counter(
    subject: Subject | Predictions, edges: tuple[float, ...], grouping: Grouping | None, *, enforced: bool
) -> Counter:
    """What counts a table under the subject, held to predicting each row by itself, or made to.

    Raises:
        StudyInvalid: it does not on public rows.
    """
    if isinstance(subject, Predictions):
        of_predictions = subject.place(edges)
        return Counter(
            subject.preprocessing, subject.counted(of_predictions, enforced=enforced), of_predictions, grouping
        )
    place = Place(edges, subject.verb)
    return Counter(subject.preprocessing, subject.counted(place, enforced=enforced), place, grouping)


def released_model(spec: StudySpec, public: PublicHalf, release: Release) -> Subject | Predictions:
    """The study's own model, trained on its public set at what it released.

    Raises:
        StudyInvalid: there is no such model, or it cannot be evaluated.
    """
    if public.problem.trainer is None:
        return private_model(public, release)
    if not model_is_public(release):
        raise no_model()
    return model_at(spec, public, release.value["hyperparameters"])


def private_model(public: PublicHalf, release: Release) -> Predictions:
    """The model that a private training released, from the release alone: its confusion matrix can be told.

    Raises:
        StudyInvalid: it released none.
    """
    told = release.value.get("model")
    if told is None:
        raise StudyInvalid(
            "the study released no model that could be evaluated",
            cause="none of its trials came to one, or one of a function of yours that is no linear model",
            remedy="ask the study under a new edition, with more steps",
        )
    weights = np.array(told["weights"], dtype=np.float64)
    model = LinearModel(weights, 0.0, math.inf) if weights.ndim == 1 else SoftmaxModel(weights)
    return privately_trained(public.preprocessing, model)


def model_at(spec: StudySpec, public: PublicHalf, point: Mapping[str, Any]) -> Subject | Predictions:
    """The model at any hyperparameters, trained on the study's public set.

    Raises:
        StudyInvalid: it has too many classes, or gives no decision values where there are two.
    """
    trainer, fitted = public.problem.trainer, public.preprocessing
    if trainer is None:  # the training set is sensitive: whichever will be released has such a shape
        return privately_trained(fitted, LinearModel(np.zeros(fitted.n_features), 0.0, math.inf))
    if len(fitted.classes) != 2 and isinstance(trainer, EstimatorTrainer):
        return cross_predicted(spec, trainer, fitted, point, public.problem.unlisted)
    seed, verb, unlisted = spec.search.seed, LINEAR, public.problem.unlisted
    if isinstance(trainer, LinearTrainer):
        model: Model = trainer.train(point)
        values = trainer.public_margins(point, seed=seed) * trainer.signs
        positive, X = trainer.signs > 0.0, np.empty((len(values), 0))
        return _subject(model, fitted, X, values, positive, verb, spec.model.estimator, unlisted)
    if isinstance(trainer, EstimatorTrainer):
        model = trainer.train(point)
        verb = verb_of(model)
        values, positive = _estimator_values(trainer, point, verb, seed), trainer.truth == 1
        return _subject(model, fitted, trainer.X, values, positive, verb, spec.model.estimator, unlisted)
    raise no_model()


def file_model(spec: StudySpec, folder: str | Path, final: FinalModel) -> Subject | Predictions:
    """A model that was saved: its values are those on the study's public rows, some of which it may have seen.

    Raises:
        StudyInvalid: it does not fit the study's tables, or cannot be evaluated.
    """
    fitted = final.preprocessing
    if training_parts(spec, folder) is not None:
        raise StudyInvalid(
            "the study names a folder of training files, and a model of a file needs the public records in memory",
            cause="it is asked about each public record",
            remedy="name one public file in a study for it",
        )
    table, target = training_table(spec, folder, cells=fitted.columns is not None)
    if target != fitted.target:
        raise StudyInvalid(
            f"the model predicts {fitted.target!r}, and the study's target is {target!r}",
            cause="a model of another study",
            remedy="name a model of the same target",
        )
    encoded = fitted.transform(only_needed(table, fitted))
    known = encoded.labels >= 0
    X, positive = encoded.X[known], encoded.labels[known] == 1
    model = final.model
    if not known.any():
        raise StudyInvalid("the model can read no record of the public training file", remedy="name another model")
    if len(fitted.classes) != 2 and isinstance(model, FittedEstimator):
        return of_rows(spec, model, fitted, X, encoded.truth[known], unlisted_part(model.estimator))
    if isinstance(model, LinearModel):
        values = model.margins(X, np.ones(len(X)))
        return _subject(model, fitted, X, values, positive, LINEAR, "logistic", "")
    verb = verb_of(model)
    found = _values(model, X, verb)
    return _subject(model, fitted, X, found, positive, verb, "", unlisted_part(model.estimator))


def no_model() -> StudyInvalid:
    """The message where there is nothing to evaluate."""
    return StudyInvalid(
        "the study released no model that could be evaluated",
        cause="its method releases no hyperparameters",
        remedy="evaluate a model of a file, or a study whose method releases hyperparameters",
    )


def read_model(folder: str | Path) -> tuple[FinalModel, str]:
    """A saved model, by itself or inside the folder in which MLflow shows it, and the digest of its files.

    Raises:
        StudyInvalid: it cannot be read.
    """
    inside = Path(folder) / "data" / "data"
    home = inside if (inside / NUMBERS).exists() else Path(folder)
    final, digest = load(home), hashlib.sha256()
    for name in (NUMBERS, ESTIMATOR):
        path = home / name
        content = path.read_bytes() if path.exists() else b""
        digest.update(f"{name} {len(content)}\n".encode() + content)
    return final, digest.hexdigest()


def verb_of(model: Any) -> Verb:
    """The verb that gives a fitted estimator's decision values.

    Raises:
        StudyInvalid: it has none.
    """
    for verb in ("predict_proba", "decision_function"):
        if callable(getattr(model.estimator, verb, None)):
            return verb
    raise StudyInvalid(
        f"{type(model.estimator).__name__} gives neither probabilities nor decision values",
        cause="it names a class alone, so that there is nothing to rank the records by",
        remedy="evaluate a model with predict_proba or decision_function",
    )


def _subject(
    model: Model,
    fitted: Preprocessing,
    X: NDArray[np.float64],
    values: NDArray[np.float64],
    positive: NDArray[np.bool_],
    verb: Verb,
    estimator: str,
    unlisted: str,
) -> Subject:
    sound = np.isfinite(values)
    probable = "itself" if isinstance(model, FittedEstimator) and verb == "predict_proba" else ""
    probable = "logistic" if isinstance(model, LinearModel) and estimator == "logistic" else probable
    threshold = PROBABILITY if probable == "itself" else MARGIN
    return Subject(model, fitted, X[sound], values[sound], positive[sound], verb, threshold, probable, unlisted)


def _estimator_values(trainer: EstimatorTrainer, point: Any, verb: Verb, seed: int) -> NDArray[np.float64]:
    folds = fold_of(np.asarray(trainer.truth, dtype=np.int64), seed=seed)
    values = np.full(len(folds), math.nan)
    for fold in range(folds.max() + 1):
        out = folds == fold
        fitted = trainer.factory.train(trainer.X[~out], trainer.truth[~out], **point)
        values[out] = _values(fitted, trainer.X[out], verb)
    return values


def _values(model: FittedEstimator, X: NDArray[np.float64], verb: Verb) -> NDArray[np.float64]:
    """Decision values of PUBLIC rows."""
    outcome = model.outcome(X, verb)
    if outcome is None or (outcome.ndim == 2 and outcome.shape[1] != 2):
        raise StudyInvalid(
            f"{type(model.estimator).__name__} fails on public rows",
            cause=f"its {verb} gives no number for each row, or a fold has one class alone",
            remedy="give more public records of both classes, or evaluate another model",
        )
    return np.asarray(outcome[:, 1] if outcome.ndim == 2 else outcome, dtype=np.float64)
