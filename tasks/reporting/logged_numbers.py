"""What of a release becomes a metric, and what a parameter. Nothing else is logged."""

import math
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from dpbo.tasks.reporting.posterior_picture import band_by_step
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.balance import balance_after
from dpbo_core.privacy.release import Release

LONGEST = 500  # characters MLflow takes for a parameter
LONGEST_NAME = 250
GROUPS = ("privacy/", "release/", "trajectory/", "evaluation/")
ENDS = ("low", "high")
UNNAMEABLE = re.compile(r"[^\w\-.: ]")  # what MLflow takes in no name; of its slashes the groups' alone stay


def metrics(release: Release, account: Account) -> list[Any]:
    """The released numbers, their price, the account after them; the trajectory by step, with its band.

    Their time is that of the release, so that publishing again writes the same rows and none twice.
    """
    from mlflow.entities import Metric

    now = int(datetime.fromisoformat(release.released_at).timestamp() * 1000)
    value, guarantee = release.value, release.guarantee
    flat: dict[str, float] = {
        "privacy/epsilon": guarantee.epsilon,
        "privacy/delta": guarantee.delta,
        "privacy/noise_scale": release.spends[0].noise_scale,
    }
    flat |= {"release/score": value["score"]} if "score" in value else {}
    if "interval" in value:
        flat |= dict(zip(("release/score_low", "release/score_high"), value["interval"], strict=True))
    flat |= _metric(value.get("metric"), release.facts.get("baseline"))
    flat |= {f"release/{name}": item for name, item in _numeric(value.get("hyperparameters", {}))}
    flat |= dict(_report(value.get("metrics", {})))
    rows = [(name, number, 0) for name, number in flat.items()]
    balance = balance_after(account, release.release_id)
    if balance is not None:
        rows.append(("privacy/epsilon_spent", balance.spent, balance.position))
        rows.append(("privacy/epsilon_remaining", balance.remaining, balance.position))
    for point in value.get("trajectory", []):
        rows.append(("trajectory/score", point["score"], point["step"]))
        rows += [(f"trajectory/{name}", item, point["step"]) for name, item in _numeric(point["hyperparameters"])]
    for step, (mean, half) in enumerate(band_by_step(release), start=1):
        rows += [(f"trajectory/{name}", number, step) for name, number in
                 (("posterior", mean), ("low", mean - half), ("high", mean + half))]  # fmt: skip
    return [Metric(_key(name), float(number), now, step) for name, number, step in rows if math.isfinite(number)]


def params(release: Release) -> list[Any]:
    """Public facts, as text."""
    from mlflow.entities import Param

    guarantee, facts = release.guarantee, release.facts
    public = {
        "study": release.study,
        "edition": release.edition,
        "method": release.method,
        "unit": guarantee.unit.value,
        "relation": guarantee.relation.value,
        "mechanism": release.spends[0].mechanism,
        **{f"release.{name}": item for name, item in release.value.get("hyperparameters", {}).items()},
        **{name: item for name, item in facts.items() if name not in ("options", "space")},
        **{f"option.{name}": item for name, item in facts.get("options", {}).items()},
    }
    return [Param(_key(name), str(item)[:LONGEST]) for name, item in public.items()]


def _report(told: Any) -> Iterator[tuple[str, float]]:
    """Of an evaluation: evaluation/auc, and the ends of its intervals, evaluation/auc_noise_low and so on."""
    for name, figure in told.items():
        if figure["value"] is not None:
            yield f"evaluation/{name}", figure["value"]
        for kind in ("noise", "sampling"):
            interval = figure[f"{kind}_interval"]
            if interval is not None:
                yield from ((f"evaluation/{name}_{kind}_{end}", x) for end, x in zip(ENDS, interval, strict=True))


def _key(name: str) -> str:
    """A name that MLflow takes, whatever a hyperparameter is called: it reads names as paths, too."""
    group = next((group for group in GROUPS if name.startswith(group)), "")
    kept = UNNAMEABLE.sub("_", name.removeprefix(group))
    return f"{group}{kept if kept.strip('.') else '_'}"[:LONGEST_NAME]


def _metric(metric: Any, baseline: float | None) -> dict[str, float]:
    """The score in its natural unit, under its metric's name, and what it has to beat."""
    if metric is None:
        return {}
    named = f"release/{metric['name']}"
    ends = metric["interval"] or ()
    found = {named: metric["value"], **dict(zip((f"{named}_low", f"{named}_high"), ends, strict=False))}
    return found if baseline is None else found | {"release/baseline": baseline}


def _numeric(point: Any) -> list[tuple[str, float]]:
    return [(name, item) for name, item in point.items() if type(item) in (int, float)]
