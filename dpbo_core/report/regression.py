"""The report of a regression: a histogram of its errors, and every figure that follows from it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| e | — | signed error ŷ − y, clipped at ±E | (m,) |
| E | `bound` | the study's error_bound, else the largest public error; the end bins reach to it | scalar > 0 |
| n_b | `cells` | records in each bin, (edge, next edge] | (…, B) |
| r_b, q_b | `means`, `squares` | mean of e and of e² among the PUBLIC records of bin b | (B,) |
| s_b, u_b | `spreads`, `square_spreads` | their standard deviations there; as if even where it has below 2 | (B,) |
| P_b | `public` | public records in bin b | (B,) |
| V | `variance` | mean of (y − ȳ)² among the PUBLIC records, ȳ their mean | scalar |
| b, G | `size.scale`, `size.n_groups` | noise in each cell, groups | scalars |
| σ | — | noise of the MAE: b·√(2G Σ_b (|r_b| − MAE)²)/m | scalar |

MAE = Σ n_b |r_b|/Σ n_b (0 is an edge: a bin has one sign), bias = Σ n_b r_b/Σ n_b, MSE = Σ n_b q_b/Σ n_b,
R² = 1 − MSE/V: the histogram says nothing of the sensitive targets' own variance, so the baseline's error is
public too. What lies in a bin is taken for its public mean; where records lie in it as public ones do, the error of
that is normal with variance (Σ n_b s_b² + Σ n_b² s_b²/P_b)/(Σ n_b)², which both intervals hold, and wherever they
lie the MAE is off by at most Σ n_b w_b/Σ n_b, w_b from |r_b| to the farther end of bin b. A quantile lies in
a bin, between whose edges it is interpolated; its intervals reach from edge to edge, wherever records lie in bins.
As JSON: errors (bin by bin), binning (where errors are clipped, what bins can hide).
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.kinds import Scores
from dpbo_core.models.scores.regression_error import as_numbers
from dpbo_core.report.histogram_cells import HistogramCells, class_bins
from dpbo_core.report.report_kind import (
    HIGH,
    LOW,
    MEAN_ABSOLUTE_DEVIATION,
    Estimates,
    ExpectedErrors,
    Figures,
    PublicRecords,
    Reals,
    ReportKind,
    TableSize,
    plain_json,
    verdict,
)

N_BINS = 20
GOOD, USELESS = 0.02, 0.25  # noise as a share of the MAE; from the last on half of it is unsure
ERROR_QUANTILES = {"error_q05": 0.05, "error_q25": 0.25, "error_q50": 0.5, "error_q75": 0.75, "error_q95": 0.95}
ABSOLUTE_QUANTILES = {"median_absolute_error": 0.5, "absolute_error_q90": 0.9}


@dataclass(frozen=True)
class ErrorCells(HistogramCells):
    """Cells by the signed error ŷ − y, in the target's unit: 0 if that is NaN, else 1 + bin."""

    @property
    def n_cells(self) -> int:
        """The number B of histogram cells of one group, without the one for unreadable records."""
        return len(self.edges) + 1

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Each record's histogram cell, (k,), by the bin of its error, outcome less truth; 0 if that is NaN."""
        with np.errstate(all="ignore"):
            errors = as_numbers(outcome) - np.asarray(truth, dtype=np.float64)
        return class_bins(errors, np.zeros(len(errors), dtype=np.int64), self.edges).astype(np.float64)


@dataclass(frozen=True)
class PublicBins:
    """What public errors say of each bin: r, q, s, u and P, (B,) each."""

    means: tuple[float, ...]
    squares: tuple[float, ...]
    spreads: tuple[float, ...]
    square_spreads: tuple[float, ...]
    public: tuple[int, ...]


