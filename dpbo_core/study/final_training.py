"""The model to use, trained on the PUBLIC set at the released hyperparameters. Post-processing.

No validation record takes part, so it may be kept, copied and published like the training set itself. Its files
hold no code (`storage`), and MLflow opens them by `dpbo_served_model`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Preprocessing
from dpbo_core.data.features import Category, Feature
from dpbo_core.data.named_columns import NamedColumn
from dpbo_core.data.raw_cells import time_in_words
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.final_model import storage
from dpbo_core.models.final_model.dpbo_served_model import Linear, listed, model_rows
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.privacy.release import Release
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import public_half
from dpbo_core.study.model import PREDICTIONS
from dpbo_core.study.public_half import PublicHalf

if TYPE_CHECKING:
    from dpbo_core.models.estimators import Model

SCALAR_TYPES = (str, bytes, int, float, type(None))


@dataclass(frozen=True, eq=False)
class FinalModel:
    """Raw columns in; classes, numbers, probabilities or decision values out.

    Rows are given as a data frame, as columns by name, as a list of dicts, or one row as a dict; more columns than
    needed do no harm.

    Attributes:
        preprocessing: from raw columns to the model's rows, fitted on the public set.
        model: trained on the public set.
        loss: of a linear model, whose margins are log-odds where it is "logistic"; None of any other.
        training: the PUBLIC training set's fingerprint; "" in one that was loaded.
    """

    preprocessing: Preprocessing
    model: "Model"
    loss: str | None = None
    training: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the model predicts from, without the target, in the order of the training table."""
        return tuple(feature.name for feature in self.preprocessing.features)

    @property
    def classes(self) -> tuple[float | str, ...]:
        """The training classes, sorted, in the order of the probabilities; empty for a regression."""
        return self.preprocessing.classes

    def predict(self, table: Any) -> NDArray[Any]:
        """Return the predicted class or number of each row, (m,); an unusable row's features count as 0.

        Raises:
            StudyInvalid: a column is missing.
        """
        predicted = np.asarray(self._estimator.predict(self._encoded(table)))
        return np.array(self.classes)[predicted.astype(int)] if self.classes else predicted

    @property
    def predict_proba(self) -> Callable[[Any], NDArray[np.float64]]:
        """A function of a table: the probability of each of `classes`, (m, C); AttributeError if it gives none.

        Raises:
            AttributeError: the model gives none: a regression, a linear model of another loss than the logistic.
            StudyInvalid: (of the call) a column is missing.
        """
        return self._estimator_method("predict_proba")

    @property
    def decision_function(self) -> Callable[[Any], NDArray[np.float64]]:
        """A function of a table: decision values, (m,) > 0 for the second class, or (m, C); AttributeError if none.

        Raises:
            AttributeError: the model gives none.
            StudyInvalid: (of the call) a column is missing.
        """
        return self._estimator_method("decision_function")

    def example(self) -> dict[str, list[Any]]:
        """Return an input table of two made-up rows, from the PUBLIC set's means and categories alone."""
        return {feature.name: _made_up_values(feature) for feature in self.preprocessing.features}

    def _estimator_method(self, verb: str) -> Callable[[Any], NDArray[np.float64]]:
        method = getattr(self._estimator, verb, None)
        if not callable(method):
            raise AttributeError(f"this model has no {verb}")
        return lambda table: np.asarray(method(self._encoded(table)))

    @property
    def _estimator(self) -> Any:
        # with scikit-learn's methods: the trained estimator, or one around our linear model
        if isinstance(self.model, LinearModel):
            return Linear(storage.linear_fields(self.model, self.loss))
        return self.model.estimator

    def _encoded(self, table: Any) -> Any:
        return model_rows(self.preprocessing, columns_of(table, self.columns))

    @classmethod
    def load(cls, folder: str | Path) -> "FinalModel":
        """Return the model in a folder that `save` wrote; untrusted types are refused before they are built.

        Raises:
            StudyInvalid: it is missing, damaged, or names such a type.
        """
        return cls(*storage.read(Path(folder)))

    @classmethod
    def of_release(
        cls, spec: StudySpec, folder: str | Path, release: Release, public: PublicHalf | None = None
    ) -> "FinalModel | None":
        """Return a model trained on the public set at the released hyperparameters.

        None if `model_is_public` says that there is none to train, or if the training set is sensitive.

        Args:
            spec: the study.
            folder: the folder that the study's data paths are relative to.
            release: what it released.
            public: its public half, if it was read already; a model that its trainer has is not trained again.

        Raises:
            StudyInvalid: the training data is no longer what the study says.
            PolicyRefused: the study's score is a function, and its public half was not handed in.
        """
        if not model_is_public(release):
            return None
        public = public or public_half(spec, folder)
        if public.problem.trainer is None:  # the training set is sensitive: nothing but the release may come of it
            return None
        return cls(
            public.preprocessing,
            public.problem.trainer.train(release.value["hyperparameters"]),
            loss=spec.model.loss,
            training=public.fingerprint,
        )

    def save(self, folder: Path) -> Path:
        """Write the model into `folder`, made if need be, and return that; refused if it is unsafe to load.

        Raises:
            StudyInvalid: the estimator cannot be loaded again without running code of its own.
        """
        folder.mkdir(parents=True, exist_ok=True)
        storage.write(folder, self.preprocessing, self.model, self.loss)
        return folder


