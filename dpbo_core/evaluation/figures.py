"""Every figure of a report as a function of the table, for many tables at once: nothing here looks at a record.

| symbol | name here | meaning | shape |
|---|---|---|---|
| P_b, N_b | `positives`, `negatives` | of each bin, the bins ascending | (…, B) |
| TP_j, FP_j | — | above edge j: Σ_{b>j} of them | (…, B − 1) |
| AUC | `auc` | Σ_b P_b (Σ_{a<b} N_a + c N_b)/(PN), c = `within` of the table | (…) |
| AP | `average_precision` | Σ_b (P_b/P)·precision of everything from bin b upwards | (…) |
| ECE | `calibration_error` | Σ_b |P_b − p_b n_b|/Σ n_b, p_b the public mean probability of the bin | (…) |

A quotient whose divisor is no number of records above 0 is NaN.
"""

from collections.abc import Mapping

import numpy as np

from dpbo_core.evaluation.names import AT_THRESHOLD as AT_THRESHOLD
from dpbo_core.evaluation.noised_table import NoisedTable, Reals

Figures = Mapping[str, Reals]
OF_WHOM = {  # shares, and of how many
    "recall": "positives",
    "specificity": "negatives",
    "precision": "flagged",
    "accuracy": "read",
    "flagged_share": "read",
    "positive_share": "read",
}
METRICS = (
    "auc",
    "average_precision",
    "positive_share",
    "unread_share",
    *AT_THRESHOLD,
    "balanced_accuracy",
    "calibration_error",
)
OF_A_GROUP = ("positive_share", "auc", "recall", "specificity", "precision", "flagged_share")
METRICS_OF_CLASSES = ("accuracy", "balanced_accuracy", "macro_f1", "cohen_kappa", "unread_share")
OF_A_CLASS = ("recall", "precision", "f1", "records_share")
CLASSES_OF_A_GROUP = ("accuracy", "balanced_accuracy", "macro_f1")
OF_WHOM_OF_CLASSES = {  # shares of several classes, and of how many
    "accuracy": "read",
    "of accuracy": "of read",
    "class recall": "class records",
    "class precision": "class predicted",
    "class records_share": "read",
}
DIFFERENCES = ("gap ",)  # what begins with it lies in [−1, 1]; a lift has no upper end; all else lies in [0, 1]


def figures(table: NoisedTable, counts: Reals) -> Figures:
    """By name, for counts (…, C): scalars (…); "at …" one an edge, "in …" one a bin, "of …" and "gap …" a group."""
    with np.errstate(all="ignore"):
        return _figures(table, counts)


def _figures(table: NoisedTable, counts: Reals) -> Figures:
    split = table.split(counts)
    whole = split.sum(axis=-3)
    negatives, positives = whole[..., 0, :], whole[..., 1, :]
    found = {"unread_share": counts[..., 0] / table.n_records} | _of_classes(negatives, positives, table.within)
    found |= {f"at {name}": values for name, values in at_edges(negatives, positives).items()}
    found |= {name: found[f"at {name}"][..., table.own] for name in (*AT_THRESHOLD, "flagged")}
    found |= {"positives": positives.sum(axis=-1), "negatives": negatives.sum(axis=-1)}
    found["read"] = found["positives"] + found["negatives"]
    found["balanced_accuracy"] = (found["recall"] + found["specificity"]) / 2.0
    found["in records"], found["in observed"] = negatives + positives, _ratio(positives, negatives + positives)
    if table.predicted is not None:
        p = np.array([0.0 if value is None else value for value in table.predicted])
        known = np.array([value is not None for value in table.predicted])
        records = negatives + positives
        off = np.where(known, np.abs(positives - p * records), 0.0).sum(axis=-1)
        found["calibration_error"] = _ratio(off, np.where(known, records, 0.0).sum(axis=-1))
    if table.groups:
        one = _of_a_group(table, split[..., 0, :], split[..., 1, :])
        others = whole[..., None, :, :] - split
        rest = _of_a_group(table, others[..., 0, :], others[..., 1, :])
        found |= {f"of {name}": one[name] for name in ("positives", "negatives", "read", "flagged")}
        found["of records_share"] = split.sum(axis=(-2, -1)) / table.n_records
        found |= {f"of {name}": one[name] for name in OF_A_GROUP}
        found |= {f"gap {name}": one[name] - rest[name] for name in OF_A_GROUP}
    return found


