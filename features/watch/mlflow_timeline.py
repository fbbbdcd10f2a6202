"""A watch in MLflow: one run below its study's, with a timeline of looks, a bit each."""

import json
from datetime import datetime
from math import isfinite
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpbo.features.watch import KIND as WATCH
from dpbo.features.watch.look_document import watch_document
from dpbo.features.watch.recorded_looks import Look
from dpbo.tasks.reporting.document import markdown
from dpbo.tasks.reporting.logged_numbers import KIND, PARENT_TAG, STUDY, budget_rows, metric, series_of
from dpbo.tasks.reporting.mlflow_store import (
    NOTE_TAG,
    RELEASE_TAG,
    Store,
    Tracked,
    experiment_name,
    open_store,
    place_of,
    publishing,
)
from dpbo_core.ledger.accounting.account import Account, balances

STATE_TAG = "dpbo.watch"  # what a watch says, and since when
ALARM_METRIC = "watch/alarm"  # 0 or 1, its step the look's number, its time when it was recorded
ID_DIGITS = 16  # digits of a fingerprint that name what MLflow shows of it


def log_looks(look: Look, account: Account, tracking_uri: str) -> Tracked:
    """Log every look (private check) of the watch that MLflow does not show yet, in its dataset's experiment."""
    with publishing(tracking_uri):
        store, over = open_store(tracking_uri), next((one for one in look.history if one.alarm), None)
        state = f"{'HOLDS' if over is None else 'ALARM'} since {(over or look.history[0]).recorded_at[:10]}"
        experiment = store.experiment(look.key.dataset)
        run = _run(store, experiment, look)
        run_id = run.info.run_id
        logged = {point.step for point in store.client.get_metric_history(run_id, ALARM_METRIC)}
        new = [one for one in look.history if one.number not in logged]
        if new:
            store.client.log_batch(run.data.tags[PARENT_TAG], metrics=_spent(look, account))
            points = [(float(one.alarm), _milliseconds(one.recorded_at), one.number) for one in new]
            store.client.log_batch(run_id, metrics=[metric(ALARM_METRIC, *point) for point in points])
        if look.release is not None and run.data.tags.get(STATE_TAG) != state:
            with TemporaryDirectory() as scratch:
                document = Path(scratch) / "release.json"
                text = json.dumps(look.release.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
                document.write_text(text, encoding="utf-8")
                store.put(run_id, document)
        store.client.update_run(run_id, name=f"{state} · {look.key.study} · {look.key.edition}")
        store.client.set_terminated(run_id, "FINISHED")  # else MLflow calls a watch that goes on "Running"
        store.client.set_tag(run_id, STATE_TAG, state)
        return Tracked(experiment_name(look.key.dataset), run_id, place_of(experiment, run_id))


def _spent(look: Look, account: Account) -> list[Any]:
    """Metrics of the dataset's budget just after the watch was charged; repeated, the same rows."""
    key, first = (look.key.study, look.key.edition), look.history[0].recorded_at
    charged = [*balances(account, lambda entry: (entry.study, entry.edition) == key and entry.reserved_at <= first)]
    rows = budget_rows(charged[-1]) if charged else []
    return [metric(name, number, _milliseconds(first), place) for name, number, place in rows if isfinite(number)]


def _run(store: Store, experiment: str, look: Look) -> Any:
    """Return the MLflow run of a watch, by the fingerprint of its key; created if there is none."""
    name = look.key.fingerprint[:ID_DIGITS]
    runs = store.client.search_runs([experiment], f"tags.`{RELEASE_TAG}` = '{name}'", max_results=1)
    if runs:
        return runs[0]
    guarantee = look.guarantee
    study = look.key.study.removesuffix(f"/{WATCH}")
    tags = {
        RELEASE_TAG: name,
        PARENT_TAG: series_of(store, experiment, study, look.key.dataset),
        KIND: WATCH,
        STUDY: study,
        "dpbo.edition": look.key.edition,
        "dpbo.method": WATCH,
        "dpbo.dataset": look.key.dataset,
        "dpbo.unit": guarantee.unit.value,
        NOTE_TAG: markdown(watch_document(look)),
        "dpbo.guarantee": guarantee.in_words(),
        "dpbo.evidence": guarantee.evidence.standing.value,
        "dpbo.assumptions": ", ".join(guarantee.assumptions) or "none",
    }
    title = f"{look.key.study} · {look.key.edition}"
    run = store.client.create_run(experiment, run_name=title, tags=tags)
    for key, value in {
        "study": look.key.study,
        "edition": look.key.edition,
        "method": WATCH,
        "drop": look.terms.drop,
        "epsilon": look.terms.epsilon,
        "delta": guarantee.delta,
        "least_records": look.terms.least_records,
        "reference": look.terms.reference,
    }.items():
        store.client.log_param(run.info.run_id, key, value)
    return run


def _milliseconds(moment: str) -> int:
    return round(1000.0 * datetime.fromisoformat(moment).timestamp())
