"""A watch as MLflow shows it: one run with a timeline of looks, a bit each, and its release once it has alarmed."""

import json
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpbo.tasks.reporting.mlflow_store import Store, open_store
from dpbo.tasks.reporting.shown import RELEASE_TAG, Tracked

if TYPE_CHECKING:
    from dpbo_core.evaluation.watch.recorded_looks import Look

ALARM = "watch/alarm"  # 0 or 1, its step the look's number, its time when it was recorded
ID = 16  # digits of a fingerprint that name what MLflow shows of it


def log_looks(look: "Look", tracking_uri: str) -> Tracked:
    """Log every look of the watch that is not shown yet, to the experiment named after its dataset.

    Raises:
        DpboError: the experiment was deleted, or a tracking server does not answer.
    """
    from mlflow.entities import Metric

    store = open_store(tracking_uri)
    experiment = store.experiment(look.key.dataset)
    run = _run(store, experiment, look)
    shown = {point.step for point in store.client.get_metric_history(run.info.run_id, ALARM)}
    new = [one for one in look.history if one.number not in shown]
    points = [Metric(ALARM, float(one.alarm), _milliseconds(one.recorded_at), one.number) for one in new]
    if points:
        store.client.log_batch(run.info.run_id, metrics=points)
    if look.release is not None and run.info.status != "FINISHED":
        with TemporaryDirectory() as scratch:
            document = Path(scratch) / "release.json"
            text = json.dumps(look.release.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
            document.write_text(text, encoding="utf-8")
            store.put(run.info.run_id, document)
        store.client.set_terminated(run.info.run_id, "FINISHED")
    place = f"#/experiments/{experiment}/runs/{run.info.run_id}"
    return Tracked(look.key.dataset, run.info.run_id, place)


def _run(store: Store, experiment: str, look: "Look") -> Any:
    """The watch's run, begun with the first look that is shown."""
    name = look.key.fingerprint[:ID]
    found = store.client.search_runs([experiment], f"tags.`{RELEASE_TAG}` = '{name}'", max_results=1)
    if found:
        return found[0]
    guarantee = look.guarantee
    tags = {
        RELEASE_TAG: name,
        "dpbo.guarantee": guarantee.in_words(),
        "dpbo.evidence": guarantee.evidence.standing.value,
        "dpbo.assumptions": ", ".join(guarantee.assumptions) or "none",
    }
    shown = f"{look.key.study} · {look.key.edition}"
    run = store.client.create_run(experiment, run_name=shown, tags=tags)
    for key, value in {
        "drop": look.terms.drop,
        "epsilon": look.terms.epsilon,
        "least_records": look.terms.least_records,
        "reference": look.terms.reference,
    }.items():
        store.client.log_param(run.info.run_id, key, value)
    return run


def _milliseconds(moment: str) -> int:
    return round(1000.0 * datetime.fromisoformat(moment).timestamp())
