"""A study in MLflow: one run above its editions', and a watch as one run with a timeline of looks, a bit each.

A study's own run has a picture of its editions' scores, and charts of what is left of the budget. The runs of its
editions, evaluations and watches are its children. All that it holds, they hold.
"""

import json
from datetime import UTC, datetime
from math import isfinite
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpbo.features.watch import KIND as WATCH
from dpbo.tasks.reporting.escaping import embedded, in_markdown, in_picture
from dpbo.tasks.reporting.logged_numbers import as_metrics, budget_rows, metric, score_rows
from dpbo.tasks.reporting.look_document import watch_document
from dpbo.tasks.reporting.markdown_page import markdown
from dpbo.tasks.reporting.mlflow_lookup import RELEASE_TAG, Tracked, place_of, publishing
from dpbo.tasks.reporting.mlflow_store import NOTE_TAG, Store, experiment_name, open_store, own_tags
from dpbo.tasks.reporting.pictures import saved
from dpbo.tasks.reporting.release_picture import CHOICE, INK, NOISE, plain, sheet
from dpbo_core.ledger.accounting.account import Account, balance_after, balances
from dpbo_core.privacy.release import Release
from dpbo_core.report import KIND as EVALUATION

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dpbo.features.watch.recorded_looks import Look


KIND, STUDY = "dpbo.kind", "dpbo.study"
SERIES = "study"  # the kind of such a run; of its children: edition, evaluation, watch
PARENT = "mlflow.parentRunId"
LARGEST_PAGE = 1000
STATE = "dpbo.watch"  # what a watch says, and since when
ALARM = "watch/alarm"  # 0 or 1, its step the look's number, its time when it was recorded
ID = 16  # digits of a fingerprint that name what MLflow shows of it
NOTE = """\
**Every edition of the study {study}**, on the dataset {dataset}: the score by date with its 90% interval and a \
constant answer's on the public rows, in `editions.json` as a table and in `score`, `score/low`, \
`score/high` and `score/constant`; and, under *Model metrics*, what is left of \
the dataset's budget (`budget/left`), by place in the dataset's account. Each edition is a run below this one, and \
its page begins with what it released."""


def series_of(store: Store, experiment: str, study: str, dataset: str) -> str:
    """The id of the study's own MLflow run, made with its note if missing; the oldest if two were made."""
    runs = store.client.search_runs(
        [experiment],
        f"tags.`{KIND}` = '{SERIES}'",
        max_results=LARGEST_PAGE,
        order_by=["attributes.start_time ASC"],
    )
    for run in runs:
        if run.data.tags.get(STUDY) == study:
            return str(run.info.run_id)
    note = NOTE.format(study=in_markdown(study), dataset=in_markdown(dataset))
    tags = own_tags() | {KIND: SERIES, STUDY: study, "dpbo.dataset": dataset, NOTE_TAG: note}
    return str(store.client.create_run(experiment, run_name=study, tags=tags).info.run_id)


def extend(store: Store, run_id: str, release: Release, account: Account) -> None:
    """Add the release of run `run_id` to its study's table, picture and budget charts; repeated, nothing twice."""
    series: Any = store.client.get_run(run_id).data.tags.get(PARENT)
    balance = balance_after(account, release.release_id)
    rows = score_rows(release, balance) + ([] if balance is None else budget_rows(balance))
    store.client.log_batch(series, metrics=as_metrics(release, rows))
    experiment = store.client.get_run(series).info.experiment_id
    editions = _editions(store, experiment, series, account)
    with TemporaryDirectory() as scratch:
        if editions:
            table = {"columns": [*editions[0]], "data": [[*edition.values()] for edition in editions]}
            (file := Path(scratch) / "editions.json").write_text(json.dumps(table, ensure_ascii=False))
            store.put(series, file)
            for picture in saved(lambda: draw_editions(editions), Path(scratch) / "editions.png"):
                store.put(series, picture, "plots")
                study = in_markdown(release.study.removesuffix(f"/{EVALUATION}"))
                note = NOTE.format(study=study, dataset=in_markdown(release.dataset))
                store.client.set_tag(series, NOTE_TAG, f"{note}\n\n{embedded(picture.name, series)}")
    store.client.set_terminated(series, "FINISHED")


def _editions(store: Store, experiment: str, series: str, account: Account) -> list[dict[str, Any]]:
    """Rows (score, 90% interval, constant answer, ε) of the editions below the study's run `series` that released a
    score, by date, then place in the account.
    """
    below = f"tags.`{PARENT}` = '{series}' AND tags.`{KIND}` = 'edition'"
    epsilons, placed = {entry.release_id: entry.epsilon for entry in account.entries}, []
    for run in store.client.search_runs([experiment], below, max_results=LARGEST_PAGE):
        numbers, tags = run.data.metrics, run.data.tags
        if "score" not in numbers:
            continue
        (point, *_) = store.client.get_metric_history(run.info.run_id, "score")
        date = datetime.fromtimestamp(point.timestamp / 1000, UTC).isoformat()[:23]
        row = {
            "date": date,
            "edition": tags["dpbo.edition"],
            "method": tags["dpbo.method"],
            "metric": run.data.params["metric.name"],
            "value": numbers["score"],
            "low": numbers.get("score/low"),
            "high": numbers.get("score/high"),
            "constant answer": numbers.get("score/constant"),
            "epsilon": epsilons.get(tags[RELEASE_TAG]),
        }
        placed.append((date, point.step, row))
    return [row for *_, row in sorted(placed, key=itemgetter(0, 1))]


