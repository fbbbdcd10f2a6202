"""A study in MLflow: one run above its editions'.

A study's own run has a picture of its editions' scores, and charts of what is left of the budget. The runs of its
editions, evaluations and watches are its children. All that it holds, they hold.
"""

import json
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpbo.tasks.reporting.budget_alert import account_line
from dpbo.tasks.reporting.document import interval, score
from dpbo.tasks.reporting.escaping import embedded, in_markdown, in_picture
from dpbo.tasks.reporting.logged_numbers import BUDGET_METRICS, SCORE_METRICS, metric
from dpbo.tasks.reporting.mlflow_lookup import RELEASE_TAG
from dpbo.tasks.reporting.mlflow_store import COMPARISON_PAGE, EDITIONS_PAGE, NOTE_TAG, Store, own_tags
from dpbo.tasks.reporting.pictures import saved
from dpbo.tasks.reporting.release_picture import CHOICE, INK, NOISE, plain, sheet
from dpbo_core.ledger.accounting.account import Account, Balance, Entry, balances
from dpbo_core.privacy.release import Release
from dpbo_core.report import KIND as EVALUATION

if TYPE_CHECKING:
    from matplotlib.figure import Figure


KIND, STUDY = "dpbo.kind", "dpbo.study"
SERIES_KIND = "study"  # the kind of such a run; of its children: edition, evaluation, watch
PARENT_TAG = "mlflow.parentRunId"
LARGEST_PAGE = 1000
MAX_METRICS_PER_REQUEST = 1000  # metrics that MLflow takes in one request
SERIES_NOTE = """\
Every edition of the study {study} is a run below this one: [all in a list]({editions}), \
[side by side]({comparison}). The artifact `editions.json` has the picture's numbers. *Model metrics* charts the \
scores and what is left of the budget, edition by edition."""


def series_of(store: Store, experiment: str, study: str, dataset: str) -> str:
    """Return the id of the study's own MLflow run, made with its note if missing; the oldest if two were made."""
    runs = store.client.search_runs(
        [experiment],
        f"tags.`{KIND}` = '{SERIES_KIND}'",
        max_results=LARGEST_PAGE,
        order_by=["attributes.start_time ASC"],
    )
    for run in runs:
        if run.data.tags.get(STUDY) == study:
            return str(run.info.run_id)
    note = _note(study, experiment)
    tags = own_tags() | {KIND: SERIES_KIND, STUDY: study, "dpbo.dataset": dataset, NOTE_TAG: note}
    return str(store.client.create_run(experiment, run_name=study, tags=tags).info.run_id)


def extend(store: Store, run_id: str, release: Release, account: Account) -> None:
    """Add the release of run `run_id` to its study's table, picture and budget charts; repeated, nothing twice."""
    series: Any = store.client.get_run(run_id).data.tags.get(PARENT_TAG)
    experiment = store.client.get_run(series).info.experiment_id
    runs = store.client.search_runs([experiment], f"tags.`{PARENT_TAG}` = '{series}'", max_results=LARGEST_PAGE)
    release_ids = {run.data.tags[RELEASE_TAG] for run in runs}
    charged = balances(account, lambda entry: entry.release_id in release_ids)
    placed = {str(balance.entry.release_id): balance for balance in charged}
    points = _points(runs, placed)
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
                shown = (_in_words(editions, account), embedded(picture.name, series), note)
                store.client.set_tag(series, NOTE_TAG, "\n\n".join(shown))
    store.client.set_terminated(series, "FINISHED")


def _note(study: str, experiment: str) -> str:
    pages = {"editions": EDITIONS_PAGE.format(experiment), "comparison": COMPARISON_PAGE.format(experiment)}
    return SERIES_NOTE.format(study=in_markdown(study), **pages)


