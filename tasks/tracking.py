"""The one door to MLflow. It takes a recorded `Release` and nothing else, so nothing else can be logged.

No autologging, no fluent API (it tags user, script and commit), no path, no host. A release is logged once: its
identity is a tag, and a second call finds the first one's run.
"""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpbo_core.atomically import create_atomically
from dpbo_core.privacy.release import Release
from tasks.report.plot import save_plots

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

RELEASE_TAG = "dpbo.release_id"
SQLITE = "sqlite:///"
NOTE = """\
Every number here is a **differentially private release**; no raw validation score is stored.

* `release/…` is what a study released. `trajectory/…` is its private trajectory, step by step, noise included.
* `privacy/…` is what it cost. A score may fall outside its range: the noise is not hidden.
* `release.json` is the release in full, with the promise, its assumptions and the standing of its proof.
"""


@dataclass(frozen=True)
class Tracked:
    """Where a release is shown."""

    experiment: str
    run_id: str


def log_release(release: Release, tracking_uri: str) -> Tracked:
    """Log `release` to the experiment named after its dataset, once.

    Args:
        release: recorded in the ledger; an unrecorded one has no identity and is refused.
        tracking_uri: MLflow's store.

    Raises:
        ValueError: the release was not recorded.
    """
    if not release.release_id:
        raise ValueError("only a recorded release is shown")
    client = _client(tracking_uri)
    experiment = _experiment(client, release.dataset, tracking_uri)
    found = client.search_runs([experiment], f"tags.`{RELEASE_TAG}` = '{release.release_id}'", max_results=1)
    if found and found[0].info.status == "FINISHED":
        return Tracked(release.dataset, found[0].info.run_id)
    run_id = found[0].info.run_id if found else _start(client, experiment, release)
    client.log_batch(run_id, metrics=_metrics(release), params=_params(release))
    with TemporaryDirectory() as folder:
        page = Path(folder) / "release.json"
        page.write_text(json.dumps(release.to_json(), indent=2, ensure_ascii=False, allow_nan=False))
        client.log_artifact(run_id, str(page))
        for plot in save_plots(release, Path(folder)):
            client.log_artifact(run_id, str(plot), "plots")
    client.set_terminated(run_id, "FINISHED")
    return Tracked(release.dataset, run_id)


def _client(tracking_uri: str) -> "MlflowClient":
    import logging

    from mlflow.tracking import MlflowClient

    for name in ("alembic", "mlflow"):  # creating the store is no news
        logging.getLogger(name).setLevel(logging.WARNING)
    if tracking_uri.startswith(SQLITE):
        create_atomically(Path(tracking_uri.removeprefix(SQLITE)), _make_store)
    return MlflowClient(tracking_uri=tracking_uri)


def _make_store(path: Path) -> None:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    SqlAlchemyStore(f"{SQLITE}{path}", str(path.parent.parent / "artifacts")).engine.dispose()


def _experiment(client: "MlflowClient", dataset: str, tracking_uri: str) -> str:
    """The dataset's experiment; artifacts of a local store lie beside its database."""
    found = client.get_experiment_by_name(dataset)
    if found is not None:
        return str(found.experiment_id)
    location = None
    if tracking_uri.startswith(SQLITE):
        location = str(Path(tracking_uri.removeprefix(SQLITE)).parent / "artifacts")
    return str(client.create_experiment(dataset, artifact_location=location, tags={"mlflow.note.content": NOTE}))


def _start(client: "MlflowClient", experiment: str, release: Release) -> str:
    promise = release.guarantee
    tags = {
        RELEASE_TAG: release.release_id,
        "dpbo.promise": promise.in_words(),
        "dpbo.evidence": promise.evidence.standing.value,
        "dpbo.assumptions": ", ".join(promise.assumptions) or "none",
        "dpbo.noise": release.noise,
    }
    name = f"{release.study} · {release.edition}"
    return str(client.create_run(experiment, run_name=name, tags=tags).info.run_id)


def _metrics(release: Release) -> list[Any]:
    """The released numbers and their price; the trajectory as stepped metrics."""
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    value, promise = release.value, release.guarantee
    flat: dict[str, float] = {"privacy/delta": promise.delta}
    if promise.epsilon < float("inf"):
        flat["privacy/epsilon"] = promise.epsilon
    flat |= {"release/score": value["score"]} if "score" in value else {}
    if "interval" in value:
        flat |= dict(zip(("release/score_low", "release/score_high"), value["interval"], strict=True))
    metrics = [Metric(key, number, now, 0) for key, number in flat.items()]
    metrics.append(Metric("privacy/noise_scale", release.spends[0].noise_scale, now, 0))
    for point in value.get("trajectory", []):
        metrics.append(Metric("trajectory/score", point["score"], now, point["step"]))
        numbers = {name: item for name, item in point["hyperparameters"].items() if type(item) in (int, float)}
        metrics += [Metric(f"trajectory/{name}", item, now, point["step"]) for name, item in numbers.items()]
    return metrics


def _params(release: Release) -> list[Any]:
    from mlflow.entities import Param

    promise = release.guarantee
    public = {
        "study": release.study,
        "edition": release.edition,
        "method": release.method,
        "unit": promise.unit.value,
        "relation": promise.relation.value,
        "mechanism": release.spends[0].mechanism,
        **{f"release.{name}": item for name, item in release.value.get("hyperparameters", {}).items()},
        **{name: item for name, item in release.facts.items() if name != "options"},
        **{f"option.{name}": item for name, item in release.facts.get("options", {}).items()},
    }
    return [Param(name, str(item)[:500]) for name, item in public.items()]
