"""What of a release becomes a metric, and what a parameter. Nothing else is logged.

A metric is what is worth a chart: the score by edition with its interval, the score by step, the budget after each
study, a report's figures. All else is a parameter, as text with its unit.
"""

import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from dpbo.tasks.reporting.certificate_words import noise_in_words
from dpbo.tasks.reporting.document import interval, score
from dpbo.tasks.reporting.escaping import in_words
from dpbo.tasks.reporting.posterior_picture import band_by_step
from dpbo_core.ledger.accounting.account import Account, Balance, balance_after
from dpbo_core.privacy.release import LEARNED_FROM, NO_SCORE, Release, displayed_metric
from dpbo_core.report import COMPARED

MAX_PARAMETER_LENGTH = 500  # characters MLflow takes for a parameter
MAX_NAME_LENGTH = 250
METRIC_GROUPS = ("budget/", "release/", "score/", "trajectory/", "evaluation/")
UNNAMEABLE_PATTERN = re.compile(
    r"[^\w\-.: ]"
)  # what MLflow takes in no name; of its slashes the groups' alone stay


def metrics(release: Release, account: Account) -> list[Any]:
    """Return all MLflow metrics of a release: its score, the budget, a report's figures, the trajectory by step.

    Their time is that of the release, so that publishing again writes the same rows and none twice.
    """
    balance = balance_after(account, release.release_id)
    rows, place = by_edition(release, balance), _place(balance)
    rows += score_rows(release, balance)
    rows += [(f"evaluation/{name}", figure["value"], place) for name, figure in _figures(release)]
    for point in release.value.get("trajectory", []):
        if point["score"] is not None:
            rows.append(("trajectory/score", point["score"], point["step"]))
    rows += [("trajectory/posterior", mean, step) for step, (mean, _) in enumerate(band_by_step(release), start=1)]
    return as_metrics(release, rows)


def by_edition(release: Release, balance: Balance | None) -> list[tuple[str, float, int]]:
    """Name, value, step (place in the dataset account) of score and budget; for None the score alone, at 0."""
    rows = [(f"release/{name}", number, _place(balance)) for name, number in _scores(release)]
    return rows if balance is None else rows + budget_rows(balance)


def score_rows(release: Release, balance: Balance | None) -> list[tuple[str, float, int]]:
    """Return the displayed metric in its own unit, its 90% interval and a constant answer's; none for a report."""
    metric = None if _figures(release) else displayed_metric(release)
    if metric is None:
        return []
    low, high = (math.nan, math.nan) if metric.interval is None else metric.interval
    constant = math.nan if metric.baseline is None else metric.baseline
    rows = (("score", metric.value), ("score/low", low), ("score/high", high), ("score/constant", constant))
    return [(name, number, _place(balance)) for name, number in rows]


def budget_rows(balance: Balance) -> list[tuple[str, float, int]]:
    """A dataset's ε spent and left after a study, as rows of metrics: name, value, its place in the account."""
    rows = (("budget/spent", balance.spent), ("budget/left", balance.remaining))
    return [(name, number, balance.position) for name, number in rows]


def as_metrics(release: Release, rows: list[tuple[str, float, int]]) -> list[Any]:
    """Return rows of name, value and step as MLflow metrics at the release's time; infinite ones are left out."""
    now = int(datetime.fromisoformat(release.released_at).timestamp() * 1000)
    return [metric(_key(name), float(number), now, step) for name, number, step in rows if math.isfinite(number)]


def metric(name: str, value: float, moment: int, step: int) -> Any:
    """Return an MLflow metric; `moment` is in milliseconds since 1970."""
    from mlflow.entities import Metric

    return Metric(name, value, moment, step)


def params(release: Release) -> list[Any]:
    """Return the release's public facts and terms as MLflow parameters, in text."""
    from mlflow.entities import Param

    guarantee, facts = release.guarantee, release.facts
    own = {
        "study": release.study,
        "edition": release.edition,
        "method": release.method,
        "epsilon": f"{guarantee.epsilon:g}",
        "delta": f"{guarantee.delta:g}",
        "unit": guarantee.unit.value,
        "relation": guarantee.relation.value,
        "noise": noise_in_words(release),
        **{f"release.{name}": item for name, item in release.value.get("hyperparameters", {}).items()},
    }
    public = {
        name: in_words(item) for name, item in facts.items() if name not in ("options", "space", LEARNED_FROM, *own)
    }
    options = {f"option.{name}": in_words(item) for name, item in facts.get("options", {}).items()}
    return [
        Param(_key(name), str(item)[:MAX_PARAMETER_LENGTH])
        for name, item in (own | public | options | _shown(release) | _ends(release)).items()
    ]


def _place(balance: Balance | None) -> int:
    return 0 if balance is None else balance.position


def _figures(release: Release) -> list[tuple[str, Any]]:
    figures = release.value.get("metrics", {})
    if (compared := release.value.get(COMPARED)) is not None:
        figures = {COMPARED: {**compared, "sampling_interval": compared["interval"]}}
    return [(name, figure) for name, figure in figures.items() if figure["value"] is not None]


def _ends(release: Release) -> dict[str, str]:
    return {
        f"evaluation.{name} {kind} interval": interval(figure[f"{kind}_interval"])
        for name, figure in _figures(release)
        for kind in ("noise", "sampling")
        if figure[f"{kind}_interval"] is not None
    }


def _shown(release: Release) -> dict[str, str]:
    """Return the displayed metric's name, value, 90% interval and baseline, as MLflow parameters.

    MLflow's page that compares runs opens on the first three, by name, in which they differ.
    """
    metric = displayed_metric(release)
    if metric is None:
        return {"no_score": release.value[NO_SCORE]} if NO_SCORE in release.value else {}
    ends = {} if metric.interval is None else {"score.interval": interval(metric.interval)}
    constant = {} if metric.baseline is None else {"metric.baseline": score(metric.baseline)}
    return {"metric.name": metric.name, "score.value": score(metric.value), **ends, **constant}


def _scores(release: Release) -> Iterator[tuple[str, float]]:
    """Name and value of the score: clamped to its range, as drawn if that is outside, and in its metric's unit."""
    value, top, metric = release.value, release.facts.get("score_range"), displayed_metric(release)
    if metric is None:
        return
    shown = value["score"] if top is None else min(max(value["score"], 0.0), float(top))
    yield "score", shown
    if shown != value["score"]:
        yield "raw_score", value["score"]
    if "metric" in value and value["metric"]["value"] != value["score"]:
        yield metric.name, metric.value


def _key(name: str) -> str:
    group = next((group for group in METRIC_GROUPS if name.startswith(group)), "")
    allowed = UNNAMEABLE_PATTERN.sub("_", name.removeprefix(group))
    return f"{group}{allowed if allowed.strip('.') else '_'}"[:MAX_NAME_LENGTH]
