"""The public edges of the bins of two classes, what ties within a bin say, and what to expect of such a report.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s, y | `values`, `positive` | decision values and classes of public records | (n,) |
| m, π | `size.n_records`, `share` | records to be counted, and the PUBLIC share of positives | scalars |
| b | `size.scale` | of the noise in each cell, 2k/ε | scalar |
| B, G | — | bins, groups | scalars |
| F_j, H_j | — | share of negatives below bin j, of positives above it, half of the bin's own in each | (B,) |
| σ | — | noise of the AUC: b·√(2G Σ_j [(F_j − A)²/P² + (H_j − A)²/N²]), P = πm, N = m − P | scalar |
| β | — | AUC that ties within bins lose among public records, where they count half | scalar |
| ω | — | spread of the pairs within bins, among the records and in what the public ones say of them | scalar |
| P_b, N_b | — | positives and negatives in bin b | (B,) |
| c | `AucTies.ranked` | share of the pairs within a bin that are ranked right, ties half | scalar |
| υ | `AucTies.untied` | variance of such a share, over that if no two values were equal | scalar in [0, 1] |
| K | `N_STEPS` | steps of a bin, for average precision (`PublicSteps`) | scalar |
| v | `variance` | Σ_b P_b N_b (P_b + N_b + 1)/12, of the number of pairs ranked right within bins | scalar |

The edges are quantiles of the public values, each class weighing one half, and the model's own threshold. More bins
cost noise, fewer lose by ties: B is the least of a ladder with |β| ≤ σ/3. The report's AUC counts pairs in a bin as
`AucTies` says, so that little of β is left where the records are like the public ones, and β where those mislead.
Nothing of it depends on a sensitive record: the edges decide how much is learned, and not what is right.

v is the variance of Mann and Whitney's statistic in each bin (1947), where the classes are spread alike within it.
The public records are halved, every other one by value: one half chooses how many bins there are by what ties lose
in them, the other says c. The same records for both would choose bins in which c happens to be near ½, and so
say too little of it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.kinds import Verb
from dpbo_core.report.report_kind import (
    MAX_USEFUL_ERROR,
    MEAN_ABSOLUTE_DEVIATION,
    ExpectedErrors,
    PublicRecords,
    Reals,
    TableSize,
    ratio,
    verdict,
)

BIN_COUNTS = (4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 64, 96, 128)
MAX_TIE_COST = 1.0 / 3.0  # of the noise, that ties may cost where the public records mislead
# errors that are good, and that are not useless: that is for the AUC to say
AUC_LIMITS, RECALL_LIMITS = (0.01, MAX_USEFUL_ERROR), (0.025, math.inf)
CHOOSES, SAYS = 0, 1
N_STEPS = 8  # K


def threshold_of(verb: Verb) -> float:
    """The value above which the estimator predicts the larger class: ½ for probabilities, 0 for decision values."""
    return 0.5 if verb == "predict_proba" else 0.0


def expected(public: PublicRecords, size: TableSize, n_bins: int | None) -> ExpectedErrors:
    """The bin edges, and the errors noise will leave, for a histogram of this size; `n_bins` is chosen if None."""
    values, positive, own = public.outcome, public.truth == 1, threshold_of(public.verb)
    m, n = size.n_records, len(positive) + 2
    share = float(positive.mean()) if len(positive) else 0.5
    share = min(max(share, 1.0 / n), 1.0 - 1.0 / n)
    choices = []
    for B in BIN_COUNTS if n_bins is None else (n_bins,):
        edges = _edges(values, positive, own, B)
        errors = _errors(values, positive, edges, edges.index(own), (share * m, (1.0 - share) * m))
        noise, recall = (error * size.scale * math.sqrt(size.n_groups) for error in errors)
        ties = _ties(*half_width(values, positive, CHOOSES), edges)
        choices.append((edges, noise, ties, recall))
        if ties <= MAX_TIE_COST * noise:
            break
    else:
        choices.append(min(choices, key=lambda one: one[1] ** 2 + one[2] ** 2))
    edges, noise, ties, recall = choices[-1]
    spread = _spread(values, positive, edges, m)
    auc_error = MEAN_ABSOLUTE_DEVIATION * math.hypot(noise, ties, spread)
    recall_error = MEAN_ABSOLUTE_DEVIATION * recall
    why = f"noise and bins move the AUC by {auc_error:.2g} and the recall by {recall_error:.2g} on average"
    return ExpectedErrors(
        edges=edges,
        errors={"auc_error": auc_error, "recall_error": recall_error},
        n_cells=1 + 2 * (len(edges) + 1) * size.n_groups,
        verdict=verdict((auc_error, *AUC_LIMITS), (recall_error, *RECALL_LIMITS)),
        why=f"{why}, on {size} of which about {share:.0%} are positive",
        facts={"public_share": share},
    )


def _edges(values: Reals, positive: NDArray[np.bool_], threshold: float, n_bins: int) -> tuple[float, ...]:
    last = values.max(initial=-math.inf)  # above the last edge there is somebody
    inner = {float(edge) for edge in _quantiles(values, positive, n_bins) if edge < last}
    return tuple(sorted(inner | {threshold}))


def _quantiles(values: Reals, positive: NDArray[np.bool_], n_parts: int) -> Reals:
    if not len(values):
        return values
    counts = np.bincount(positive, minlength=2)
    weights = np.where(positive, 1.0 / max(1, counts[1]), 1.0 / max(1, counts[0]))
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    at = np.searchsorted(reached, reached[-1] * np.arange(1, n_parts) / n_parts)
    return np.asarray(values[order][np.minimum(at, len(values) - 1)])


def _errors(
    values: Reals, positive: NDArray[np.bool_], edges: tuple[float, ...], own: int, classes: tuple[float, float]
) -> tuple[float, float]:
    """Return the standard deviations that unit noise in every cell gives AUC and recall; ∞ if a class is missing.

    Recall is at edge number `own`; `classes` are the expected numbers (P, N) in the sensitive table.
    """
    counts, (P, N) = class_counts(values, positive, edges), classes
    if not (counts[0].any() and counts[1].any()):
        return math.inf, math.inf
    H, F = (part / part.sum() for part in counts)
    below = np.cumsum(F) - F / 2.0
    above = 1.0 - np.cumsum(H) + H / 2.0
    A = float((H * below).sum())
    weights = np.concatenate([(below - A) / P, (above - A) / N])
    recall, n_above = float(H[1 + own :].sum()), len(edges) - own
    of_recall = (n_above * (1.0 - recall) ** 2 + (len(edges) + 1 - n_above) * recall**2) / P**2
    return math.sqrt(2.0 * float((weights**2).sum())), math.sqrt(2.0 * of_recall)


def _spread(values: Reals, positive: NDArray[np.bool_], edges: tuple[float, ...], n_records: int) -> float:
    """Return ω, the deviation of the AUC that the unknown order within bins leaves; 0 if a class is missing."""
    P, N = class_counts(values, positive, edges)
    if not (P.any() and N.any()):
        return 0.0
    of_public = float(variance(P, N)) / float(P.sum() * N.sum()) ** 2
    return math.sqrt(of_public * ((P.sum() + N.sum()) / n_records + 2.0))


def _ties(values: Reals, positive: NDArray[np.bool_], edges: tuple[float, ...]) -> float:
    """Return β = |exact AUC − AUC of binned values, pairs within a bin counting half|; 0 if a class is missing."""
    H, F = class_counts(values, positive, edges)
    if not (H.any() and F.any()):
        return 0.0
    below = np.cumsum(F) - F / 2.0
    return abs(auc(values, positive) - float((H * below).sum() / (H.sum() * F.sum())))


@dataclass(frozen=True)
class AucTies:
    """What public records say of pairs within a bin."""

    ranked: float  # c
    untied: float  # υ


def half_width(values: Reals, positive: NDArray[np.bool_], which: int) -> tuple[Reals, NDArray[np.bool_]]:
    """Return every other record by ascending value, starting at place `which` (0 or 1): its values and classes."""
    taken = np.argsort(values, kind="stable")[which::2]
    return values[taken], positive[taken]


def auc_ties(values: Reals, positive: NDArray[np.bool_], edges: tuple[float, ...]) -> AucTies:
    """Return the share of pairs within bins that are ranked right, ½ if unknown, and the share not tied."""
    untied = _untied(values, edges)
    values, positive = half_width(values, positive, SAYS)
    counts = class_counts(values, positive, edges)
    P, N = (part.sum() for part in counts)
    pairs, below = float((counts[0] * counts[1]).sum()), float((counts[0] * (counts[1].cumsum() - counts[1])).sum())
    if pairs == 0.0:
        return AucTies(0.5, untied)
    ranked = (auc(values, positive) * P * N - below) / pairs
    return AucTies(min(max(float(ranked), 0.0), 1.0), untied)


@dataclass(frozen=True)
class PublicSteps:
    """How the public records of each bin lie in its steps, ascending; average precision assumes the same."""

    positives: tuple[tuple[int, ...], ...]  # how many, of each bin in each of its K steps
    negatives: tuple[tuple[int, ...], ...]  # how many, of each bin in each of its K steps

    @classmethod
    def of(cls, values: Reals, positive: NDArray[np.bool_], edges: tuple[float, ...]) -> "PublicSteps":
        """Each bin cut into steps of about equally many PUBLIC records, with positives and negatives of each."""
        bins, rows = np.searchsorted(np.array(edges), values), []
        for b in range(len(edges) + 1):
            inside, classes = values[bins == b], positive[bins == b]
            at = np.searchsorted(_quantiles(inside, classes, N_STEPS), inside)
            rows.append([tuple(np.bincount(at[classes == y], minlength=N_STEPS).tolist()) for y in (True, False)])
        return cls(*(tuple(column) for column in zip(*rows, strict=True)))

    def shares(self) -> tuple[Reals, Reals]:
        """Return how a bin's public positives, and its negatives, are spread over its K steps, evenly if there are
        none: (B, K) each, whose rows sum to 1.
        """
        counts = (np.array(of_class, dtype=np.int64) for of_class in (self.positives, self.negatives))
        filled = (np.where(one.any(axis=1, keepdims=True), one, 1) for one in counts)
        positives, negatives = (one / one.sum(axis=1, keepdims=True) for one in filled)
        return positives, negatives


def average_precision(positives: Reals, negatives: Reals, untied: float) -> Reals:
    """Average precision of counts (…, S) in ascending steps; NaN without positives; `untied`: share not tied."""
    hits, others = (from_above(one) - untied / 2.0 * one for one in (positives, negatives))
    precise = positives * np.nan_to_num(ratio(hits, hits + others))
    return ratio(precise.sum(axis=-1), positives.sum(axis=-1))


def average_precision_ends(positives: Reals, negatives: Reals) -> tuple[Reals, Reals]:
    """Return the ends of the average precision of counts (…, B): negatives of a bin above its positives, and below.

    In both, the positives of a bin are a run with F negatives above them, so that the x-th positive from the top
    has precision x/(x + F). The sum over x is taken as an integral, because noised counts are not whole numbers and
    may be negative.
    """
    reached, passed = (np.maximum(from_above(one), 0.0) for one in (positives, negatives))
    above, before = (
        np.concatenate([one[..., 1:], np.zeros_like(one[..., :1])], axis=-1) for one in (reached, passed)
    )

    def precise(negatives_above: Reals, shift: float) -> Reals:
        # the mean of the integrals of x/(x + F) over each bin's positives, moved up by `shift`
        F, start, end = negatives_above, above + shift, reached + shift
        area = end - start - np.where(F > 0.0, F * np.log(ratio(end + F, start + F)), 0.0)
        return ratio(np.nan_to_num(area).sum(axis=-1), reached[..., 0])

    return precise(passed, 0.0), precise(before, 1.0)


def from_above(bins: Reals) -> Reals:
    """Return the cumulative sum from the top: each entry plus all those above it, along the last axis."""
    return np.asarray(np.flip(np.flip(bins, axis=-1).cumsum(axis=-1), axis=-1))


def variance(positives: Reals, negatives: Reals) -> Reals:
    """Return the variance v of the number of pairs ranked right within bins, (…), of counts (…, B)."""
    P, N = np.maximum(positives, 0.0), np.maximum(negatives, 0.0)
    return np.asarray((P * N * (P + N + 1.0)).sum(axis=-1) / 12.0)


def class_counts(values: Reals, positive: NDArray[np.bool_], edges: tuple[float, ...]) -> tuple[Reals, Reals]:
    """Positives and negatives in each bin, (B,) each."""
    at = np.searchsorted(np.array(edges), values)
    P, N = (np.bincount(at[positive == y], minlength=len(edges) + 1).astype(np.float64) for y in (True, False))
    return P, N


def auc(values: Reals, positive: NDArray[np.bool_]) -> float:
    """Return the AUC of public records, which must be of both classes (not checked); ties count half."""
    from scipy.stats import rankdata

    P, N = int(positive.sum()), int((~positive).sum())
    return float((rankdata(values)[positive].sum() - P * (P + 1) / 2.0) / (P * N))


def _untied(values: Reals, edges: tuple[float, ...]) -> float:
    """Return the share υ = 1 − Σ (t³ − t)/Σ (n³ − n) of pairs in a bin (n) whose values are not tied (t)."""

    def cubes(counts: NDArray[np.int64]) -> float:
        numbers = counts.astype(np.float64)
        return float((numbers**3 - numbers).sum())

    in_bins = cubes(np.bincount(np.searchsorted(np.array(edges), values), minlength=len(edges) + 1))
    return 1.0 - cubes(np.unique(values, return_counts=True)[1]) / in_bins if in_bins > 0.0 else 1.0