def at_edges(negatives: Reals, positives: Reals) -> Figures:
    """What flagging all above each edge comes to, (…, B − 1)."""
    P, N = positives.sum(axis=-1, keepdims=True), negatives.sum(axis=-1, keepdims=True)
    TP, FP = above(positives), above(negatives)
    recall, precision = _ratio(TP, P), _ratio(TP, TP + FP)
    return {
        "true_positives": TP,
        "false_positives": FP,
        "recall": recall,
        "specificity": _ratio(N - FP, N),
        "precision": precision,
        "f1": _ratio(2.0 * TP, TP + FP + P),
        "accuracy": _ratio(TP + N - FP, P + N),
        "flagged_share": _ratio(TP + FP, P + N),
        "lift": _ratio(precision, _ratio(P, P + N)),
        "flagged": TP + FP,
    }


def above(bins: Reals) -> Reals:
    """Σ over the bins above each edge, (…, B − 1)."""
    return np.asarray(np.flip(np.flip(bins, axis=-1).cumsum(axis=-1), axis=-1)[..., 1:])


def _of_a_group(table: NoisedTable, negatives: Reals, positives: Reals) -> Figures:
    edges = at_edges(negatives, positives)
    names = ("recall", "specificity", "precision", "flagged_share", "flagged")
    counts = {"positives": positives.sum(axis=-1), "negatives": negatives.sum(axis=-1)}
    counts["read"] = counts["positives"] + counts["negatives"]
    return (
        {name: edges[name][..., table.own] for name in names}
        | counts
        | _of_classes(negatives, positives, table.within)
    )


def _of_classes(negatives: Reals, positives: Reals, within: float) -> dict[str, Reals]:
    P, N = positives.sum(axis=-1), negatives.sum(axis=-1)
    below = negatives.cumsum(axis=-1) - (1.0 - within) * negatives
    pairs = np.where((P > 0.0) & (N > 0.0), P * N, np.nan)
    upwards = np.flip(np.flip(positives, axis=-1).cumsum(axis=-1), axis=-1)
    flagged = upwards + np.flip(np.flip(negatives, axis=-1).cumsum(axis=-1), axis=-1)
    precise = np.where(positives == 0.0, 0.0, positives * _ratio(upwards, flagged))
    return {
        "positive_share": _ratio(P, P + N),
        "auc": (positives * below).sum(axis=-1) / pairs,
        "average_precision": _ratio(precise.sum(axis=-1), P),
    }


def of_matrix(M: Reals) -> dict[str, Reals]:
    """Of confusion matrices (…, C, C), true class by predicted one: (…), and "class …" one a class."""
    rows, columns, hits = M.sum(axis=-1), M.sum(axis=-2), np.diagonal(M, axis1=-2, axis2=-1)
    read = rows.sum(axis=-1)
    recall, f1 = _ratio(hits, rows), _ratio(2.0 * hits, rows + columns)
    accuracy = _ratio(hits.sum(axis=-1), read)
    chance = _ratio((rows * columns).sum(axis=-1), read**2)
    return {
        "read": read,
        "accuracy": accuracy,
        "balanced_accuracy": recall.mean(axis=-1),
        "macro_f1": f1.mean(axis=-1),
        "cohen_kappa": _ratio(accuracy - chance, 1.0 - chance),
        "class recall": recall,
        "class precision": _ratio(hits, columns),
        "class f1": f1,
        "class records_share": _ratio(rows, read[..., None]),
        "class records": rows,
        "class predicted": columns,
    }


def _ratio(part: Reals, whole: Reals) -> Reals:
    return np.asarray(np.where(whole > 0.0, part / np.where(whole > 0.0, whole, 1.0), np.nan))
