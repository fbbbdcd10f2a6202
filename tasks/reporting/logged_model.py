"""The final model beside its release, and in the registry when asked."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbo.tasks.reporting.document import interval, score
from dpbo.tasks.reporting.logged_numbers import score_rows
from dpbo.tasks.reporting.mlflow_store import RELEASE_TAG, Store, open_store
from dpbo_core.data.features import Feature, Number
from dpbo_core.data.named_columns import NamedColumn
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.final_model.dpbo_served_model import PREDICT
from dpbo_core.models.final_model.storage import is_linear, packages_of, write_served_code
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.privacy.guarantee import PrivacyUnit
from dpbo_core.privacy.release import Release, displayed_metric
from dpbo_core.report import KIND as EVALUATION
from dpbo_core.study.final_training import FinalModel

if TYPE_CHECKING:
    from mlflow.models import ModelSignature
    from mlflow.tracking import MlflowClient

    from dpbo_core.report.repair import Repair

FOLDER, REPAIRED = "model", "repaired"  # the second is the repaired one's alias too
WARNING_FUNCTION = "warn_dependency_requirement_mismatches"
_PATCH_LOCK = threading.Lock()  # else one would put back what another had put there
DIGEST_DIGITS = 16  # of a digest; MLflow takes 36
NO_DIGEST = "private"  # instead of the digest of sensitive records: it would tell which records they are
MAX_DATASET_NAME = 500  # characters that MLflow takes
CHAMPION_ALIAS, NEWEST_ALIAS = "champion", "newest"  # of the version in use, and of the one registered last
CHAMPION_TAG, FIRST_CHAMPION = "dpbo.champion", "the first one"
MODELS_NOTE = (
    "**champion**, version {champion}, is in use.{newer} Scores alone do not decide: one interval in ten misses "
    "the true score, and where two overlap noise may be all that differs."
)
NEWER_NOTE = (
    " **newest** is version {newest}, which stays out of use until a comparison finds it better. This compares "
    "them at the ε of `[evaluation]`, and makes it the champion if it is better: "
    "`dpbo evaluate STUDY.toml --against models:/{name}@champion --register`."
)
REFUSED_TAG = "dpbo.final_model"  # why a run has no model, where it should have one


def put_model(store: Store, run_id: str, release: Release, model: FinalModel, scratch: Path) -> None:
    """Log `model` as the run's model in MLflow; where `FinalModel.save` refuses it, a tag of the run says why."""
    folder = scratch / FOLDER
    try:
        data = model.save(scratch / "data")
    except StudyInvalid as refused:
        store.client.set_tag(run_id, REFUSED_TAG, refused.message())
        return
    save_served(model, data, folder)
    store.put(run_id, folder, FOLDER)
    _log_model(store, run_id, release, folder)


def _log_model(store: Store, run_id: str, release: Release, folder: Path) -> None:
    experiment = store.client.get_run(run_id).info.experiment_id
    models = store.client.search_logged_models([experiment], f"source_run_id = '{run_id}'", max_results=1)
    logged = models[0] if models else None
    if logged is None:
        chosen = {name: str(value) for name, value in release.value["hyperparameters"].items()}
        logged = _created(
            store,
            run_id,
            name=FOLDER,
            tags={RELEASE_TAG: release.release_id, "dpbo.guarantee": release.guarantee.in_words()},
            params=chosen
            | ({"private_score": str(release.value["score"])} if release.value.get("score") is not None else {}),
            model_type=str(release.facts.get("estimator", "")) or None,
        )
    _fill(store, logged, folder)
    _measure(store, run_id, release, logged.model_id)


def name_datasets(store: Store, run_id: str, release: Release, model: FinalModel | None) -> None:
    """Name the run's data: the sensitive set, of which no digest is made, and the public training set."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    whole = release.guarantee.unit is PrivacyUnit.TRAINING_RECORD
    named = [(release.dataset, NO_DIGEST, "sensitive records", "training, validation" if whole else "validation")]
    if model is not None:
        digest = model.training[:DIGEST_DIGITS]
        named.append((f"{release.study} (public rows)", digest, "the public training set", "training"))
    for name, digest, kind, context in named:
        data = Dataset(name[:MAX_DATASET_NAME], digest, kind, "{}")
        store.client.log_inputs(run_id, [DatasetInput(data, [InputTag("mlflow.data.context", context)])])


def _measure(store: Store, run_id: str, release: Release, model_id: str) -> None:
    """Log the run's released scores on its logged model, as of the sensitive set, of which no digest is made."""
    from mlflow.entities import Metric

    scores = [
        Metric(one.key, one.value, one.timestamp, one.step, model_id, release.dataset, NO_DIGEST, run_id)
        for name, *_ in score_rows(release)[:1]
        for one in store.client.get_metric_history(run_id, name)
    ]
    store.client.log_batch(run_id, metrics=scores)  # the run has them, and takes none twice


