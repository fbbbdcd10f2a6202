"""The report of several classes: their confusion matrix, and every figure that follows from it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| C | `classes` | public classes | scalar ≥ 2 |
| M | `cells` | records of true class y that are predicted as ŷ: [y, ŷ] | (…, C, C) |
| b, G | `size.scale`, `size.n_groups` | noise in each cell, groups | scalars |
| p | — | share of right predictions among public records | scalar |
| σ | — | noise of the accuracy, Σ M_yy/m: b·√(2G (C(1 − p)² + (C² − C)p²))/m | scalar |

The first cell holds what cannot be read, or has or is given a class that is none of them. A figure that needs
records of a class is NaN if it has none; so is a mean over classes if one of them is. A class that is never
predicted has no precision; its F1 is 0. As JSON: confusion (true class x predicted class), classes (one by one).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.kinds import Scores
from dpbo_core.models.scores.regression_error import as_numbers
from dpbo_core.report import MULTICLASS_METRICS
from dpbo_core.report.histogram_cells import HistogramCells
from dpbo_core.report.report_kind import (
    MAX_USEFUL_ERROR,
    MEAN_ABSOLUTE_DEVIATION,
    Estimates,
    ExpectedErrors,
    Figures,
    PublicRecords,
    Reals,
    ReportKind,
    TableSize,
    Z,
    figure_json,
    ratio,
    verdict,
    wilson,
)

MAX_CLASSES = 50  # the cells are their square
# errors that are good, and that are not useless: that is for the accuracy to say
ACCURACY_LIMITS, RECALL_LIMITS = (0.01, MAX_USEFUL_ERROR), (0.025, math.inf)
UNKNOWN_ACCURACY = 0.5  # share of right predictions, where no public record says it
CLASS_METRICS = ("recall", "precision", "f1", "records_share")
SHARE_DENOMINATORS = {  # shares, and of how many
    "accuracy": "read",
    "of accuracy": "of read",
    "class recall": "class records",
    "class precision": "class predicted",
    "class records_share": "read",
}


@dataclass(frozen=True)
class ClassCells(HistogramCells):
    """Cells of C classes, `n_classes`: 0 for a class that is none of them, else 1 + y·C + ŷ."""

    n_classes: int

    @property
    def n_cells(self) -> int:
        """The number C² of histogram cells of one group, without the one for unreadable records."""
        return self.n_classes**2

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Each record's histogram cell, (k,), by true and predicted class, in constant time; 0 for any other."""
        predicted, true = (
            np.asarray(sum((one == c) * (c + 1) for c in range(self.n_classes)))  # 0 for none
            for one in (as_numbers(outcome), np.asarray(truth))
        )
        return np.where((predicted > 0) & (true > 0), (true - 1) * self.n_classes + predicted, 0).astype(np.float64)


