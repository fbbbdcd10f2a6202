"""What a kind of report declares. Everything else of an evaluation is written once, and asks no kind what it is.

| kind | of | a record's cell | where |
|---|---|---|---|
| `Binary` | two classes | its class and the public bin of its decision value | `binary` |
| `Multiclass` | several classes, or a privately trained model | its class and the predicted one | `multiclass` |
| `Regression` | numbers | the public bin of its error | `regression` |

A kind is a value: the public facts by which its cells are read. It is made of public records alone (`of`), before
and after the draw alike, of whatever edges the table was drawn with.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.kinds import Verb
from dpbo_core.report.histogram_cells import HistogramCells

Reals = NDArray[np.float64]
Interval = tuple[Reals, Reals]
Figures = Mapping[str, Reals]
LEVEL, Z = 0.9, 1.6448536269514722  # of intervals, and the normal's 95% quantile
LOW, HIGH = "low ", "high "  # before a figure's name: its ends, where it has some
MEAN_ABSOLUTE_DEVIATION = math.sqrt(2.0 / math.pi)  # of a normal, in standard deviations


@dataclass(frozen=True, eq=False, repr=False)
class PublicRecords:
    """What a public model says of the public records, each trained without that record's fold if possible."""

    truth: NDArray[Any]  # class indices, or targets, (n,)
    outcome: NDArray[Any]  # decision values, predicted classes (−1 for none), or predicted targets, (n,)
    verb: Verb = "predict"  # of the estimator, whose outcome it is
    classes: tuple[str, ...] = ()  # what people call the classes; none of a regression
    logistic: bool = False  # whether the logistic function of a decision value is the model's probability
    error_bound: float | None = None  # E, where the study states one


@dataclass(frozen=True)
class TableSize:
    """How much is counted, and how noisily."""

    n_records: int  # m
    scale: float  # b of the noise in each cell
    n_groups: int = 1  # G; the whole is the sum of the groups, so that its noise grows with them
    counted: str = "records"  # "records" or "persons"

    def __str__(self) -> str:
        return f"{self.n_records:,} {self.counted}"


# A mean |error| of this much is a 90% interval of ± .25: half of what lies between a constant answer (AUC .5) and a
# perfect one, so that a model halfway between is not told from a constant answer.
MAX_USEFUL_ERROR = 0.25 * MEAN_ABSOLUTE_DEVIATION / 1.645  # 1.645: of a normal, its 95% quantile


@dataclass(frozen=True)
class ExpectedErrors:
    """What to expect of a report's noise, from public facts alone."""

    edges: tuple[float, ...]  # between the bins, ascending; none if there are no bins
    errors: Mapping[str, float]  # mean |error| of figures, by name
    n_cells: int  # how many cells are noised
    verdict: str  # "good", "poor" or "useless"
    why: str  # one sentence for the person who pays
    facts: Mapping[str, float]  # what public records say beside it, by name

    @property
    def warning(self) -> str:
        """A warning that nothing should be spent; "" where the report can tell a model from a constant answer."""
        if self.verdict != "useless":
            return ""
        return f"this report will not be usable: {self.why}; ask for more ε or fewer groups, or leave it out"


def verdict(*errors: tuple[float, float, float]) -> str:
    """The verdict "good", "poor" or "useless" by the worst error: (expected, largest good, largest usable)."""
    for place, word in enumerate(("good", "poor"), start=1):
        if all(one[0] <= one[place] for one in errors):
            return word
    return "useless"


def ratio(part: Reals, whole: Reals) -> Reals:
    """Return part/whole, or NaN if `whole` is not above 0."""
    return np.asarray(np.where(whole > 0.0, part / np.where(whole > 0.0, whole, 1.0), np.nan))


def wilson(share: Reals, whole: Reals, noise: Sequence[Reals | float] = (0.0, 0.0, 0.0)) -> Interval:
    """Return Wilson's 90% interval (1927) of a share r = T/W, widened for noise in T and W; NaN unless W > 0.

    `noise`: variance of T, covariance, variance of W. The interval has those r for which T − r·W is within Z of its
    standard deviations from 0.
    """
    with np.errstate(all="ignore"):
        W = np.where(whole > 0.0, whole, np.nan)
        of_part, both, of_whole = (Z**2 * np.asarray(one) for one in noise)
        T = np.clip(share, 0.0, 1.0) * W
        a, b, c = W**2 + Z**2 * W - of_whole, T * W + Z**2 * W / 2.0 - both, T**2 - of_part
        root = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        low, high = (np.clip(end / a, 0.0, 1.0) for end in (b - root, b + root))
        open_ended = a <= 0.0  # the noise may be all of W
        return np.where(open_ended, 0.0, low), np.where(open_ended, 1.0, high)