def _created(store: Store, run_id: str, **described: Any) -> Any:
    from mlflow.entities import LoggedModelOutput

    experiment = store.client.get_run(run_id).info.experiment_id
    logged = store.client.create_logged_model(experiment, source_run_id=run_id, **described)
    store.client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
    return logged


def _fill(store: Store, logged: Any, folder: Path) -> None:
    store.put_model(logged, folder)
    store.client.finalize_logged_model(logged.model_id, "READY")


def put_repaired(
    store: Store, run_id: str, release: Release, repair: "Repair", model: FinalModel, scratch: Path
) -> None:
    """Save, log and register the repaired model, once, and give its version the alias `repaired`."""
    from dpbo_core.report.repair import NO_PRICE_NOTE

    folder, client = scratch / REPAIRED, store.client
    name = registered_name(release.study.removesuffix(f"/{EVALUATION}"))
    fit = {term: repr(number) for term, number in repair.terms.items()}
    mine = {RELEASE_TAG: release.release_id, **{f"dpbo.repair.{term}": number for term, number in fit.items()}}
    for made in versions(client, name):
        if mine.items() <= made.tags.items():
            client.set_registered_model_alias(name, REPAIRED, made.version)
            return
    save_served(model, model.save(scratch / "data"), folder)
    store.put(run_id, folder, REPAIRED)
    tags = {**mine, "dpbo.guarantee": NO_PRICE_NOTE, "dpbo.repair": "; ".join(repair.why)}
    _fill(store, _created(store, run_id, name=REPAIRED, tags=tags, params=fit), folder)
    made = _new_version(store, run_id, name, REPAIRED, tags=tags, description=NO_PRICE_NOTE)
    client.set_registered_model_alias(name, REPAIRED, made.version)


def save_served(model: FinalModel, data: Path, folder: Path) -> None:
    """Write to `folder` what MLflow loads and serves, without dpbo, of the model that was saved in `data`.

    With a loader module MLflow copies the files and pickles nothing. The module is carried along, and so is what it
    imports of ours; the example is made up from public means and categories.
    """
    import mlflow.pyfunc
    import pandas as pd

    needs = ["numpy", "pandas"]
    if not isinstance(model.model, LinearModel) and not is_linear(model.model.estimator):
        needs += ["scikit-learn", "skops", *packages_of(model.model.estimator)]
    signature = _signature(model)
    types = dict(zip(signature.inputs.input_names(), signature.inputs.pandas_types(), strict=True))
    code, loader = write_served_code(folder.with_name(f"{folder.name}_code"))
    with _requirements_not_compared():
        mlflow.pyfunc.save_model(
            str(folder),
            loader_module=loader,
            data_path=str(data),
            code_paths=[str(code)],
            signature=signature,
            input_example=pd.DataFrame(model.example()).astype(types),
            pip_requirements=[f"{name}=={version(name)}" for name in needs],
        )


@contextmanager
def _requirements_not_compared() -> Iterator[None]:
    """Return a context in which MLflow, in the whole process, does not compare requirements with installed
    packages.

    MLflow would look at every file of every installed package, which takes longer than all else. A version of
    MLflow without this function is left as it is.
    """
    from mlflow.utils import environment

    with _PATCH_LOCK:
        original = getattr(environment, WARNING_FUNCTION, None)
        if original is None:
            yield
            return
        setattr(environment, WARNING_FUNCTION, lambda _: None)
        try:
            yield
        finally:
            setattr(environment, WARNING_FUNCTION, original)


