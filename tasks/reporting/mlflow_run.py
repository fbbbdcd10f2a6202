"""The only module that writes to MLflow: a recorded release, its account and a publicly trained model, no more.

Nothing else can be logged: no autologging, no fluent API (it tags user, script and commit), no path, no host. A
release is logged once: its identity is a tag, and a second call finds the first one's run.

A metric is what is worth a chart: the score by edition with its interval, the score by step, the budget after each
study, a report's figures. Parameters are the few values by which runs are compared; `release.json` has all facts. A
study's own run has a picture of its editions' scores, and charts of what is left of the budget. The runs of its
editions, evaluations and watches are its children. All that it holds, they hold.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpbo.tasks.reporting.document import embedded, in_markdown, interval, markdown, score
from dpbo.tasks.reporting.document import number as in_short
from dpbo.tasks.reporting.logged_model import FOLDER, name_datasets, put_model, put_repaired, register
from dpbo.tasks.reporting.mlflow_store import (
    COMPARISON_PAGE,
    EDITIONS_PAGE,
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
from dpbo.tasks.reporting.pictures import draw_editions, save_pictures, saved
from dpbo.tasks.reporting.release_document import release_document
from dpbo.tasks.reporting.release_files import page, release_text, write_release
from dpbo.tasks.reporting.report_document import figures, is_report
from dpbo_core.ledger.accounting.account import Account, Balance, Entry, balance_after, balances
from dpbo_core.ledger.accounting.admission import account_line
from dpbo_core.privacy.release import Release, displayed_metric
from dpbo_core.report import BETTER, COMPARED
from dpbo_core.report import KIND as EVALUATION
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
MAX_PARAMETER_LENGTH = 500  # characters MLflow takes for a parameter
MAX_PARAMETERS = 12  # of a run, unless its choice alone has more
COMPARED_FACTS = ("estimator", "steps", "n_candidates", "n_validation", "n_persons")
MAX_NAME_LENGTH = 250
SCORE_METRICS = ("score/low", "score/high", "score/constant")  # beside the score, which has its metric's name
BUDGET_METRICS = ("budget/spent", "budget/left")
METRIC_GROUPS = ("budget/", "score/", "steps/", "evaluation/")
UNNAMEABLE_PATTERN = re.compile(
    r"[^\w\-.: ]"
)  # what MLflow takes in no name; of its slashes the groups' alone stay
KIND, STUDY = "dpbo.kind", "dpbo.study"
SERIES_KIND = "study"  # the kind of such a run; of its children: edition, evaluation, watch
PARENT_TAG = "mlflow.parentRunId"
LARGEST_PAGE = 1000
MAX_METRICS_PER_REQUEST = 1000  # metrics that MLflow takes in one request
OVERLAP_NOTE = "All intervals overlap: scores may differ by noise alone."
APART_NOTE = "Not all intervals overlap: noise alone seldom does that."
SERIES_NOTE = """\
Every edition of the study {study} is a run below this one: [all in a list]({editions}), \
[side by side]({comparison}). The artifact `editions.json` has the picture's numbers. *Model metrics* charts the \
scores and what is left of the budget, edition by edition."""


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
    name = experiment_name(release.dataset)
    return Tracked(name, run_id, place_of(experiment, run_id), missing, "".join(versions))


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

    def put_receipt() -> None:
        for file in write_release(release, scratch / "release.json")[1:]:
            store.put(run_id, file)

    yield from _tried("the receipt", put_receipt)
    for picture in pictures:
        store.put(run_id, picture, "plots")
    note = run_note(release, account, run_id, pictures, model)
    yield from _tried("the run's description", lambda: store.client.set_tag(run_id, NOTE_TAG, note))
    yield from _tried("the charts of the study's editions", lambda: extend(store, run_id, release, account))
    yield from _tried("the datasets", lambda: name_datasets(store, run_id, release, model))
    if model is not None:
        scores = [name for name, *_ in score_rows(release)[:1]]
        yield from _tried("the final model", lambda: put_model(store, run_id, release, model, scratch, scores))


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
    name = f"{release.edition} · {release.study}"  # MLflow cuts a long name, and the run is below its study's
    return str(store.client.create_run(experiment, run_name=name, tags=tags).info.run_id)


def run_note(
    release: Release, account: Account, run_id: str, pictures: Iterable[Path], model: FinalModel | None
) -> str:
    """Return the Markdown of a run's description in MLflow; nothing that people chose is markup in it."""
    document = release_document(release, account=account, model=model)
    names = [path.name for path in pictures]
    embed = "\n\n".join(embedded(name, run_id) for name in MAIN_PICTURES if name in names)
    code = MODEL_CODE.format(run_id=run_id, folder=FOLDER) if model is not None else ""
    certificate = CERTIFICATE_NOTE.format(run_id=run_id)
    return "\n\n".join(filter(None, (markdown(document, pictures=embed, n_tables=1), code, certificate)))


