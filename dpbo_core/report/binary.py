"""The report of two classes: a histogram of classes and of public bins of the decision value.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s | `outcome` | decision values | (m,) |
| e | `edges` | public, ascending: a record is above an edge where s > e | (B − 1,) |
| P_b, N_b | `positives`, `negatives` | of each bin, ascending; the cells are [negatives, positives] | (…, B) |
| TP_j, FP_j | — | above edge j: Σ_{b>j} of them | (…, B − 1) |
| AUC | `auc` | Σ_b P_b (Σ_{a<b} N_a + c N_b)/(PN), c = `ties.ranked` | (…) |
| AP | `average_precision` | Σ_s (P_s/P)·precision from step s upwards, bins cut as public records lie | (…) |
| ECE | `calibration_error` | Σ_b |P_b − p_b n_b|/Σ n_b, p_b the public mean probability of the bin | (…) |
| — | `mean_log_loss` | −Σ_b (P_b log p_b + N_b log(1 − p_b))/Σ n_b | (…) |

The intervals of AP and of every AUC, a group's too, hold for any order of the records within each bin. A quotient
whose divisor is no number of records above 0 is NaN. As JSON:

roc           false and true positive rate at every edge, from (0, 0) to (1, 1)
confusion     at every edge: the four counts, recall, precision, specificity, F1, accuracy, lift; at the model's own
              the counts with their intervals
calibration   bin by bin: what the model says, what was so
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.kinds import Scores, Verb
from dpbo_core.report import FOUR_COUNTS, THRESHOLD_METRICS
from dpbo_core.report.binary_bins import (
    AucTies,
    PublicSteps,
    auc_ties,
    average_precision,
    average_precision_ends,
    expected,
    from_above,
    threshold_of,
)
from dpbo_core.report.histogram_cells import HistogramCells, class_bins
from dpbo_core.report.report_kind import (
    HIGH,
    LOW,
    Estimates,
    ExpectedErrors,
    Figures,
    PublicRecords,
    Reals,
    ReportKind,
    TableSize,
    plain_json,
    ratio,
)

SHARE_DENOMINATORS = {  # shares, and of how many
    "recall": "positives",
    "specificity": "negatives",
    "precision": "flagged",
    "accuracy": "read",
    "flagged_share": "read",
    "positive_share": "read",
}
COUNT_METRICS = ("positives", "negatives", "read", "flagged", *FOUR_COUNTS, "records")
PROBABILITY_FLOOR = 1e-9  # a probability below this is taken for this, in a log-loss
UNBOUNDED_METRICS = (
    "mean_log_loss",
    "lift",
    "at lift",
    *COUNT_METRICS,
    *(f"{of} {name}" for of in ("at", "in", "of") for name in COUNT_METRICS),
)


@dataclass(frozen=True)
class BinaryCells(HistogramCells):
    """Cells of two classes: 1 + y·B + bin of the decision value, which is the outcome of `verb`."""

    verb: Verb

    @property
    def n_cells(self) -> int:
        """The number of histogram cells of one group: 2·B, for two classes and B bins."""
        return 2 * (len(self.edges) + 1)

    @property
    def needs(self) -> Verb:
        """The estimator method needed: `predict_proba`, or `decision_function` where there are no probabilities."""
        return self.verb

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Each record's cell, (k,): 1 + class·B + bin of `outcome` (its last column if two); 0 if unreadable."""
        values = outcome[:, -1] if outcome.ndim == 2 else outcome
        return class_bins(values, np.asarray(truth), self.edges).astype(np.float64)


