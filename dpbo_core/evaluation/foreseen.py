"""What to expect of a report of several classes or of errors, before anything is spent, and the errors' edges.

| symbol | name here | meaning |
|---|---|---|
| m, b, G | `n_records`, `scale`, `n_groups` | records, noise in each cell, groups |
| σ | — | noise of a mean Σ n_c v_c/m over cells: b·√(2G Σ_c (v_c − mean)²)/m |

Of classes v is 1 on the diagonal, so that the mean is the accuracy; of errors |r_b|, so that it is the MAE.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.evaluation.bins import GOOD, MEAN_ABSOLUTE, USABLE, warning_of
from dpbo_core.evaluation.public_predictions import Predictions
from dpbo_core.evaluation.regression_errors import of_bins

BINS = 20  # of the errors
UNKNOWN = 0.5  # share of right predictions, where no public record says it
RELATIVE = (0.02, 0.1)  # of the MAE: good, usable


@dataclass(frozen=True)
class Foreseen:
    """What to expect of a report's noise, from public facts alone.

    Attributes:
        edges: of the errors' bins, ascending; none of classes.
        errors: mean |error| of figures, by name.
        n_cells: how many cells are noised.
        verdict: "good", "poor" or "not usable".
        why: one sentence for the person who pays.
    """

    edges: tuple[float, ...]
    errors: Mapping[str, float]
    n_cells: int
    verdict: str
    why: str

    @property
    def warning(self) -> str:
        """What to say before anything is spent; "" where the report will be usable."""
        return warning_of(self.verdict, self.why)


def foreseen(
    subject: Predictions,
    *,
    n_records: int,
    scale: float,
    n_groups: int,
    n_bins: int | None,
    what: str = "records",
) -> Foreseen:
    """Edges and expectations for a table of m records.

    Args:
        subject: the model and what it predicts of public records.
        n_records: m.
        scale: b.
        n_groups: G; the whole is the sum of the groups.
        n_bins: of the errors, as asked for.
        what: is counted, "records" or "persons".
    """
    noise = MEAN_ABSOLUTE * scale * math.sqrt(2.0 * n_groups) / n_records
    if subject.classes:
        return _of_classes(subject, noise, f"{n_records:,} {what}", n_groups)
    edges = error_edges(subject.errors, subject.bound, BINS if n_bins is None else n_bins)
    r = np.abs(np.array(of_bins(subject.errors, edges, subject.bound).means))
    mae = float(np.abs(subject.errors).mean()) if len(subject.errors) else math.nan
    error = noise * float(np.sqrt(((r - mae) ** 2).sum()))
    told = f"noise moves the mean absolute error by {error:.2g} on average, {mae:.3g} among public records"
    why = f"{told}, on {n_records:,} {what}"
    within = [bool(error <= share * mae) for share in RELATIVE]
    return Foreseen(edges, {"mae_error": error}, 1 + len(r) * n_groups, _verdict(within), why)


def error_edges(errors: NDArray[np.float64], bound: float, n_bins: int) -> tuple[float, ...]:
    """0, and quantiles of |error| below E with both signs; ascending, each once."""
    J = max(1, n_bins // 2)
    found = np.quantile(np.abs(errors), np.arange(1, J) / J) if len(errors) else np.zeros(0)
    sizes = {float(size) for size in found if 0.0 < size < bound}
    return tuple(sorted({0.0} | sizes | {-size for size in sizes}))


def _of_classes(subject: Predictions, noise: float, counted: str, n_groups: int) -> Foreseen:
    C = len(subject.classes)
    counts = np.bincount(subject.truth, minlength=C).astype(np.float64)
    public = len(subject.truth) > 0
    rarest = float(counts.min() / counts.sum()) if public else 1.0 / C
    p = float((subject.truth == subject.predicted).mean()) if public else UNKNOWN
    accuracy = noise * math.sqrt(C * (1.0 - p) ** 2 + (C * C - C) * p**2)
    hit = subject.predicted[subject.truth == int(counts.argmin())] == int(counts.argmin())
    q = float(hit.mean()) if len(hit) else 0.0 if public else UNKNOWN
    recall = noise * math.sqrt((1.0 - q) ** 2 + (C - 1) * q**2) / rarest if rarest > 0.0 else math.inf
    told = f"noise moves the accuracy by {accuracy:.2g} and the rarest class's recall by {recall:.2g} on average"
    shares = f"the rarest about {rarest:.1%} of them" if public else "as if all were equally many"
    why = f"{told}, on {counted} of {C} classes, {shares}"
    within = [accuracy <= limits[0] and recall <= limits[1] for limits in (GOOD, USABLE)]
    errors = {"accuracy_error": accuracy, "rarest_recall_error": recall}
    return Foreseen((), errors, 1 + C * C * n_groups, _verdict(within), why)


def _verdict(within: list[bool]) -> str:
    return "good" if within[0] else "poor" if within[1] else "not usable"