@dataclass(frozen=True)
class Regression(ReportKind):
    """How a histogram of errors is read."""

    # between the bins, ascending, 0 among them, each with its negative; in the target's unit
    edges: tuple[float, ...]
    bound: float  # E
    bins: PublicBins  # what public errors say of each
    variance: float  # V

    title = "a regression"
    metrics = ("mae", *ABSOLUTE_QUANTILES, "bias", "rmse", "r2_public_baseline", *ERROR_QUANTILES, "unread_share")
    of_a_group = ("mae", "bias")

    @classmethod
    def expected(cls, public: PublicRecords, size: TableSize, n_bins: int | None) -> ExpectedErrors:
        """The edges of `n_bins` bins (20 if None), and the error noise will leave in the mean absolute error."""
        errors, bound = _clipped(public)
        edges = error_edges(errors, bound, N_BINS if n_bins is None else n_bins)
        r = np.abs(np.array(public_bins(errors, edges, bound).means))
        mae = float(np.abs(errors).mean()) if len(errors) else math.nan
        noise = MEAN_ABSOLUTE_DEVIATION * size.scale * math.sqrt(2.0 * size.n_groups) / size.n_records
        error = noise * float(np.sqrt(((r - mae) ** 2).sum()))
        why = f"noise moves the mean absolute error by {error:.2g} on average, {mae:.3g} among public records"
        return ExpectedErrors(
            edges=edges,
            errors={"mae_error": error},
            n_cells=1 + len(r) * size.n_groups,
            verdict=verdict((error, GOOD * mae, USELESS * mae)),
            why=f"{why}, on {size}",
            facts={},
        )

    @classmethod
    def cells(cls, public: PublicRecords, edges: tuple[float, ...]) -> ErrorCells:
        """Return the map from records to histogram cells by the bin of the error."""
        del public
        return ErrorCells(edges)

    @classmethod
    def of(cls, public: PublicRecords, edges: tuple[float, ...]) -> "Regression":
        """Return the kind of report for regressions at these bin edges, with public records' errors in each bin."""
        errors, bound = _clipped(public)
        variance = float(np.var(public.truth)) if len(public.truth) else 0.0
        return cls(edges, bound, public_bins(errors, edges, bound), variance)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one group's histogram, a cell for each bin of the error: (B,)."""
        return (len(self.edges) + 1,)

    @property
    def ends(self) -> Reals:
        """The ends of all bins, (B + 1,): the edges between −E and E, the bounds at which errors are clipped."""
        return np.array([-self.bound, *self.edges, self.bound])

    def figures(self, cells: Reals) -> Figures:
        """Return all metrics of histograms (…, B), by name: scalars (…); "in records" one per bin."""
        figures = self._mean_errors(cells) | {"in records": cells}
        figures["rmse"] = np.sqrt(np.maximum(figures["mse"], 0.0))
        figures["r2_public_baseline"] = 1.0 - figures["mse"] / (self.variance if self.variance > 0.0 else np.nan)
        for name, share in ERROR_QUANTILES.items():
            figures |= _quantile(name, cells, self.ends, share)
        middle = len(self.ends) // 2  # where the error is 0
        folded = (cells + np.flip(cells, axis=-1))[..., middle:]
        for name, share in ABSOLUTE_QUANTILES.items():
            figures |= _quantile(name, folded, self.ends[middle:], share)
        return figures

    def group_figures(self, cells: Reals) -> Figures:
        """The mean absolute error and the bias, which every group of records gets, by name, of tables (…, B)."""
        means = self._mean_errors(cells)
        return {name: means[name] for name in self.of_a_group}

    def spreads(self, cells: Reals) -> Figures:
        """Return the standard deviation that binning leaves in every mean error, by name; `cells` is (G, B)."""
        split = np.maximum(cells, 0.0)
        n, P = split.sum(axis=0), np.maximum(1.0, np.array(self.bins.public))

        def spread(of: Reals, s: tuple[float, ...]) -> Reals:
            v = np.array(s) ** 2
            return np.asarray(np.sqrt((of * v + of**2 * v / P).sum(axis=-1)) / np.maximum(of.sum(axis=-1), 1.0))

        e, squared = spread(n, self.bins.spreads), spread(n, self.bins.square_spreads)
        mse = max(float((n * np.array(self.bins.squares)).sum()) / float(max(n.sum(), 1.0)), 1e-300)
        spreads = {"mae": e, "bias": e, "mse": squared, "rmse": squared / (2.0 * np.sqrt(mse))}
        if self.variance > 0.0:
            spreads["r2_public_baseline"] = squared / self.variance
        one, rest = spread(split, self.bins.spreads), spread(n - split, self.bins.spreads)
        spreads |= {f"of {name}": one for name in self.of_a_group}
        return spreads | {f"gap {name}": np.hypot(one, rest) for name in self.of_a_group}

    def limits(self, name: str) -> tuple[float, float]:
        """A metric's limits: ±E signed, 0 to E absolute, ±2E gaps, 0 to 1 shares, −∞ to 1 R², 0 to ∞ others."""
        E = self.bound
        if name.endswith("_share"):
            return 0.0, 1.0
        if name == "r2_public_baseline":
            return -np.inf, 1.0
        if name in ("in records", "mse"):
            return 0.0, np.inf
        if name.startswith("gap "):
            return -2.0 * E, 2.0 * E
        return (-E if "bias" in name or name in ERROR_QUANTILES else 0.0), E

    def parts(self, estimates: Estimates) -> dict[str, Any]:
        """The report's parts beside its metrics, as JSON: each bin's count, and the error that binning may add."""
        ends = [None, *self.edges, None]
        return {
            "errors": [
                {
                    "above": ends[b],
                    "up_to": ends[b + 1],
                    "public_mean": mean,
                    "records": estimates.figure("in records", b),
                }
                for b, mean in enumerate(self.bins.means)
            ],
            "binning": {
                "clipped_at": self.bound,
                "mae_off_at_most": plain_json(self.farthest(estimates.cells)),
                "public_variance": self.variance,
            },
        }

    def farthest(self, cells: Reals) -> float:
        """How far the MAE of histograms (G, B) can be off, records lying anywhere in their bins; NaN without."""
        n = np.maximum(cells, 0.0).sum(axis=0)
        ends, middle = np.abs(self.ends), np.abs(np.array(self.bins.means))
        off = np.maximum(np.abs(ends[:-1] - middle), np.abs(ends[1:] - middle))
        return float((n * off).sum() / n.sum()) if n.sum() > 0.0 else math.nan

    def to_json(self) -> dict[str, Any]:
        """This report's public facts, as JSON: edges, bound, and the public records' errors in each bin."""
        bins = {name: list(values) for name, values in asdict(self.bins).items()}
        facts = {"edges": list(self.edges), "bound": self.bound, "bins": bins, "variance": self.variance}
        return {"kind": "errors", **facts}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> "Regression":
        """The regression kind of report, with its public facts, from the public description that `to_json` made."""
        bins = PublicBins(**{name: tuple(values) for name, values in table["bins"].items()})
        return cls(tuple(table["edges"]), table["bound"], bins, table["variance"])

    def _mean_errors(self, n: Reals) -> dict[str, Reals]:
        """Mean absolute, signed and squared error of counts (…, B), by name, each bin at its public means."""
        r, q = np.array(self.bins.means), np.array(self.bins.squares)
        read = n.sum(axis=-1)
        read = np.where(read > 0.0, read, np.nan)
        totals = {"mae": n * np.abs(r), "bias": n * r, "mse": n * q}
        return {name: total.sum(axis=-1) / read for name, total in totals.items()}