@dataclass(frozen=True)
class Multiclass(ReportKind):
    """How a confusion matrix is read."""

    classes: tuple[str, ...]  # their names, in the order of the cells

    title = "several classes"
    metrics = (*MULTICLASS_METRICS, "unread_share")
    of_a_group = ("accuracy", "balanced_accuracy", "macro_f1")
    has_bins = False
    divided: ClassVar = dict.fromkeys(
        ("balanced_accuracy", "of balanced_accuracy", "gap balanced_accuracy", "class recall")
    )

    @classmethod
    def expected(cls, public: PublicRecords, size: TableSize, n_bins: int | None) -> ExpectedErrors:
        """No bin edges, and the errors that noise will leave in the accuracy and in the rarest class's recall."""
        del n_bins
        C, n = len(public.classes), len(public.truth)
        counts = np.bincount(public.truth, minlength=C).astype(np.float64)
        last = int(counts.argmin())
        rarest = float(counts[last] / n) if n else 1.0 / C
        p = float((public.truth == public.outcome).mean()) if n else UNKNOWN_ACCURACY
        hit = public.outcome[public.truth == last] == last
        q = float(hit.mean()) if len(hit) else 0.0 if n else UNKNOWN_ACCURACY
        noise = MEAN_ABSOLUTE_DEVIATION * size.scale * math.sqrt(2.0 * size.n_groups) / size.n_records
        accuracy = noise * math.sqrt(C * (1.0 - p) ** 2 + (C * C - C) * p**2)
        recall = noise * math.sqrt((1.0 - q) ** 2 + (C - 1) * q**2) / rarest if rarest > 0.0 else math.inf
        shares = f"the rarest about {rarest:.1%} of them" if n else "as if all were equally many"
        errors = (
            f"noise moves the accuracy by {accuracy:.2g} and the rarest class's recall by {recall:.2g} on average"
        )
        return ExpectedErrors(
            edges=(),
            errors={"accuracy_error": accuracy, "rarest_recall_error": recall},
            n_cells=1 + C * C * size.n_groups,
            verdict=verdict((accuracy, *ACCURACY_LIMITS), (recall, *RECALL_LIMITS)),
            why=f"{errors}, on {size} of {C} classes, {shares}",
            facts={},
        )

    @classmethod
    def cells(cls, public: PublicRecords, edges: tuple[float, ...]) -> ClassCells:
        """Return the map from records to histogram cells by true and predicted class."""
        return ClassCells(edges, len(public.classes))

    @classmethod
    def of(cls, public: PublicRecords, edges: tuple[float, ...]) -> "Multiclass":
        """Return the kind of report for these public classes; `edges` are not used."""
        del edges
        return cls(public.classes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape [true class, predicted class] of a histogram: (C, C)."""
        return len(self.classes), len(self.classes)

    def figures(self, cells: Reals) -> Figures:
        """Return all metrics of confusion matrices (…, C, C), by name: scalars (…); "class …" one per class."""
        rows, columns, hits = cells.sum(axis=-1), cells.sum(axis=-2), np.diagonal(cells, axis1=-2, axis2=-1)
        read = rows.sum(axis=-1)
        recall, f1 = ratio(hits, rows), ratio(2.0 * hits, rows + columns)
        accuracy = ratio(hits.sum(axis=-1), read)
        chance = ratio((rows * columns).sum(axis=-1), read**2)
        return {
            "read": read,
            "accuracy": accuracy,
            "balanced_accuracy": recall.mean(axis=-1),
            "macro_f1": f1.mean(axis=-1),
            "cohen_kappa": ratio(accuracy - chance, 1.0 - chance),
            "class recall": recall,
            "class precision": ratio(hits, columns),
            "class f1": f1,
            "class records_share": ratio(rows, read[..., None]),
            "class records": rows,
            "class predicted": columns,
            "cell": cells[..., 0, 0],
        }

    def group_figures(self, cells: Reals) -> Figures:
        """Return, by name, the metrics of each group of records, from confusion matrices `cells` (…, C, C)."""
        figures = self.figures(cells)
        return {name: figures[name] for name in ("read", *self.of_a_group)}

    def denominators(self, values: Figures) -> Figures:
        """For each metric that is a share, by name, the number of records that it is a share of."""
        return {name: values[whole] for name, whole in SHARE_DENOMINATORS.items() if whole in values}

    def limits(self, name: str) -> tuple[float, float]:
        """A metric's limits: 0 to 1 for shares, ±1 for gaps and κ, 0 to ∞ for counts, none for a matrix cell."""
        if name == "cell":
            return -np.inf, np.inf
        if name in SHARE_DENOMINATORS.values():
            return 0.0, np.inf
        return (-1.0 if name == "cohen_kappa" or name.startswith("gap ") else 0.0), 1.0

    def parts(self, estimates: Estimates) -> dict[str, Any]:
        """The report's parts beside its metrics, as JSON by name: confusion matrix, and the classes one by one."""
        return {
            "confusion": self._matrix(estimates),
            "classes": [
                {"class": name} | {figure: estimates.figure(f"class {figure}", c) for figure in CLASS_METRICS}
                for c, name in enumerate(self.classes)
            ],
        }

    def to_json(self) -> dict[str, Any]:
        """The public facts of this kind of report, as JSON without any counts: that it is of classes, and which."""
        return {"kind": "classes", "classes": list(self.classes)}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> "Multiclass":
        """The multiclass kind of report, with its classes, from the public description that `to_json` made."""
        return cls(tuple(table["classes"]))

    def _matrix(self, estimates: Estimates) -> list[dict[str, Any]]:
        M, m = estimates.cells.sum(axis=0), estimates.n_records
        noise = [end - estimates.values["cell"] for end in estimates.noise["cell"]]
        variance = ((noise[1] - noise[0]) / (2.0 * Z)) ** 2
        low, high = (end * m for end in wilson(M / m, np.full(M.shape, float(m)), (variance, 0.0, 0.0)))
        return [
            {
                "true": true,
                "predicted": predicted,
                "records": figure_json(
                    max(0.0, M[i, j]),
                    (np.maximum(0.0, M[i, j] + noise[0]), np.maximum(0.0, M[i, j] + noise[1])),
                    (low[i, j], high[i, j]),
                ),
            }
            for i, true in enumerate(self.classes)
            for j, predicted in enumerate(self.classes)
        ]