@dataclass(frozen=True)
class Binary(ReportKind):
    """How a table of two classes is read."""

    edges: tuple[float, ...]  # between the bins, ascending
    threshold: float  # the model's own, one of the edges
    ties: AucTies  # what public records say of pairs within a bin
    # mean probability of the public records in each bin, as the model has it; None if there is none
    predicted: tuple[float | None, ...] | None
    steps: PublicSteps  # how public records lie within each bin
    positive_class: str | None = None  # what people call it

    title = "two classes"
    metrics = (
        *("auc", "average_precision", "positive_share", "unread_share"),
        *THRESHOLD_METRICS,
        *("balanced_accuracy", "calibration_error", "mean_log_loss"),
    )
    of_a_group = ("positive_share", "auc", "recall", "specificity", "precision", "flagged_share")
    raised = ("calibration_error",)
    divided: ClassVar = {
        **dict.fromkeys(("auc", "of auc", "gap auc", "balanced_accuracy")),
        **dict.fromkeys(("average_precision", "recall", "at recall", "of recall", "gap recall"), 1),
        **dict.fromkeys(("specificity", "at specificity", "of specificity", "gap specificity"), 0),
    }
    has_threshold = True

    @classmethod
    def expected(cls, public: PublicRecords, size: TableSize, n_bins: int | None) -> ExpectedErrors:
        """Edges for `n_bins` bins (as many as seem best if None), and the errors noise leaves in AUC and recall."""
        return expected(public, size, n_bins)

    @classmethod
    def cells(cls, public: PublicRecords, edges: tuple[float, ...]) -> BinaryCells:
        """Return the map from records to histogram cells by class and decision value."""
        return BinaryCells(edges, public.verb)

    @classmethod
    def of(cls, public: PublicRecords, edges: tuple[float, ...]) -> "Binary":
        """The kind of report for two classes at these bin edges, with public records' ties and probabilities."""
        records = public.outcome, public.truth == 1, edges
        steps = PublicSteps.of(*records)
        positive_class = public.classes[-1] if public.classes else None
        ties, predicted = auc_ties(*records), _predicted(public, edges)
        return cls(edges, threshold_of(public.verb), ties, predicted, steps, positive_class)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape [class, bin] of a histogram: (2, B)."""
        return 2, len(self.edges) + 1

    @property
    def own(self) -> int:
        """The index, among the edges, of the model's own threshold, above which it predicts the positive class."""
        return self.edges.index(self.threshold)

    def figures(self, cells: Reals) -> Figures:
        """All metrics of histograms (…, 2, B), by name: scalars (…); "at …" one per edge, "in …" one per bin."""
        negatives, positives = cells[..., 0, :], cells[..., 1, :]
        figures = _bin_figures(negatives, positives, self.ties.ranked)
        precision = figures["average_precision"] = self._average_precision(negatives, positives)
        low, high = average_precision_ends(positives, negatives)
        figures[LOW + "average_precision"] = np.fmin(low, precision)
        figures[HIGH + "average_precision"] = np.fmax(high, precision)
        figures |= {f"at {name}": values for name, values in at_edges(negatives, positives).items()}
        figures |= {name: figures[f"at {name}"][..., self.own] for name in (*THRESHOLD_METRICS, "flagged")}
        figures["balanced_accuracy"] = (figures["recall"] + figures["specificity"]) / 2.0
        records = negatives + positives
        figures["in records"], figures["in observed"] = records, ratio(positives, records)
        if self.predicted is not None:
            p, stated = self._stated
            loss = -(
                positives * np.log(np.clip(p, PROBABILITY_FLOOR, 1.0))
                + negatives * np.log(np.clip(1.0 - p, PROBABILITY_FLOOR, 1.0))
            )
            figures |= self.rises(cells, cells)
            figures["mean_log_loss"] = ratio((stated * loss).sum(axis=-1), (stated * records).sum(axis=-1))
        return figures

    def rises(self, moves: Reals, cells: Reals) -> Figures:
        """The most that count changes `moves` add to the calibration error of `cells`; {} without probabilities."""
        if self.predicted is None:
            return {}
        p, stated = self._stated
        off = np.abs(moves[..., 1, :] - p * moves.sum(axis=-2))
        return {"calibration_error": ratio((stated * off).sum(axis=-1), (stated * cells.sum(axis=-2)).sum(axis=-1))}

    @property
    def _stated(self) -> tuple[Reals, Reals]:
        """Each bin's mean predicted probability (0 if none), and a mask (1 or 0) of where there is one; (B,)."""
        predicted = self.predicted or ()
        stated = np.array([value is not None for value in predicted], dtype=np.float64)
        return np.array([0.0 if value is None else value for value in predicted]), stated

    def group_figures(self, cells: Reals) -> Figures:
        """Return the metrics and counts that every group of records gets, by name, of histograms (…, 2, B)."""
        negatives, positives = cells[..., 0, :], cells[..., 1, :]
        at_own = {name: values[..., self.own] for name, values in at_edges(negatives, positives).items()}
        figures = at_own | _bin_figures(negatives, positives, self.ties.ranked)
        beside = LOW + "auc", HIGH + "auc", "positives", "negatives", "read", "flagged"
        return {name: figures[name] for name in (*self.of_a_group, *beside)}

    def _average_precision(self, negatives: Reals, positives: Reals) -> Reals:
        """The average precision of counts (…, B) by class, a bin's records spread within it as public ones are."""
        ofP, ofN = self.steps.shares()
        P, N = (
            (one[..., None] * of).reshape(*one.shape[:-1], -1) for one, of in ((positives, ofP), (negatives, ofN))
        )
        return average_precision(P, N, self.ties.untied)

    def class_means(self, cells: Reals) -> Mapping[str, list[tuple[Reals, Reals]]]:
        """For each metric that is a mean over a class: its counts (…, B), and what a record of a bin adds to it."""
        N, P = cells[..., 0, :], cells[..., 1, :]
        within = self.ties.ranked
        below = np.clip(ratio(N.cumsum(axis=-1) - (1.0 - within) * N, N.sum(axis=-1, keepdims=True)), 0.0, 1.0)
        above = np.clip(ratio(from_above(P) - (1.0 - within) * P, P.sum(axis=-1, keepdims=True)), 0.0, 1.0)
        flagged = np.broadcast_to(np.arange(P.shape[-1]) > self.own, P.shape).astype(np.float64)
        right = flagged, 1.0 - flagged
        recall, specificity = (
            np.clip(ratio((one * of).sum(axis=-1, keepdims=True), one.sum(axis=-1, keepdims=True)), 0.0, 1.0)
            for one, of in zip((P, N), right, strict=True)
        )
        return {
            "auc": [(P, below), (N, above)],
            "recall": [(P, right[0])],
            "specificity": [(N, right[1])],
            "balanced_accuracy": [(P, (right[0] + specificity) / 2.0), (N, (right[1] + recall) / 2.0)],
        }

    def denominators(self, values: Figures) -> Figures:
        """For each metric that is a share, by name, the number of records that it is a share of."""
        denominators = {"in observed": values["in records"]}
        for name, whole in SHARE_DENOMINATORS.items():
            denominators |= {of + name: values[of + whole] for of in ("", "of ") if of + whole in values}
            denominators[f"at {name}"] = values["at flagged" if whole == "flagged" else whole]
        return denominators

    def limits(self, name: str) -> tuple[float, float]:
        """A metric's least and greatest value: 0 and 1, but ∞ for counts, lift and log-loss, ±1 of a "gap …"."""
        return (-1.0 if name.startswith("gap ") else 0.0), np.inf if name in UNBOUNDED_METRICS else 1.0

    def parts(self, estimates: Estimates) -> dict[str, Any]:
        """Return the report's parts beside its metrics, as JSON: `roc`, `confusion` by edge, `calibration`."""
        return {
            "roc": _roc_points(self.edges, estimates.values),
            "confusion": self._confusions(estimates),
            "calibration": [] if self.predicted is None else self._bin_shares(self.predicted, estimates),
        }

    def to_json(self) -> dict[str, Any]:
        """Return the report's public description: positive class, edges, threshold, ties and probabilities."""
        return {
            "positive_class": self.positive_class,
            "edges": list(self.edges),
            "threshold": self.threshold,
            "within": self.ties.ranked,
            "untied": self.ties.untied,
            "steps": {name: [list(bin_) for bin_ in bins] for name, bins in vars(self.steps).items()},
            "predicted": None if self.predicted is None else list(self.predicted),
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> "Binary":
        """Return the kind of report, its edges, threshold and ties, from what `to_json` wrote; no counts."""
        ties = AucTies(table["within"], table["untied"])
        predicted = None if table["predicted"] is None else tuple(table["predicted"])
        steps = PublicSteps(*(tuple(map(tuple, table["steps"][name])) for name in ("positives", "negatives")))
        return cls(tuple(table["edges"]), table["threshold"], ties, predicted, steps, table["positive_class"])

    def _confusions(self, estimates: Estimates) -> list[dict[str, Any]]:
        N, P = estimates.cells.sum(axis=(0, -1)).tolist()
        TP, FP = (estimates.values[f"at {name}"].tolist() for name in ("true_positives", "false_positives"))
        own_counts = {name: estimates.figure(f"at {name}", self.own) for name in FOUR_COUNTS}
        return [
            {
                "threshold": edge,
                "own": j == self.own,
                "true_positives": TP[j],
                "false_positives": FP[j],
                "false_negatives": max(0.0, P - TP[j]),
                "true_negatives": max(0.0, N - FP[j]),
            }
            | {name: estimates.figure(f"at {name}", j) for name in THRESHOLD_METRICS}
            | ({"counts": own_counts} if j == self.own else {})
            for j, edge in enumerate(self.edges)
        ]

    def _bin_shares(self, predicted: tuple[float | None, ...], estimates: Estimates) -> list[dict[str, Any]]:
        ends = [None, *self.edges, None]
        return [
            {
                "above": ends[b],
                "up_to": ends[b + 1],
                "predicted": mean,
                "observed": estimates.figure("in observed", b),
                "records": estimates.figure("in records", b),
            }
            for b, mean in enumerate(predicted)
        ]


def best_threshold(
    released: Mapping[str, Any], *, false_positive: float, false_negative: float, prevalence: float | None = None
) -> dict[str, Any]:
    """Return the bin edge with the smallest expected cost of a record, as JSON; None to flag everybody, or nobody.

    Its cost is at the share of positives `prevalence`, or else the report's. It was chosen by noised figures, so
    its cost is a little too optimistic.
    """
    share = released["metrics"]["positive_share"]["value"] if prevalence is None else prevalence
    share = float("nan") if share is None else share
    rows = released["confusion"]
    recall, specificity = (
        np.array([first, *(row[name]["value"] for row in rows), 1.0 - first], dtype=np.float64)
        for name, first in (("recall", 1.0), ("specificity", 0.0))  # everybody flagged before, and nobody after
    )
    costs = share * false_negative * (1.0 - recall) + (1.0 - share) * false_positive * (1.0 - specificity)
    at = len(costs) - 1 if np.isnan(costs).all() else int(np.nanargmin(costs))
    inner = 0 < at < len(costs) - 1
    return {
        "threshold": rows[at - 1]["threshold"] if inner else None,
        "flag": "above" if inner else "everybody" if at == 0 else "nobody",
        "expected_cost": plain_json(costs[at]),
        "recall": plain_json(recall[at]),
        "specificity": plain_json(specificity[at]),
        "prevalence": plain_json(share),
        "false_positive_cost": false_positive,
        "false_negative_cost": false_negative,
    }


def at_edges(negatives: Reals, positives: Reals) -> Figures:
    """The metrics, by name, (…, B − 1), if all records above an edge are flagged, of each class's counts (…, B)."""
    P, N = positives.sum(axis=-1, keepdims=True), negatives.sum(axis=-1, keepdims=True)
    TP, FP = from_above(positives)[..., 1:], from_above(negatives)[..., 1:]
    recall, precision = ratio(TP, P), ratio(TP, TP + FP)
    return {
        "true_positives": TP,
        "false_positives": FP,
        "false_negatives": P - TP,
        "true_negatives": N - FP,
        "recall": recall,
        "specificity": ratio(N - FP, N),
        "precision": precision,
        "f1": ratio(2.0 * TP, TP + FP + P),
        "accuracy": ratio(TP + N - FP, P + N),
        "flagged_share": ratio(TP + FP, P + N),
        "lift": ratio(precision, ratio(P, P + N)),
        "flagged": TP + FP,
    }


def _bin_figures(negatives: Reals, positives: Reals, ranked: float) -> dict[str, Reals]:
    """Return the counts and the AUC, by name, of counts (…, B): a share `ranked` of the pairs within a bin is
    ordered, at the ends LOW and HIGH none, or all.
    """
    P, N = positives.sum(axis=-1), negatives.sum(axis=-1)
    below = negatives.cumsum(axis=-1) - negatives
    pairs = np.where((P > 0.0) & (N > 0.0), P * N, np.nan)
    return {
        "positives": P,
        "negatives": N,
        "read": P + N,
        "positive_share": ratio(P, P + N),
        **{
            end + "auc": (positives * (below + share * negatives)).sum(axis=-1) / pairs
            for end, share in (("", ranked), (LOW, 0.0), (HIGH, 1.0))
        },
    }


def _roc_points(edges: tuple[float, ...], figures: Figures) -> list[dict[str, float | None]]:
    recall, specificity = figures["at recall"].tolist(), figures["at specificity"].tolist()
    inner = [
        {"fpr": plain_json(1.0 - s), "tpr": plain_json(r), "threshold": edge}
        for edge, r, s in zip(edges, recall, specificity, strict=True)
    ]
    first: dict[str, float | None] = {"fpr": 0.0, "tpr": 0.0, "threshold": None}
    last: dict[str, float | None] = {"fpr": 1.0, "tpr": 1.0, "threshold": None}
    return [first, *reversed(inner), last]


def _predicted(public: PublicRecords, edges: tuple[float, ...]) -> tuple[float | None, ...] | None:
    """Public records' mean probability in each bin, None if empty; None for a model that has no probabilities."""
    if public.verb != "predict_proba" and not public.logistic:
        return None
    values = public.outcome
    probability = 0.5 * (1.0 + np.tanh(0.5 * values)) if public.logistic else values
    at = np.searchsorted(np.array(edges), values)
    counts = np.bincount(at, minlength=len(edges) + 1)
    sums = np.bincount(at, weights=probability, minlength=len(edges) + 1)
    return tuple(float(s / n) if n else None for s, n in zip(sums, counts, strict=True))