def error_edges(errors: Reals, bound: float, n_bins: int) -> tuple[float, ...]:
    """The ascending edges of about `n_bins` error bins: 0, and quantiles of |error| below `bound`, both signs."""
    J = max(1, n_bins // 2)
    quantiles = np.quantile(np.abs(errors), np.arange(1, J) / J) if len(errors) else np.zeros(0)
    sizes = {float(size) for size in quantiles if 0.0 < size < bound}
    return tuple(sorted({0.0} | sizes | {-size for size in sizes}))


def public_bins(errors: Reals, edges: tuple[float, ...], bound: float) -> PublicBins:
    """Return what public errors, clipped at ±`bound`, say of each bin.

    In a bin without public errors (for a deviation, with fewer than two) they are as if spread evenly.
    """
    ends, at = np.array([-bound, *edges, bound]), np.searchsorted(np.array(edges), errors)
    rows = []
    for b in range(len(edges) + 1):
        inside = errors[at == b]
        even = np.linspace(ends[b], ends[b + 1], 101)  # where nothing public says how they lie
        taken, spread = (inside if len(inside) else even), (inside if len(inside) > 1 else even)
        squares = float((taken**2).mean())
        rows.append((float(taken.mean()), squares, float(spread.std()), float((spread**2).std()), len(inside)))
    means, of_squares, spreads, square_spreads, public = zip(*rows, strict=True)
    return PublicBins(means, of_squares, spreads, square_spreads, public)


def _clipped(public: PublicRecords) -> tuple[Reals, float]:
    """The public records' errors clipped at ±E, (n,), and E: the stated error bound, else the largest |error|."""
    errors = np.asarray(public.outcome - public.truth, dtype=np.float64)
    largest = float(np.abs(errors).max(initial=0.0)) or 1.0
    bound = largest if public.error_bound is None else public.error_bound
    return np.clip(errors, -bound, bound), bound


def _quantile(name: str, n: Reals, ends: Reals, share: float) -> dict[str, Reals]:
    """Return the interpolated `share` quantile of errors with counts `n` in bins, and its bin's ends, by name."""
    reached, sought = n.cumsum(axis=-1), share * n.sum(axis=-1)
    at = (reached[..., :-1] < sought[..., None]).sum(axis=-1)
    inside = np.take_along_axis(n, at[..., None], axis=-1)[..., 0]
    before = np.take_along_axis(reached, at[..., None], axis=-1)[..., 0] - inside
    part = np.where(inside > 0.0, np.clip((sought - before) / inside, 0.0, 1.0), 0.5)
    low, high = ends[at], ends[at + 1]
    return {name: low + part * (high - low), LOW + name: low, HIGH + name: high}
