"""The only module that writes to MLflow: a recorded release, its account and a publicly trained model, no more.

Nothing else can be logged: no autologging, no fluent API (it tags user, script and commit), no path, no host. A
release is logged once: its identity is a tag, and a second call finds the first one's run.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpbo.tasks.reporting.document import embedded, interval, markdown
from dpbo.tasks.reporting.logged_model import FOLDER, name_datasets, put_model, put_repaired, register
from dpbo.tasks.reporting.logged_numbers import (
    BUDGET_METRICS,
    KIND,
    PARENT_TAG,
    STUDY,
    extend,
    metrics,
    params,
    score_rows,
    series_of,
)
from dpbo.tasks.reporting.mlflow_store import (
    NOTE_TAG,
    RELEASE_TAG,
    Store,
    Tracked,
    experiment_name,
    open_store,
    own_tags,
    place_of,
    publishing,
)
from dpbo.tasks.reporting.pictures import save_pictures
from dpbo.tasks.reporting.receipt import release_text, write_release
from dpbo.tasks.reporting.release_document import release_document
from dpbo.tasks.reporting.release_page import page
from dpbo.tasks.reporting.report_document import is_report
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.privacy.release import Release
from dpbo_core.report import BETTER, COMPARED
from dpbo_core.study.final_training import FinalModel, model_is_public

if TYPE_CHECKING:
    from dpbo_core.report.repair import Repair

COLUMNS = ("edition", "epsilon", "interval")  # of an experiment's runs, beside the score and the choice
NO_ASSUMPTION = "only that public files are public"  # the tag of a guarantee that rests on nothing else
MAX_PARAMETERS_PER_REQUEST = 100  # parameters that MLflow takes in one request
MODEL_CODE = """\
```python
import mlflow  # MLFLOW_TRACKING_URI names this store
model = mlflow.pyfunc.load_model("runs:/{run_id}/{folder}")
model.predict(rows.astype(model.input_example.dtypes))  # a data frame with the training set's columns
```"""
CERTIFICATE_NOTE = (
    "What was tuned, and what the guarantee rests on and leaves open, is in the certificate, "
    "[release.html](get-artifact?path=release.html&run_uuid={run_id}); `dpbo verify release.json` recomputes its ε."
)
MAIN_PICTURES = ("trajectory.png", "release.png", "evaluation.png")  # the picture that shows the release itself


def find_release(release: Release, tracking_uri: str) -> Tracked | None:
    """Where MLflow shows `release` complete, None if it does not; makes its dataset's experiment if missing."""
    store = open_store(tracking_uri)
    experiment = store.experiment(release.dataset)
    runs = _runs(store, experiment, release)
    if not runs or runs[0].info.status != "FINISHED":
        return None
    run_id = runs[0].info.run_id
    return Tracked(experiment_name(release.dataset), run_id, place_of(experiment, run_id))


def log_release(
    release: Release,
    account: Account,
    tracking_uri: str,
    *,
    model: FinalModel | None = None,
    registered: bool = False,
    missing: tuple[str, ...] = (),
) -> Tracked:
    """Log a recorded `release` in its dataset's experiment, once, whole or as far as it can be shown."""
    if not release.release_id:
        raise ValueError("only a recorded release is shown")
    with publishing(tracking_uri) as published:
        tracked = _logged(release, account, open_store(tracking_uri), model, registered=registered, missing=missing)
        if not tracked.missing:
            published[release.release_id] = tracked
    return tracked


def _logged(
    release: Release,
    account: Account,
    store: Store,
    model: FinalModel | None,
    *,
    registered: bool,
    missing: tuple[str, ...],
) -> Tracked:
    experiment = store.experiment(release.dataset)
    runs = _runs(store, experiment, release)
    run_id = runs[0].info.run_id if runs else _start(store, experiment, release)
    if not is_report(release):
        scores = [name for name, *_ in score_rows(release)[:1]]
        chosen = [param.key for param in params(release) if param.key in release.value.get("hyperparameters", {})]
        store.show_editions(experiment, [*scores, BUDGET_METRICS[1]], [*COLUMNS, *chosen])
    if not runs or runs[0].info.status != "FINISHED":
        store.client.log_batch(run_id, metrics=metrics(release, account))
        store.client.log_batch(run_id, params=params(release)[:MAX_PARAMETERS_PER_REQUEST])
        with TemporaryDirectory() as scratch:
            missing += tuple(_put_all(store, run_id, release, account, model, Path(scratch)))
        store.client.set_terminated(run_id, "FAILED" if missing else "FINISHED")
    versions: list[str] = []
    if registered and model_is_public(release) and not missing:
        missing += _tried("the registered model", lambda: versions.append(register(store, run_id, release)))
    return Tracked(
        experiment_name(release.dataset), run_id, place_of(experiment, run_id), missing, "".join(versions)
    )