def draw_editions(editions: list[dict[str, Any]]) -> "Figure":
    """A figure of the score by edition, with its 90% interval and the constant answer's.

    Args:
        editions: of a study, by date, as its table has them.
    """
    figure = sheet(3.2)
    axes, places = figure.subplots(), range(len(editions))
    for place, edition in zip(places, editions, strict=True):
        if edition["low"] is not None:
            axes.plot([place, place], [edition["low"], edition["high"]], color=NOISE, lw=6, alpha=0.35)
        axes.plot(place, edition["value"], "o", color=CHOICE)
        if edition["constant answer"] is not None:
            axes.plot([place - 0.3, place + 0.3], [edition["constant answer"]] * 2, color=INK, lw=1)
    labels = [f"{in_picture(edition['edition'])}\n{edition['date'][:10]}" for edition in editions]
    axes.set_xticks([*places], labels, fontsize=8)
    axes.set(xlim=(-0.6, len(editions) - 0.4), ylabel=in_picture(editions[-1]["metric"].replace("_", " ")))
    axes.set_title("Each edition's score, its 90% interval, a public constant answer's (the line)", fontsize=9)
    plain(axes)
    return figure


def log_looks(look: "Look", account: Account, tracking_uri: str) -> Tracked:
    """Log every look (private check) of the watch that MLflow does not show yet, in its dataset's experiment.

    Args:
        look: the newest.
        account: the dataset's; what is spent and left since the watch was charged joins its study's charts.
        tracking_uri: of MLflow's store.

    Raises:
        DpboError: the experiment was deleted, or a tracking server does not answer.
    """
    with publishing(tracking_uri):
        return _log_looks(look, account, open_store(tracking_uri))


def _log_looks(look: "Look", account: Account, store: Store) -> Tracked:
    experiment = store.experiment(look.key.dataset)
    run = _run(store, experiment, look)
    logged = {point.step for point in store.client.get_metric_history(run.info.run_id, ALARM)}
    new = [one for one in look.history if one.number not in logged]
    points = [metric(ALARM, float(one.alarm), _milliseconds(one.recorded_at), one.number) for one in new]
    if points:
        store.client.log_batch(run.data.tags[PARENT], metrics=_spent(look, account))
        store.client.log_batch(run.info.run_id, metrics=points)
    state = _state(look)
    if look.release is not None and run.data.tags.get(STATE) != state:
        with TemporaryDirectory() as scratch:
            document = Path(scratch) / "release.json"
            text = json.dumps(look.release.to_json(), indent=2, ensure_ascii=False, allow_nan=False)
            document.write_text(text, encoding="utf-8")
            store.put(run.info.run_id, document)
    store.client.update_run(run.info.run_id, name=f"{state} · {look.key.study} · {look.key.edition}")
    store.client.set_terminated(run.info.run_id, "FINISHED")  # else MLflow calls a watch that goes on "Running"
    store.client.set_tag(run.info.run_id, STATE, state)
    return Tracked(experiment_name(look.key.dataset), run.info.run_id, place_of(experiment, run.info.run_id))


def _state(look: "Look") -> str:
    """The state of a watch in words, HOLDS or ALARM, and the day since which it stands."""
    over = next((one for one in look.history if one.alarm), None)
    since = look.history[0] if over is None else over
    return f"{'HOLDS' if over is None else 'ALARM'} since {since.recorded_at[:10]}"


def _spent(look: "Look", account: Account) -> list[Any]:
    """Metrics of the dataset's budget just after the watch was charged; repeated, the same rows."""
    key, first = (look.key.study, look.key.edition), look.history[0].recorded_at
    charged = [
        balance
        for balance in balances(account)
        if (balance.entry.study, balance.entry.edition) == key and balance.entry.reserved_at <= first
    ]
    rows = budget_rows(charged[-1]) if charged else []
    return [metric(name, number, _milliseconds(first), place) for name, number, place in rows if isfinite(number)]


def _run(store: Store, experiment: str, look: "Look") -> Any:
    """The MLflow run of a watch, by the fingerprint of its key; created if there is none."""
    name = look.key.fingerprint[:ID]
    runs = store.client.search_runs([experiment], f"tags.`{RELEASE_TAG}` = '{name}'", max_results=1)
    if runs:
        return runs[0]
    guarantee = look.guarantee
    study = look.key.study.removesuffix(f"/{WATCH}")
    tags = {
        RELEASE_TAG: name,
        PARENT: series_of(store, experiment, study, look.key.dataset),
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
