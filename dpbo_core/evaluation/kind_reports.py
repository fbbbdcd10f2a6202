"""Reports of several classes and of errors as plain JSON. Post-processing of one released table.

classes    metrics, confusion (true class x predicted class), classes (one by one), groups
errors     metrics, errors (bin by bin), binning (where errors are clipped, what bins can hide), groups
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from dpbo_core.evaluation import confusion, regression_errors
from dpbo_core.evaluation.figures import CLASSES_OF_A_GROUP, METRICS_OF_CLASSES, OF_A_CLASS
from dpbo_core.evaluation.intervals import wilson
from dpbo_core.evaluation.report import ends_of, plain
from dpbo_core.evaluation.simulation import Estimates


def class_report(table: confusion.ConfusionTable) -> dict[str, Any]:
    """The whole report of a released confusion matrix, with the table itself."""
    found = confusion.estimates(table)
    return {
        "table": table.to_json(),
        "metrics": {name: _told(found, name) for name in METRICS_OF_CLASSES},
        "confusion": _cells(table, found),
        "classes": [
            {"class": name} | {figure: _told(found, f"class {figure}", c) for figure in OF_A_CLASS}
            for c, name in enumerate(table.classes)
        ],
        "groups": _groups(table.groups, found, CLASSES_OF_A_GROUP),
    }


def error_report(table: regression_errors.ErrorTable) -> dict[str, Any]:
    """The whole report of a released histogram of errors, with the table itself."""
    found, ends = regression_errors.estimates(table), table.ends.tolist()
    return {
        "table": table.to_json(),
        "metrics": {name: _told(found, name) for name in regression_errors.METRICS},
        "errors": [
            {
                "above": ends[b] if b else None,
                "up_to": ends[b + 1] if b + 1 < table.n_cells else None,
                "public_mean": table.bins.means[b],
                "records": _told(found, "in records", b),
            }
            for b in range(table.n_cells)
        ],
        "binning": {
            "clipped_at": table.bound,
            "mae_off_at_most": plain(regression_errors.farthest(table)),
            "public_variance": table.variance,
        },
        "groups": _groups(table.groups, found, regression_errors.OF_A_GROUP),
    }


def _cells(table: confusion.ConfusionTable, found: Estimates) -> list[dict[str, Any]]:
    """Noise has one law in every cell; the sampling of a count is that of its share of all records."""
    M = table.split(confusion.shifted_counts(table)).sum(axis=0)
    low, high = (float(end - found.values["cell"]) for end in found.noise["cell"])
    every = np.full(M.shape, float(table.n_records))
    sampling = [end * table.n_records for end in wilson(M / table.n_records, every)]
    return [
        {
            "true": true,
            "predicted": predicted,
            "records": {
                "value": plain(max(0.0, M[i, j])),
                "noise_interval": ends_of((np.maximum(0.0, M[i, j] + low), np.maximum(0.0, M[i, j] + high))),
                "sampling_interval": ends_of((sampling[0][i, j], sampling[1][i, j])),
            },
        }
        for i, true in enumerate(table.classes)
        for j, predicted in enumerate(table.classes)
    ]


def _groups(names: tuple[str, ...], found: Estimates, figures: Iterable[str]) -> dict[str, Any]:
    return {
        name: {"records_share": _told(found, "of records_share", g)}
        | {figure: _told(found, f"of {figure}", g) for figure in figures}
        | {"gaps": {figure: _told(found, f"gap {figure}", g) for figure in figures}}
        for g, name in enumerate(names)
    }


def _told(found: Estimates, name: str, at: int | None = None) -> dict[str, Any]:
    value, noise, sampling = found.values[name], found.noise[name], found.sampling[name]
    if at is not None:
        value, noise, sampling = value[at], (noise[0][at], noise[1][at]), (sampling[0][at], sampling[1][at])
    return {"value": plain(value), "noise_interval": ends_of(noise), "sampling_interval": ends_of(sampling)}
