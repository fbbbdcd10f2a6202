"""The numbers of a release in MLflow, as metrics and parameters, and the run of a study above its editions' runs.

A metric is what is worth a chart: the score by edition with its interval, the score by step, the budget after each
study, a report's figures. Parameters are the few values by which runs are compared; `release.json` has all facts.

A study's own run has a picture of its editions' scores, and charts of what is left of the budget. The runs of its
editions, evaluations and watches are its children. All that it holds, they hold.
"""

import json
import math
import re
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from dpbo.tasks.reporting.document import embedded, in_markdown, in_picture, interval, score
from dpbo.tasks.reporting.document import number as in_short
from dpbo.tasks.reporting.mlflow_store import COMPARISON_PAGE, EDITIONS_PAGE, NOTE_TAG, RELEASE_TAG, Store, own_tags
from dpbo.tasks.reporting.pictures import CHOICE, NOISE, plain, saved, sheet
from dpbo_core.ledger.accounting.account import Account, Balance, Entry, balance_after, balances
from dpbo_core.ledger.accounting.forecast import account_line
from dpbo_core.privacy.release import Release, displayed_metric
from dpbo_core.report import COMPARED
from dpbo_core.report import KIND as EVALUATION

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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


def figures(release: Release) -> list[tuple[str, Any]]:
    """Return the name and cell of each figure of a report that has a value; of a comparison its difference."""
    cells = release.value.get("metrics", {})
    if (compared := release.value.get(COMPARED)) is not None:
        cells = {COMPARED: {**compared, "sampling_interval": compared["interval"]}}
    return [(name, figure) for name, figure in cells.items() if figure["value"] is not None]


def _key(name: str) -> str:
    group = next((group for group in METRIC_GROUPS if name.startswith(group)), "")
    allowed = UNNAMEABLE_PATTERN.sub("_", name.removeprefix(group))
    return f"{group}{allowed if allowed.strip('.') else '_'}"[:MAX_NAME_LENGTH]


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
    return str(store.client.create_run(experiment, run_name=f"study {study}", tags=tags).info.run_id)


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
        for name in (score_key(run.data.params.get("metric", "")), *SCORE_METRICS, *BUDGET_METRICS):
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
    """Return what all editions say together, in Markdown: their number, the newest score, a change, the budget."""
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


def draw_editions(editions: list[dict[str, Any]]) -> "Figure":
    """Return a figure of the score by edition, with its 90% interval; the constant answer's is written below it."""
    figure = sheet(3.2)
    axes, places = figure.subplots(), range(len(editions))
    for place, edition in zip(places, editions, strict=True):
        bar, dot = ("90% interval", "score") if place == 0 else ("", "")
        if edition["low"] is not None:
            ends = [edition["low"], edition["high"]]
            axes.plot([place, place], ends, color=NOISE, lw=6, alpha=0.35, solid_capstyle="butt", label=bar)
        axes.plot(place, edition["value"], "o", color=CHOICE, label=dot)
    labels = [f"{in_picture(edition['edition'])}\n{edition['date'][:10]}" for edition in editions]
    axes.set_xticks([*places], labels, fontsize=8)
    axes.set(xlim=(-0.6, len(editions) - 0.4), ylabel=in_picture(editions[-1]["metric"].replace("_", " ")))
    if (constant := editions[-1]["constant answer"]) is not None:
        axes.set_xlabel(f"always the same answer: {constant:.4g} on the public records", fontsize=8)
    figure.legend(loc="outside upper center", ncols=2, frameon=False, fontsize=8)
    plain(axes)
    return figure