def _points(runs: list[Any], placed: dict[str, Balance]) -> list[Any]:
    """Return the metrics of a study's charts, by place in the account; none of a chart that would be one dot."""
    charts: dict[str, list[Any]] = {}
    for run in runs:
        if (balance := placed.get(run.data.tags[RELEASE_TAG])) is None:
            continue
        moment = _milliseconds(balance.entry)
        for name in (*SCORE_METRICS, *BUDGET_METRICS):
            if name in run.data.metrics:
                charts.setdefault(name, []).append(metric(name, run.data.metrics[name], moment, balance.position))
    return [point for points in charts.values() if len(points) > 1 for point in points]


def _milliseconds(entry: Entry) -> int:
    return int(datetime.fromisoformat(entry.released_at or entry.reserved_at).timestamp() * 1000)


def _editions(runs: list[Any], placed: dict[str, Balance]) -> list[dict[str, Any]]:
    """Rows (score, interval, constant answer, ε) of a study's editions with a score, by place in the account."""
    rows = []
    for run in runs:
        numbers, tags = run.data.metrics, run.data.tags
        if "score" not in numbers or tags[KIND] != "edition" or (balance := placed.get(tags[RELEASE_TAG])) is None:
            continue
        date = datetime.fromtimestamp(_milliseconds(balance.entry) / 1000, UTC).isoformat()[:23]
        row = {
            "date": date,
            "edition": tags["dpbo.edition"],
            "method": tags["dpbo.method"],
            "metric": run.data.params["metric"],
            "value": numbers["score"],
            "low": numbers.get("score/low"),
            "high": numbers.get("score/high"),
            "constant answer": numbers.get("score/constant"),
            "epsilon": balance.entry.epsilon,
        }
        rows.append((balance.position, row))
    return [row for _, row in sorted(rows, key=itemgetter(0))]


def _in_words(editions: list[dict[str, Any]], account: Account) -> str:
    """Return what all editions say together, in Markdown: their number, the newest score, a change, the budget."""
    newest, others = editions[-1], [one for one in editions[:-1] if one["metric"] == editions[-1]["metric"]]
    ends = "" if newest["low"] is None else f" ({interval((newest['low'], newest['high']))})"
    stated = [one for one in (*others, newest) if one["low"] is not None]
    change = ""
    if others and len(stated) == len(others) + 1:
        overlap = max(one["low"] for one in stated) <= min(one["high"] for one in stated)
        change = "All intervals overlap: no change can be told from noise." * overlap
        change = change or "Not all intervals overlap: some editions differ by more than noise."
        change = f" **{change}**"
    of = f"{len(editions)} edition{'s' * (len(editions) != 1)}"
    name = in_markdown(newest["metric"].replace("_", " "))
    line = in_markdown(account_line(account))
    return f"**{of}; the newest has {name} {score(newest['value'])}**{ends}.{change} Budget of {line}."


def draw_editions(editions: list[dict[str, Any]]) -> "Figure":
    """Return a figure of the score by edition, with its 90% interval and the constant answer's."""
    figure = sheet(3.2)
    axes, places = figure.subplots(), range(len(editions))
    labelled = ("90% interval", "score", "always the same answer, on the public records")
    for place, edition in zip(places, editions, strict=True):
        bar, dot, line = labelled if place == 0 else ("", "", "")
        if edition["low"] is not None:
            ends = [edition["low"], edition["high"]]
            axes.plot([place, place], ends, color=NOISE, lw=6, alpha=0.35, solid_capstyle="butt", label=bar)
        axes.plot(place, edition["value"], "o", color=CHOICE, label=dot)
        if edition["constant answer"] is not None:
            axes.plot([place - 0.3, place + 0.3], [edition["constant answer"]] * 2, color=INK, lw=1, label=line)
    labels = [f"{in_picture(edition['edition'])}\n{edition['date'][:10]}" for edition in editions]
    axes.set_xticks([*places], labels, fontsize=8)
    axes.set(xlim=(-0.6, len(editions) - 0.4), ylabel=in_picture(editions[-1]["metric"].replace("_", " ")))
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    plain(axes)
    return figure