def _made_up_values(feature: Feature | NamedColumn) -> list[Any]:
    if isinstance(feature, NamedColumn):
        return _two_public_values(feature)
    if isinstance(feature, Category):
        return [feature.values[0], feature.values[-1]]
    if feature.truth:
        return [False, True]
    middle = feature.mean if feature.stand_in is None else feature.stand_in
    return [middle, middle + feature.deviation]


def _two_public_values(column: NamedColumn) -> list[Any]:
    if column.kind == "truth":
        return [False, True]
    if column.kind in ("text", "category"):
        return [column.values[0], column.values[-1]] if column.values else ["a text", "another"]
    if column.stand_in is None:
        return [None, None]
    if column.kind == "time":
        return [time_in_words(int(column.stand_in), UTC if "," in column.dtype else None)] * 2
    return [column.stand_in] * 2


def model_is_public(release: Release) -> bool:
    """Return whether a model can be trained in public at released hyperparameters, of no made predictions."""
    chosen = bool(release.value.get("hyperparameters")) and "model" not in release.value
    return chosen and release.facts.get("estimator") != PREDICTIONS


def columns_of(rows: Any, names: tuple[str, ...]) -> dict[str, list[object]]:
    """Return the columns `names` of a table in memory as lists of one value a row; refused if one is missing.

    `rows`: a data frame; columns by name; a list of dicts, one a row, which may lack what others have; or one dict,
    which is one row.
    """
    if isinstance(rows, list | tuple):
        rows = _of_dicts(rows)
    if not isinstance(rows, Mapping) and not hasattr(rows, "columns"):
        raise StudyInvalid(
            f"a {type(rows).__name__} has no named columns",
            cause="the model was trained on a table, whose columns it knows by name",
            remedy="give a data frame, columns by name, or rows as dicts",
        )
    missing = [name for name in names if name not in rows]
    if missing:
        raise StudyInvalid(
            f"the table lacks the column {missing[0]!r}", remedy=f"give the columns {', '.join(names)}"
        )
    if isinstance(rows, Mapping) and all(isinstance(rows[name], SCALAR_TYPES) for name in names):
        return {name: [rows[name]] for name in names}
    columns = {name: listed(rows[name]) for name in names}
    if len({len(column) for column in columns.values()}) > 1:
        raise StudyInvalid("the columns differ in length", remedy="give one value of each column for every row")
    return columns


def _of_dicts(rows: Sequence[Any]) -> dict[str, list[object]]:
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise StudyInvalid(
            "the list is empty, or not of dicts", remedy='give rows as dicts: [{"age": 51, "sex": "f"}, …]'
        )
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