def metrics(release: Release, account: Account) -> list[Any]:
    """Return all MLflow metrics of a release: its score, the budget, a report's figures, the trajectory by step.

    Their time is that of the release, so that publishing again writes the same rows and none twice.
    """
    rows, balance = score_rows(release), balance_after(account, release.release_id)
    rows += [] if balance is None else [(name, number, 0) for name, number, _ in budget_rows(balance)]
    rows += [(f"evaluation/{name}", figure["value"], 0) for name, figure in figures(release)]
    for point in release.value.get("trajectory", []):
        if point["score"] is not None:
            rows.append(("steps/noised", float(f"{point['score']:.4g}"), point["step"]))
    return as_metrics(release, rows)


def score_key(name: str) -> str:
    """Return the name of the metric `name` in MLflow: its own, "score" where that would be in a group of ours."""
    return "score" if "/" in name else _key(name)


def score_rows(release: Release) -> list[tuple[str, float, int]]:
    """Return the displayed metric under its name, its 90% interval and a constant answer's; none for a report.

    They have four digits, as MLflow's lists show every digit that there is, and step 0: MLflow draws a bar of one
    value there, and a line of one dot at any other.
    """
    metric = None if figures(release) else displayed_metric(release)
    if metric is None:
        return []
    low, high = (math.nan, math.nan) if metric.interval is None else metric.interval
    constant = math.nan if metric.baseline is None else metric.baseline
    numbers = zip((score_key(metric.name), *SCORE_METRICS), (metric.value, low, high, constant), strict=True)
    return [(name, float(f"{number:.4g}"), 0) for name, number in numbers]


def budget_rows(balance: Balance) -> list[tuple[str, float, int]]:
    """A dataset's ε spent and left after a study, as rows of metrics: name, four digits, place in the account."""
    spent, left = BUDGET_METRICS
    numbers = ((spent, balance.spent), (left, balance.remaining))
    return [(name, float(f"{number:.4g}"), balance.position) for name, number in numbers]


def as_metrics(release: Release, rows: list[tuple[str, float, int]]) -> list[Any]:
    """Return rows of name, value and step as MLflow metrics at the release's time; infinite ones are left out."""
    now = int(datetime.fromisoformat(release.released_at).timestamp() * 1000)
    return [metric(_key(name), float(number), now, step) for name, number, step in rows if math.isfinite(number)]


def metric(name: str, value: float, moment: int, step: int) -> Any:
    """Return an MLflow metric; `moment` is in milliseconds since 1970."""
    from mlflow.entities import Metric

    return Metric(name, value, moment, step)


def params(release: Release) -> list[Any]:
    """Return the release's choice and terms as MLflow parameters: at most 12, four digits."""
    from mlflow.entities import Param

    guarantee, facts, metric = release.guarantee, release.facts, displayed_metric(release)
    own: dict[str, object] = {
        "edition": release.edition,
        "epsilon": float(guarantee.epsilon),
        "delta": float(guarantee.delta),
        "method": release.method,
        **({} if metric is None else {"metric": metric.name}),
    }
    if metric is not None:
        own.setdefault(score_key(metric.name), metric.value)  # beside the rest where runs are compared
    if metric is not None and metric.interval is not None:
        own["interval"] = interval(metric.interval).replace(" to ", "–")  # as wide as MLflow's columns
    chosen = {
        name if name not in own else f"release.{name}": item
        for name, item in release.value.get("hyperparameters", {}).items()
    }
    public = {name: facts[name] for name in COMPARED_FACTS if name in facts}
    room = max(0, MAX_PARAMETERS - len(own) - len(chosen))
    parameters = own | chosen | dict([*public.items()][:room])
    return [Param(_key(name), in_short(item)[:MAX_PARAMETER_LENGTH]) for name, item in parameters.items()]


def _key(name: str) -> str:
    group = next((group for group in METRIC_GROUPS if name.startswith(group)), "")
    allowed = UNNAMEABLE_PATTERN.sub("_", name.removeprefix(group))
    return f"{group}{allowed if allowed.strip('.') else '_'}"[:MAX_NAME_LENGTH]


def series_of(store: Store, experiment: str, study: str, dataset: str) -> str:
    """Return the id of the study's own MLflow run, made with its note if missing; the oldest if two were made."""
    of_series, oldest_first = f"tags.`{KIND}` = '{SERIES_KIND}'", ["attributes.start_time ASC"]
    for run in store.client.search_runs([experiment], of_series, max_results=LARGEST_PAGE, order_by=oldest_first):
        if run.data.tags.get(STUDY) == study:
            return str(run.info.run_id)
    note = _note(study, experiment)
    tags = own_tags() | {KIND: SERIES_KIND, STUDY: study, "dpbo.dataset": dataset, NOTE_TAG: note}
    return str(store.client.create_run(experiment, run_name=f"study {study}", tags=tags).info.run_id)


