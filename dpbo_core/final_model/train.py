"""The model to use, trained on the PUBLIC set at the released hyperparameters. Post-processing.

No validation record takes part, so it may be kept, copied and published like the training set itself. Its files
hold no code (`storage`). `_load_pyfunc` is the function by which MLflow opens a saved one; which module's that is,
MLflow's own file beside the model says: where others can write there, use `load`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Preprocessing, table_of
from dpbo_core.errors import StudyInvalid
from dpbo_core.final_model import storage
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.trainer import Model
from dpbo_core.privacy.release import Release
from dpbo_core.spec import StudySpec
from dpbo_core.study.data_split import public_half
from dpbo_core.study.public_half import PublicHalf


@dataclass(frozen=True, eq=False)
class FinalModel:
    """Raw columns in, classes (or, of a regression, numbers) out."""

    preprocessing: Preprocessing
    model: Model

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it needs, in the order of the training table."""
        return tuple(feature.name for feature in self.preprocessing.features)

    def predict(self, table: Mapping[str, Sequence[object]]) -> NDArray[Any]:
        """The class or number of each record, (m,).

        Args:
            table: a data frame, or columns by name; more columns than needed do no harm.

        Raises:
            StudyInvalid: a column is missing.
        """
        missing = [name for name in self.columns if name not in table]
        if missing:
            raise StudyInvalid(
                f"the table lacks the column {missing[0]!r}", remedy=f"give the columns {', '.join(self.columns)}"
            )
        n_records = len(table[self.columns[0]])
        columns: dict[str, Sequence[object]] = {name: list(table[name]) for name in self.columns}
        stand_in = self.preprocessing.classes[0] if self.preprocessing.classes else 0.0
        columns[self.preprocessing.target] = [stand_in] * n_records  # not used
        X = self.preprocessing.transform(table_of(columns)).X
        classes = np.array(self.preprocessing.classes)
        if isinstance(self.model, LinearModel):
            return np.asarray(classes[(self.model.margins(X, np.ones(n_records)) > 0.0).astype(int)])
        predicted = np.asarray(self.model.estimator.predict(X))
        return np.asarray(classes[predicted.astype(int)]) if len(classes) else predicted

    def save(self, folder: Path) -> Path:
        """Write it into `folder`, which is made; the folder.

        Raises:
            StudyInvalid: the estimator cannot be loaded again without running code of its own.
        """
        folder.mkdir(parents=True, exist_ok=True)
        storage.write(folder, self.preprocessing, self.model)
        return folder


def train_final(
    spec: StudySpec, folder: str | Path, release: Release, public: PublicHalf | None = None
) -> FinalModel | None:
    """The model at what `release` chose; None where it released no hyperparameters, or a model of its own.

    Args:
        spec: the study.
        folder: the folder that the study's data paths are relative to.
        release: what it released.
        public: its public half where that is at hand. A trainer's models are functions of its rows and the point,
            so one that has trained this very point need not do it again.

    Raises:
        StudyInvalid: the training data is no longer what the study says.
    """
    if not model_is_public(release):
        return None
    public = public or public_half(spec, folder)
    if public.problem.trainer is None:  # the training set is sensitive: nothing but the release may come of it
        return None
    return FinalModel(public.preprocessing, public.problem.trainer.train(release.value["hyperparameters"]))


def model_is_public(release: Release) -> bool:
    """Whether a model may be trained at what was released; a release that is a model itself needs none."""
    return bool(release.value.get("hyperparameters")) and "model" not in release.value


def load(folder: str | Path) -> FinalModel:
    """What `save` wrote; a file that names a type beyond scikit-learn's is refused before anything of it is built.

    Raises:
        StudyInvalid: it is missing, damaged, or names such a type.
    """
    return FinalModel(*storage.read(Path(folder)))


_load_pyfunc = load
