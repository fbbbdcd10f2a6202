"""The final model beside its release, and in the registry when asked."""

from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbo.tasks.reporting.literal import in_markdown
from dpbo.tasks.reporting.mlflow_store import Store
from dpbo.tasks.reporting.shown import RELEASE_TAG
from dpbo_core.data.features import Category
from dpbo_core.errors import StudyInvalid
from dpbo_core.final_model import dpbo_served_model
from dpbo_core.final_model.boosters import packages_of
from dpbo_core.final_model.train import FinalModel
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.privacy.release import Release

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient
    from mlflow.types import Schema

FOLDER = "model"
REFUSED_TAG = "dpbo.final_model"  # why a run has no model, where it should have one


def put_model(store: Store, run_id: str, model: FinalModel, scratch: Path) -> None:
    """Save `model` as MLflow's own kind of folder, which `mlflow.pyfunc.load_model` opens.

    A model of foreign code is not kept, and the run says so: the release is shown all the same.
    """
    folder = scratch / FOLDER
    try:
        data = model.save(scratch / "data")
    except StudyInvalid as refused:
        store.client.set_tag(run_id, REFUSED_TAG, refused.message())
        return
    save_served(model, data, folder)
    store.put(run_id, folder, FOLDER)


def save_served(model: FinalModel, data: Path, folder: Path) -> None:
    """MLflow's folder of the model that was saved in `data`, which loads and serves where dpbo is not installed.

    With a loader module MLflow copies the files and pickles nothing. The module is one file of ours, carried along;
    the example is made up from public means and categories.
    """
    import mlflow.pyfunc
    import pandas as pd
    from mlflow.models import ModelSignature
    from mlflow.types import ParamSchema, ParamSpec

    needs = ["numpy", "pandas"]
    if not isinstance(model.model, LinearModel):
        needs += ["scikit-learn", "skops", *packages_of(model.model.estimator)]
    mlflow.pyfunc.save_model(
        str(folder),
        loader_module=dpbo_served_model.__name__.rpartition(".")[2],
        data_path=str(data),
        code_paths=[str(dpbo_served_model.__file__)],
        signature=ModelSignature(
            inputs=_inputs(model),
            outputs=_outputs(model),
            params=ParamSchema([ParamSpec("predict_method", "string", dpbo_served_model.PREDICT)]),
        ),
        input_example=pd.DataFrame(model.example()),
        pip_requirements=[f"{name}=={version(name)}" for name in needs],
    )


def _inputs(model: FinalModel) -> "Schema":
    """The columns by name; a text for each that holds texts, and for a number anything.

    MLflow refuses whole numbers and truth values where a signature says double, so that a table straight from a CSV
    file would not do; the module reads them all.
    """
    from mlflow.types import ColSpec, Schema
    from mlflow.types.schema import AnyType

    features = model.preprocessing.features
    return Schema([ColSpec("string" if isinstance(one, Category) else AnyType(), one.name) for one in features])


def _outputs(model: FinalModel) -> "Schema":
    from mlflow.types import Schema, TensorSpec

    classes = np.array(model.classes or [0.0])
    return Schema([TensorSpec(np.dtype(str if classes.dtype.kind == "U" else float), (-1,))])


def register(store: Store, run_id: str, release: Release) -> None:
    """A version of the study's registered model, once a release; none where the run says why it has no model."""
    from mlflow.exceptions import MlflowException

    client, name = store.client, registered_name(release)
    if REFUSED_TAG in client.get_run(run_id).data.tags:
        return
    if any(item.tags.get(RELEASE_TAG) == release.release_id for item in _versions(client, name)):
        return
    with suppress(MlflowException):  # it is there already, or creating the version says what is wrong
        client.create_registered_model(
            name, description=f"{in_markdown(release.study)}: models of private releases."
        )
    source = f"{client.get_run(run_id).info.artifact_uri}/{FOLDER}"
    client.create_model_version(
        name,
        source,
        run_id,
        tags={RELEASE_TAG: release.release_id, "dpbo.edition": release.edition},
        description=in_markdown(release.guarantee.in_words()),
    )


def registered_name(release: Release) -> str:
    """The study's name, without the two characters that MLflow's addresses use."""
    return release.study.replace("/", "-").replace(":", "-")


def _versions(client: "MlflowClient", name: str) -> list[Any]:
    escaped = name.replace("'", "''")
    return list(client.search_model_versions(f"name = '{escaped}'"))