@dataclass(frozen=True)
class Estimates:
    """Figures of a released table with both intervals; NaN if nothing can be said."""

    values: Figures  # the figures, by name
    noise: Mapping[str, Interval]  # their noise intervals
    sampling: Mapping[str, Interval]  # their sampling intervals
    cells: Reals  # of the table, shifted to sum to m: those that could be read, (G, *shape)
    n_records: int  # m

    def figure(self, name: str, at: int | None = None) -> dict[str, Any]:
        """Return the metric `name`, or its element `at`, as JSON: value and both intervals."""
        value, *intervals = self.values[name], self.noise[name], self.sampling[name]
        if at is not None:
            value, intervals = value[at], [(low[at], high[at]) for low, high in intervals]
        return figure_json(value, *intervals)


def figure_json(value: Any, noise: Interval, sampling: Interval) -> dict[str, Any]:
    """Return a metric's value and both intervals as JSON; None if nothing can be stated."""
    ends = [[plain_json(end) for end in interval] for interval in (noise, sampling)]
    first, second = (None if None in interval else interval for interval in ends)
    return {"value": plain_json(value), "noise_interval": first, "sampling_interval": second}


def plain_json(value: Any) -> float | None:
    """Return the value as a float; None if it is infinite or NaN, which JSON does not have."""
    number = float(value)
    return number if math.isfinite(number) else None


class ReportKind(Protocol):
    """The public facts by which the cells of one kind of report are read; a kind says what is not as here."""

    title: ClassVar[str]  # what people call it
    metrics: ClassVar[tuple[str, ...]]  # figures of the whole report, in their order
    of_a_group: ClassVar[tuple[str, ...]]  # figures that each group has, and its distance from all other records
    raised: ClassVar[tuple[str, ...]] = ()  # figures that are sums of absolute values, which noise raises
    has_threshold: ClassVar[bool] = False  # whether costs and a prevalence choose a threshold of it
    has_bins: ClassVar[bool] = True  # whether a number of bins can be asked for
    # figures that are shares of the records of a class, by name, and which: its place, or None for each of all.
    # Where the table has too few of that class, nothing is said of them.
    divided: ClassVar[Mapping[str, int | None]] = {}

    @classmethod
    def expected(cls, public: PublicRecords, size: TableSize, n_bins: int | None) -> ExpectedErrors:
        """The edges for `n_bins` bins (None: usual), and the errors that noise leaves in a report of `size`."""

    @classmethod
    def cells(cls, public: PublicRecords, edges: tuple[float, ...]) -> HistogramCells:
        """Return the map from one record to its histogram cell."""

    @classmethod
    def of(cls, public: PublicRecords, edges: tuple[float, ...]) -> Self:
        """Return the kind of report for these bin edges, with the public facts by which its cells are read."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one group's histogram, without the cell for unreadable records."""

    def figures(self, cells: Reals) -> Figures:
        """Return every metric of histograms (…, *shape), by name: (…), or one more axis of edges, bins or classes.

        Where a figure "x" has ends (LOW and HIGH), its interval reaches from the one to the other.
        """

    def group_figures(self, cells: Reals) -> Figures:
        """The metrics that every group gets, with their denominators, by name, of histograms (…, *shape): (…)."""

    def spreads(self, cells: Reals) -> Figures:  # noqa: ARG002  without bins nothing is left open
        """The standard deviation that binning leaves in each metric of histograms (G, *shape); none by default."""
        return {}

    def rises(self, moves: Reals, cells: Reals) -> Figures:  # noqa: ARG002  where nothing is raised
        """The most by which changes `moves` of the counts raise each metric named in `raised`; none by default."""
        return {}

    def denominators(self, values: Figures) -> Figures:  # noqa: ARG002  where no figure is a share
        """For each metric that is a share, by name, how many records it is a share of; none by default."""
        return {}

    def class_means(self, cells: Reals) -> Mapping[str, list[tuple[Reals, Reals]]]:  # noqa: ARG002  none by default
        """For each metric that is a mean over classes: each one's cells, and what a record of each adds, (…, B)."""
        return {}

    def limits(self, name: str) -> tuple[float, float]:
        """Return the lowest and the highest value that the metric `name` can have."""

    def parts(self, estimates: Estimates) -> dict[str, Any]:
        """Return the report's parts beside metrics and groups, as JSON by name."""

    def to_json(self) -> dict[str, Any]:
        """Return the public facts by which this kind of report reads its cells, as they stand in a table's JSON."""

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Self:
        """Return the kind of report, with its public facts, from the public description that `to_json` made."""