def _signature(model: FinalModel) -> "ModelSignature":
    """The model's MLflow signature: each PUBLIC column's name and type, and the label, named as the target is.

    A number is a double, since of whole ones MLflow lets none be missing. Every column is required: one that is
    misspelt would be taken for one without values.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    inputs = [ColSpec(_column_type(one), one.name) for one in model.preprocessing.features]
    label = "string" if any(isinstance(value, str) for value in model.classes) else "double"
    return ModelSignature(
        inputs=Schema(inputs),
        outputs=Schema([ColSpec(label, model.preprocessing.target)]),
        params=ParamSchema([ParamSpec("predict_method", "string", PREDICT)]),
    )


def _column_type(feature: Feature | NamedColumn) -> str:
    """MLflow's type of a column: "double" for numbers, "string" for all else, times and truth values too.

    A time is a text, since MLflow reads none from a CSV file, and so is a truth value: as MLflow's boolean any text
    would be true, and a missing value false.
    """
    if isinstance(feature, Number):
        return "string" if feature.truth else "double"
    return "double" if isinstance(feature, NamedColumn) and feature.kind == "number" else "string"


def register(store: Store, run_id: str, release: Release, *, better: str = "") -> str:
    """Register the run's model once for each release, as the alias `newest` if it is new.

    It becomes the `champion` if it is `better`, by which words, or if it is the first version.

    Returns its address in MLflow, "models:/NAME/VERSION"; "" if the run has no model.
    """
    client, name = store.client, registered_name(release.study)
    if REFUSED_TAG in client.get_run(run_id).data.tags:
        return ""
    own = next((one for one in versions(client, name) if one.run_id == run_id), None)
    if own is None:
        guarantee = release.guarantee  # in words that read the same with and without Markdown
        promised = (
            f"{_score_in_words(release)}ε = {guarantee.epsilon:g}, δ = {guarantee.delta:g}; the certificate is in "
            "the run it comes from"
        )
        tags = {"dpbo.edition": release.edition, RELEASE_TAG: release.release_id}
        own = _new_version(store, run_id, name, FOLDER, tags=tags, description=promised)
        client.set_registered_model_alias(name, NEWEST_ALIAS, own.version)
        if CHAMPION_ALIAS not in client.get_registered_model(name).aliases:
            better = better or FIRST_CHAMPION
    if better:
        client.set_model_version_tag(name, own.version, CHAMPION_TAG, better)
        client.set_registered_model_alias(name, CHAMPION_ALIAS, own.version)
    aliases = client.get_registered_model(name).aliases
    champion, newest = aliases[CHAMPION_ALIAS], aliases.get(NEWEST_ALIAS)
    newer = "" if newest in (None, champion) else NEWER_NOTE.format(newest=newest, name=name)
    client.update_registered_model(name, MODELS_NOTE.format(champion=champion, newer=newer))
    return f"models:/{name}/{own.version}"


def _score_in_words(release: Release) -> str:
    metric = displayed_metric(release)
    if metric is None:
        return ""
    ends = (
        f" ({interval(metric.interval).replace(' to ', '–')})" if metric.interval else ""
    )  # a column cuts the rest
    return f"{score(metric.value)}{ends} {metric.name}; "


def fetch_model(address: str, tracking_uri: str, folder: Path) -> Path:
    """Return the folder of the model at an address of MLflow ("models:/…", "runs:/…"), copied if on a server.

    Raises:
        StudyInvalid: MLflow has none there.
    """
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    store = open_store(tracking_uri)
    try:
        source = _source_of(store.client, address)
        if store.root is not None and ":" not in source:
            return store.root / source
        return Path(download_artifacts(artifact_uri=source, dst_path=str(folder), tracking_uri=store.uri))
    except (MlflowException, OSError):
        raise StudyInvalid(
            f"MLflow has no model {address!r}",
            cause="the name, version or alias is misspelt, or MLFLOW_TRACKING_URI names another store",
            remedy='write it as MLflow does: "models:/readmission@champion", or name a folder',
        ) from None


def _source_of(client: "MlflowClient", address: str) -> str:
    """Return where the files of the model at an address lie: a run's, a version's or an alias's."""
    scheme, _, rest = address.partition(":/")
    if scheme == "runs":
        run_id, _, path = rest.strip("/").partition("/")
        return f"{client.get_run(run_id).info.artifact_uri}/{path}"
    name, by_alias, alias = rest.strip("/").partition("@")
    if by_alias:
        version = client.get_model_version_by_alias(name, alias)
    else:
        name, _, number = name.rpartition("/")
        version = client.get_model_version(name, number)
    return str(version.source)


def _new_version(store: Store, run_id: str, name: str, folder: str, **described: Any) -> Any:
    from mlflow.exceptions import MlflowException

    with suppress(MlflowException):  # it is there already, or creating the version says what is wrong
        store.client.create_registered_model(name)
    source = f"{store.client.get_run(run_id).info.artifact_uri}/{folder}"
    return store.client.create_model_version(name, source, run_id, **described)


def registered_name(study: str) -> str:
    """The name of a study's registered model: its own, with - for / and for :, special in MLflow's addresses."""
    return study.replace("/", "-").replace(":", "-")


def versions(client: "MlflowClient", name: str) -> list[Any]:
    """Return all versions of the registered model `name`."""
    escaped = name.replace("'", "''")
    return list(client.search_model_versions(f"name = '{escaped}'"))
