"""The report: every figure with its two intervals, as plain JSON. Post-processing of one released table.

metrics       one number each: auc, recall at the model's own threshold, …
roc           false and true positive rate at every edge, from (0, 0) to (1, 1)
confusion     at every edge: the four counts, recall, precision, specificity, F1, accuracy, lift
calibration   bin by bin: what the model says, what was so
groups        the same by group, and each group's distance from all other records
"""

import math
from typing import Any

import numpy as np

from dpbo_core.evaluation.figures import AT_THRESHOLD, METRICS, OF_A_GROUP, Figures
from dpbo_core.evaluation.intervals import Interval, estimates
from dpbo_core.evaluation.noised_table import NoisedTable, Reals

Estimates = tuple[Figures, dict[str, Interval], dict[str, Interval]]


def report(table: NoisedTable) -> dict[str, Any]:
    """The whole report of a released table, with the table itself."""
    found = estimates(table)
    return {
        "table": table.to_json(),
        "metrics": {name: _told(found, name) for name in METRICS if name in found[0]},
        "roc": _roc(table, found[0]),
        "confusion": _confusion(table, found),
        "calibration": [] if table.predicted is None else _calibration(table, table.predicted, found),
        "groups": _groups(table, found),
    }


def best_threshold(
    table: NoisedTable, *, false_positive: float, false_negative: float, prevalence: float | None = None
) -> dict[str, Any]:
    """The edge above which flagging costs least, for a record of the stated prevalence.

    Args:
        table: as released.
        false_positive: cost of flagging a negative.
        false_negative: cost of missing a positive.
        prevalence: share of positives; that of the table where None.

    Returns:
        The threshold (None where everybody or nobody is to be flagged) with the expected cost of one record. It was
        chosen by noised figures, so its own cost is a little higher than it looks.
    """
    found = estimates(table)[0]
    share = float(found["positive_share"]) if prevalence is None else prevalence
    recall, specificity = ([*_ends(found[f"at {name}"], name == "recall")] for name in ("recall", "specificity"))
    costs = np.array(
        [
            share * false_negative * (1.0 - r) + (1.0 - share) * false_positive * (1.0 - s)
            for r, s in zip(recall, specificity, strict=True)
        ]
    )
    at = len(costs) - 1 if np.isnan(costs).all() else int(np.nanargmin(costs))
    inner = 0 < at < len(costs) - 1
    return {
        "threshold": table.edges[at - 1] if inner else None,
        "flag": "above" if inner else "everybody" if at == 0 else "nobody",
        "expected_cost": plain(costs[at]),
        "recall": plain(recall[at]),
        "specificity": plain(specificity[at]),
        "prevalence": plain(share),
        "false_positive_cost": false_positive,
        "false_negative_cost": false_negative,
    }


def _ends(values: Reals, of_positives: bool) -> list[float]:  # noqa: FBT001
    """With everybody flagged before, and nobody after."""
    return [float(of_positives), *values.tolist(), float(not of_positives)]


def _roc(table: NoisedTable, found: Figures) -> list[dict[str, float | None]]:
    recall, specificity = found["at recall"], found["at specificity"]
    inner = [
        {"fpr": plain(1.0 - s), "tpr": plain(r), "threshold": edge}
        for edge, r, s in zip(table.edges, recall.tolist(), specificity.tolist(), strict=True)
    ]
    first: dict[str, float | None] = {"fpr": 0.0, "tpr": 0.0, "threshold": None}
    last: dict[str, float | None] = {"fpr": 1.0, "tpr": 1.0, "threshold": None}
    return [first, *reversed(inner), last]


def _confusion(table: NoisedTable, found: Estimates) -> list[dict[str, Any]]:
    whole = table.split(table.shifted(table.counts)).sum(axis=0)
    N, P = whole.sum(axis=-1).tolist()
    TP, FP = (found[0][f"at {name}"].tolist() for name in ("true_positives", "false_positives"))
    return [
        {
            "threshold": edge,
            "own": edge == table.threshold,
            "true_positives": TP[j],
            "false_positives": FP[j],
            "false_negatives": max(0.0, P - TP[j]),
            "true_negatives": max(0.0, N - FP[j]),
        }
        | {name: _told(found, f"at {name}", j) for name in AT_THRESHOLD}
        for j, edge in enumerate(table.edges)
    ]


def _calibration(table: NoisedTable, predicted: tuple[float | None, ...], found: Estimates) -> list[dict[str, Any]]:
    ends = [None, *table.edges, None]
    return [
        {
            "above": ends[b],
            "up_to": ends[b + 1],
            "predicted": predicted[b],
            "observed": _told(found, "in observed", b),
            "records": _told(found, "in records", b),
        }
        for b in range(table.n_bins)
    ]


def _groups(table: NoisedTable, found: Estimates) -> dict[str, Any]:
    return {
        name: {"records_share": _told(found, "of records_share", g)}
        | {figure: _told(found, f"of {figure}", g) for figure in OF_A_GROUP}
        | {"gaps": {figure: _told(found, f"gap {figure}", g) for figure in OF_A_GROUP}}
        for g, name in enumerate(table.groups)
    }


def _told(found: Estimates, name: str, at: int | None = None) -> dict[str, Any]:
    """One figure: its value, and both intervals; None where nothing can be said."""
    value, noise, sampling = found[0][name], found[1][name], found[2][name]
    if at is not None:
        value, noise, sampling = value[at], (noise[0][at], noise[1][at]), (sampling[0][at], sampling[1][at])
    return {"value": plain(value), "noise_interval": ends_of(noise), "sampling_interval": ends_of(sampling)}


def ends_of(interval: Interval) -> list[float] | None:
    """Both ends of one interval; None where one cannot be said."""
    low, high = plain(interval[0]), plain(interval[1])
    return None if low is None or high is None else [low, high]


def plain(value: Any) -> float | None:
    """A number that JSON has, else None."""
    number = float(value)
    return number if math.isfinite(number) else None
