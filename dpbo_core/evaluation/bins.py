"""The public edges of the bins, and what to expect of a report, before anything is spent.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s, y | `subject.values`, `subject.positive` | decision values and classes of public records | (n,) |
| m, π | `n_records`, `share` | records to be counted, and the PUBLIC share of positives | scalars |
| b | `scale` | of the noise in each cell, 2k/ε | scalar |
| B, G | — | bins, groups | scalars |
| F_j, H_j | — | share of negatives below bin j, of positives above it, half of the bin's own in each | (B,) |
| σ | — | noise of the AUC: b·√(2G Σ_j [(F_j − A)²/P² + (H_j − A)²/N²]), P = πm, N = m − P | scalar |
| β | — | AUC that ties within bins lose among public records, where they count half | scalar |
| ω | — | spread of the pairs within bins, among the records and in what the public ones say of them | scalar |

The edges are quantiles of the public values, each class weighing one half, and the model's own threshold. More bins
cost noise, fewer lose by ties: B is the least of a ladder with |β| ≤ σ/3. The report's AUC counts pairs in a bin as
`within` says, so that little of β is left where the records are like the public ones, and β where those mislead.
Nothing of it depends on a sensitive record: the edges decide how much is learned, and not what is right.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.evaluation.subject import Subject
from dpbo_core.evaluation.within import CHOOSES, auc, class_counts, half, variance

LADDER = (4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
TIES = 1.0 / 3.0  # of the noise, that ties may cost where the public records mislead
GOOD, USABLE = (0.01, 0.025), (0.025, 0.05)  # of the AUC, and of the recall at the model's threshold
MEAN_ABSOLUTE = math.sqrt(2.0 / math.pi)  # of a normal, in standard deviations


@dataclass(frozen=True)
class Expected:
    """What to expect of a report's noise, from public facts alone.

    Attributes:
        edges: between the bins, ascending.
        share: the public share of positives.
        auc_error: mean |error| of the AUC.
        recall_error: mean |error| of the recall at the model's own threshold.
        verdict: "good", "poor" or "not usable".
        why: one sentence for the person who pays.
    """

    edges: tuple[float, ...]
    share: float
    auc_error: float
    recall_error: float
    verdict: str
    why: str

    @property
    def warning(self) -> str:
        """What to say before anything is spent; "" where the report will be usable."""
        return warning_of(self.verdict, self.why)


def warning_of(verdict: str, why: str) -> str:
    """What a report that will not be usable says of itself; "" where it will be."""
    if verdict != "not usable":
        return ""
    return f"this report will not be usable: {why}; ask for more ε, or for fewer groups"


def expected(
    subject: Subject,
    *,
    n_records: int,
    scale: float,
    n_groups: int = 1,
    n_bins: int | None = None,
    what: str = "records",
) -> Expected:
    """Edges and expectations for a table of m records.

    Args:
        subject: the model and what public records say of it.
        n_records: m.
        scale: b.
        n_groups: G; the whole is the sum of the groups, so that its noise grows with them.
        n_bins: quantiles asked for; by the ladder where None.
        what: is counted, "records" or "persons".
    """
    share = float(subject.positive.mean()) if len(subject.positive) else 0.5
    n = len(subject.positive) + 2
    share = min(max(share, 1.0 / n), 1.0 - 1.0 / n)
    found = []
    for B in LADDER if n_bins is None else (n_bins,):
        edges = _edges(subject, B)
        noise, ties, recall = _errors(subject, edges, share * n_records, (1.0 - share) * n_records)
        noise, recall = (error * scale * math.sqrt(n_groups) for error in (noise, recall))
        found.append((edges, noise, ties, recall))
        if ties <= TIES * noise:
            break
    edges, noise, ties, recall = (
        found[-1] if found[-1][2] <= TIES * found[-1][1] else min(found, key=lambda one: one[1] ** 2 + one[2] ** 2)
    )
    spread = _spread(subject, edges, n_records)
    auc_error, recall_error = MEAN_ABSOLUTE * math.hypot(noise, ties, spread), MEAN_ABSOLUTE * recall
    return _judged(edges, share, f"{n_records:,} {what}", auc_error, recall_error)


def _judged(
    edges: tuple[float, ...], share: float, counted: str, auc_error: float, recall_error: float
) -> Expected:
    within = [auc_error <= limits[0] and recall_error <= limits[1] for limits in (GOOD, USABLE)]
    verdict = "good" if within[0] else "poor" if within[1] else "not usable"
    records = f"{counted} of which about {share:.0%} are positive"
    errors = f"noise and bins move the AUC by {auc_error:.2g} and the recall by {recall_error:.2g} on average"
    return Expected(edges, share, auc_error, recall_error, verdict, f"{errors}, on {records}")


def _edges(subject: Subject, n_bins: int) -> tuple[float, ...]:
    """Quantiles with both classes weighing one half, and the model's own threshold; ascending, each once."""
    values, positive = subject.values, subject.positive
    if not len(values):
        return (subject.threshold,)
    counts = np.bincount(positive, minlength=2)
    weights = np.where(positive, 1.0 / max(1, counts[1]), 1.0 / max(1, counts[0]))
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    at = np.searchsorted(reached, reached[-1] * np.arange(1, n_bins) / n_bins)
    quantiles = values[order][np.minimum(at, len(values) - 1)]
    inner = {float(edge) for edge in quantiles if edge < values.max()}  # above the last edge there is somebody
    return tuple(sorted(inner | {float(subject.threshold)}))


def _errors(
    subject: Subject, edges: tuple[float, ...], positives: float, negatives: float
) -> tuple[float, float, float]:
    """σ/(b√G), β, and the noise of the recall over b√G, from the public records' shapes."""
    counts = class_counts(subject.values, subject.positive, edges)
    if not (counts[0].any() and counts[1].any()):
        return math.inf, 0.0, math.inf
    H, F = (part / part.sum() for part in counts)
    below = np.cumsum(F) - F / 2.0
    above = 1.0 - np.cumsum(H) + H / 2.0
    A = float((H * below).sum())
    weights = np.concatenate([(below - A) / positives, (above - A) / negatives])
    recall = float(H[1 + edges.index(subject.threshold) :].sum())
    n_above = len(edges) - edges.index(subject.threshold)
    of_recall = (n_above * (1.0 - recall) ** 2 + (len(edges) + 1 - n_above) * recall**2) / positives**2
    ties = _ties(*half(subject.values, subject.positive, CHOOSES), edges)
    return math.sqrt(2.0 * float((weights**2).sum())), ties, math.sqrt(2.0 * of_recall)


def _spread(subject: Subject, edges: tuple[float, ...], n_records: int) -> float:
    """ω: as many public records as are counted say twice what one of them spreads, half of them twice that."""
    P, N = class_counts(subject.values, subject.positive, edges)
    if not (P.any() and N.any()):
        return 0.0
    n = P.sum() + N.sum()
    of_public = float(variance(P, N)) / float(P.sum() * N.sum()) ** 2
    return math.sqrt(of_public * (n / n_records + 2.0))


def _ties(values: NDArray[np.float64], positive: NDArray[np.bool_], edges: tuple[float, ...]) -> float:
    """β of these records."""
    H, F = class_counts(values, positive, edges)
    if not (H.any() and F.any()):
        return 0.0
    below = np.cumsum(F) - F / 2.0
    return abs(auc(values, positive) - float((H * below).sum() / (H.sum() * F.sum())))
