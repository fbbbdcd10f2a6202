"""What of a release becomes a metric, and what a parameter. Nothing else is logged.

A metric is what is worth a chart: the score by edition with its interval, the score by step, the budget after each
study, a report's figures. Parameters are the few values by which runs are compared; `release.json` has all facts.
"""

import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from dpbo.tasks.reporting.document import interval
from dpbo.tasks.reporting.document import number as in_short
from dpbo.tasks.reporting.posterior_picture import band_by_step
from dpbo_core.ledger.accounting.account import Account, Balance, balance_after
from dpbo_core.privacy.release import Release, displayed_metric
from dpbo_core.report import COMPARED

MAX_PARAMETER_LENGTH = 500  # characters MLflow takes for a parameter
MAX_PARAMETERS = 12  # of a run, unless its choice alone has more
COMPARED_FACTS = ("estimator", "steps", "n_candidates", "n_validation", "n_persons")
MAX_NAME_LENGTH = 250
SCORE_METRICS = ("score", "score/low", "score/high", "score/constant")
BUDGET_METRICS = ("budget/spent", "budget/left")
METRIC_GROUPS = ("budget/", "release/", "score/", "trajectory/", "evaluation/")
UNNAMEABLE_PATTERN = re.compile(
    r"[^\w\-.: ]"
)  # what MLflow takes in no name; of its slashes the groups' alone stay


def metrics(release: Release, account: Account) -> list[Any]:
    """Return all MLflow metrics of a release: its score, the budget, a report's figures, the trajectory by step.

    Their time is that of the release, so that publishing again writes the same rows and none twice.
    """
    rows = _named(release) + by_edition(release, balance_after(account, release.release_id)) + score_rows(release)
    rows += [(f"evaluation/{name}", figure["value"], 0) for name, figure in figures(release)]
    for point in release.value.get("trajectory", []):
        if point["score"] is not None:
            rows.append(("trajectory/score", point["score"], point["step"]))
    rows += [("trajectory/posterior", mean, step) for step, (mean, _) in enumerate(band_by_step(release), start=1)]
    return as_metrics(release, rows)


def by_edition(release: Release, balance: Balance | None) -> list[tuple[str, float, int]]:
    """Return name, value and step of the released score, and of the budget after it, if given.

    The step is 0: MLflow draws a bar of one value at step 0, and a line of one dot at any other.
    """
    rows = [(f"release/{name}", number, 0) for name, number in _scores(release)]
    return rows if balance is None else rows + [(name, number, 0) for name, number, _ in budget_rows(balance)]


def _named(release: Release) -> list[tuple[str, float, int]]:
    """Return the metric under its own name; none where that is a name of ours."""
    metric = displayed_metric(release)
    if metric is None or metric.name in SCORE_METRICS or "/" in metric.name:
        return []
    return [(metric.name, metric.value, 0)]


def score_rows(release: Release) -> list[tuple[str, float, int]]:
    """Return the displayed metric in its own unit, its 90% interval and a constant answer's; none for a report.

    They have four digits, as MLflow's lists show every digit that there is.
    """
    metric = None if figures(release) else displayed_metric(release)
    if metric is None:
        return []
    low, high = (math.nan, math.nan) if metric.interval is None else metric.interval
    constant = math.nan if metric.baseline is None else metric.baseline
    numbers = (metric.value, low, high, constant)
    return [(name, float(f"{number:.4g}"), 0) for name, number in zip(SCORE_METRICS, numbers, strict=True)]


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


def _scores(release: Release) -> Iterator[tuple[str, float]]:
    """Name and value of the score: clamped to its range, and as drawn if that is outside."""
    value, top = release.value, release.facts.get("score_range")
    if value.get("score") is None:
        return
    shown = value["score"] if top is None else min(max(value["score"], 0.0), float(top))
    yield "score", shown
    if shown != value["score"]:
        yield "raw_score", value["score"]


def _key(name: str) -> str:
    group = next((group for group in METRIC_GROUPS if name.startswith(group)), "")
    allowed = UNNAMEABLE_PATTERN.sub("_", name.removeprefix(group))
    return f"{group}{allowed if allowed.strip('.') else '_'}"[:MAX_NAME_LENGTH]