def log_repaired(
    release: Release, run_id: str, tracking_uri: str, repair: "Repair", model: FinalModel | None
) -> None:
    """Log a report's repair in its run: numbers, picture, and the model as the alias `repaired`."""
    from dpbo.tasks.reporting.evaluation_picture import draw_repair

    store = open_store(tracking_uri)
    with publishing(tracking_uri), TemporaryDirectory() as scratch:
        file = Path(scratch) / "repair.json"
        file.write_text(json.dumps(repair.to_json(), indent=2, ensure_ascii=False), encoding="utf-8")
        store.put(run_id, file)
        draw_repair(repair).savefig(picture := Path(scratch) / "repair.png", dpi=150)
        store.put(run_id, picture, "plots")
        if model is not None:
            put_repaired(store, run_id, release, repair, model, Path(scratch))


def log_comparison(comparison: Release, tuned: Release, tracking_uri: str, *, registers: bool) -> str:
    """Show a comparison's picture on the run of the challenger's release.

    With `registers`, its model gets the alias `champion` if it is better; returns that version's address, else "".
    """
    from dpbo.tasks.reporting.evaluation_picture import draw_evaluation

    place = find_release(tuned, tracking_uri)
    if place is None:
        return ""
    store = open_store(tracking_uri)
    with publishing(tracking_uri), TemporaryDirectory() as scratch:
        draw_evaluation(comparison).savefig(picture := Path(scratch) / "against_champion.png", dpi=150)
        store.put(place.run_id, picture, "plots")
        difference = comparison.value[COMPARED]
        if not registers or difference["verdict"] != BETTER:
            return ""
        by = f"better by {difference['value']:.4f} ({interval(difference['interval'])}) in release"
        return register(store, place.run_id, tuned, better=f"{by} {comparison.release_id}")


def _put_all(
    store: Store, run_id: str, release: Release, account: Account, model: FinalModel | None, scratch: Path
) -> Iterator[str]:
    pictures, undrawn = save_pictures(release, account, scratch / "plots")
    yield from undrawn
    (scratch / "release.json").write_text(release_text(release), encoding="utf-8")
    (scratch / "release.html").write_text(page(release, pictures, account), encoding="utf-8")
    for name in ("release.json", "release.html"):
        store.put(run_id, scratch / name)
    yield from _tried("the receipt", lambda: _put_receipt(store, run_id, release, scratch))
    for picture in pictures:
        store.put(run_id, picture, "plots")
    note = run_note(release, account, run_id, pictures, model)
    yield from _tried("the run's description", lambda: store.client.set_tag(run_id, NOTE_TAG, note))
    yield from _tried("the charts of the study's editions", lambda: extend(store, run_id, release, account))
    yield from _tried("the datasets", lambda: name_datasets(store, run_id, release, model))
    if model is not None:
        yield from _tried("the final model", lambda: put_model(store, run_id, release, model, scratch))


def _put_receipt(store: Store, run_id: str, release: Release, scratch: Path) -> None:
    for file in write_release(release, scratch / "release.json")[1:]:
        store.put(run_id, file)


def _tried(what: str, work: Callable[[], None]) -> tuple[str, ...]:
    """Do `work` and return (): or the name `what` if it raised, as the release is shown all the same."""
    try:
        work()
    except Exception:  # noqa: BLE001  named, and tried again by the next run
        return (what,)
    return ()


def _runs(store: Store, experiment: str, release: Release) -> list[Any]:
    tagged = f"tags.`{RELEASE_TAG}` = '{release.release_id}'"
    return list(store.client.search_runs([experiment], tagged, max_results=1))


def _start(store: Store, experiment: str, release: Release) -> str:
    guarantee = release.guarantee
    kind = release.method if is_report(release) else "edition"
    study = release.study.removesuffix(f"/{release.method}")
    tags = own_tags() | {
        RELEASE_TAG: release.release_id,
        PARENT_TAG: series_of(store, experiment, study, release.dataset),
        KIND: kind,
        STUDY: study,
        "dpbo.edition": release.edition,
        "dpbo.method": release.method,
        "dpbo.dataset": release.dataset,
        "dpbo.unit": guarantee.unit.value,
        "dpbo.evidence": guarantee.evidence.standing.value,
        "dpbo.assumptions": ", ".join(guarantee.assumptions) or NO_ASSUMPTION,
        "dpbo.noise": release.noise,
    }
    name = (
        f"{release.edition} · {release.study}"  # MLflow cuts a long name, and an edition's run is below its study's
    )
    return str(store.client.create_run(experiment, run_name=name, tags=tags).info.run_id)


def run_note(
    release: Release, account: Account, run_id: str, pictures: Iterable[Path], model: FinalModel | None
) -> str:
    """Return the Markdown of a run's description in MLflow; nothing that people chose is markup in it."""
    document = release_document(release, account=account, model=model)
    shown = [path.name for path in pictures]
    embed = "\n\n".join(embedded(name, run_id) for name in MAIN_PICTURES if name in shown)
    code = MODEL_CODE.format(run_id=run_id, folder=FOLDER) if model is not None else ""
    certificate = CERTIFICATE_NOTE.format(run_id=run_id)
    return "\n\n".join(filter(None, (markdown(document, pictures=embed, n_tables=1), code, certificate)))