def extend(store: Store, run_id: str, release: Release, account: Account) -> None:
    """Add the release of run `run_id` to its study's table, picture and budget charts; repeated, nothing twice."""
    series: Any = store.client.get_run(run_id).data.tags.get(PARENT_TAG)
    experiment = store.client.get_run(series).info.experiment_id
    runs = store.client.search_runs([experiment], f"tags.`{PARENT_TAG}` = '{series}'", max_results=LARGEST_PAGE)
    release_ids = {run.data.tags[RELEASE_TAG] for run in runs}
    charged = balances(account, lambda entry: entry.release_id in release_ids)
    placed = {str(balance.entry.release_id): balance for balance in charged}
    charts: dict[str, list[Any]] = {}
    for run in runs:
        if (balance := placed.get(run.data.tags[RELEASE_TAG])) is not None:
            for name in (score_key(run.data.params.get("metric", "")), *SCORE_METRICS, *BUDGET_METRICS):
                if name in run.data.metrics:
                    point = metric(name, run.data.metrics[name], _milliseconds(balance.entry), balance.position)
                    charts.setdefault(name, []).append(point)
    points = [point for chart in charts.values() if len(chart) > 1 for point in chart]  # no chart of one dot
    for start in range(0, len(points), MAX_METRICS_PER_REQUEST):
        store.client.log_batch(series, metrics=points[start : start + MAX_METRICS_PER_REQUEST])
    editions = _editions(runs, placed)
    with TemporaryDirectory() as scratch:
        if editions:
            table = {"columns": [*editions[0]], "data": [[*edition.values()] for edition in editions]}
            (file := Path(scratch) / "editions.json").write_text(json.dumps(table, ensure_ascii=False))
            store.put(series, file)
            for picture in saved(lambda: draw_editions(editions), Path(scratch) / "editions.png"):
                store.put(series, picture, "plots")
                note = _note(release.study.removesuffix(f"/{EVALUATION}"), experiment)
                paragraphs = (_in_words(editions, account), embedded(picture.name, series), note)
                store.client.set_tag(series, NOTE_TAG, "\n\n".join(paragraphs))
    store.client.set_terminated(series, "FINISHED")


def _note(study: str, experiment: str) -> str:
    pages = {"editions": EDITIONS_PAGE.format(experiment), "comparison": COMPARISON_PAGE.format(experiment)}
    return SERIES_NOTE.format(study=in_markdown(study), **pages)


def _milliseconds(entry: Entry) -> int:
    return int(datetime.fromisoformat(entry.released_at or entry.reserved_at).timestamp() * 1000)


def _editions(runs: list[Any], placed: dict[str, Balance]) -> list[dict[str, Any]]:
    """Rows (score, interval, constant answer, ε) of a study's editions with a score, by place in the account."""
    rows = []
    for run in runs:
        numbers, tags = run.data.metrics, run.data.tags
        score = numbers.get(score_key(run.data.params.get("metric", "")))
        if score is None or tags[KIND] != "edition" or (balance := placed.get(tags[RELEASE_TAG])) is None:
            continue
        date = datetime.fromtimestamp(_milliseconds(balance.entry) / 1000, UTC).isoformat()[:23]
        row = {
            "date": date,
            "edition": tags["dpbo.edition"],
            "method": tags["dpbo.method"],
            "metric": run.data.params["metric"],
            "value": score,
            "low": numbers.get("score/low"),
            "high": numbers.get("score/high"),
            "constant answer": numbers.get("score/constant"),
            "epsilon": balance.entry.epsilon,
        }
        rows.append((balance.position, row))
    return [row for _, row in sorted(rows, key=itemgetter(0))]


def _in_words(editions: list[dict[str, Any]], account: Account) -> str:
    newest, others = editions[-1], [one for one in editions[:-1] if one["metric"] == editions[-1]["metric"]]
    ends = "" if newest["low"] is None else f" ({interval((newest['low'], newest['high']))})"
    stated = [one for one in (*others, newest) if one["low"] is not None]
    change = ""
    if others and len(stated) == len(others) + 1:
        overlap = max(one["low"] for one in stated) <= min(one["high"] for one in stated)
        change = f" **{OVERLAP_NOTE if overlap else APART_NOTE}**"
    of = f"{len(editions)} edition{'s' * (len(editions) != 1)}"
    name = in_markdown(newest["metric"].replace("_", " "))
    line = in_markdown(account_line(account))
    return f"**{of}; the newest has {name} {score(newest['value'])}**{ends}.{change} Budget of {line}."
