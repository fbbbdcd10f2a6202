"""The histogram of a regression's errors, and every figure that follows from it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| e | — | signed error ŷ − y, clipped at ±E | (m,) |
| E | `bound` | public; the open end bins reach to it | scalar > 0 |
| n_b | `split(counts)` | records in each bin: [group, bin], (edge, next edge] | (…, G, B) |
| r_b, q_b | `means`, `squares` | mean of e and of e² among the PUBLIC records of bin b | (B,) |
| s_b, u_b | `spreads`, `square_spreads` | their standard deviations there; as if even where it has below 2 | (B,) |
| P_b | `public` | public records in bin b | (B,) |
| V | `variance` | mean of (y − ȳ)² among the PUBLIC records, ȳ their mean | scalar |

MAE = Σ n_b |r_b|/Σ n_b (0 is an edge: a bin has one sign), bias = Σ n_b r_b/Σ n_b, MSE = Σ n_b q_b/Σ n_b,
R² = 1 − MSE/V: the histogram says nothing of the sensitive targets' own variance, so the baseline's error is
public too. What lies in a bin is taken for its public mean; where records lie in it as public ones do, the error of
that is normal with variance (Σ n_b s_b² + Σ n_b² s_b²/P_b)/(Σ n_b)², which both intervals hold, and wherever they
lie the MAE is off by at most Σ n_b w_b/Σ n_b, w_b from |r_b| to the farther end of bin b. A quantile lies in
a bin, between whose edges it is interpolated; its intervals reach from edge to edge, wherever records lie in bins.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbo_core.evaluation.intervals import wilson
from dpbo_core.evaluation.noised_table import Reals, in_units
from dpbo_core.evaluation.simulation import HIGH, LOW, Estimates, Figures, shifted, simulate, table_json

KIND = "errors"
QUANTILES = {"error_q05": 0.05, "error_q25": 0.25, "error_q50": 0.5, "error_q75": 0.75, "error_q95": 0.95}
ABSOLUTE = {"median_absolute_error": 0.5, "absolute_error_q90": 0.9}
METRICS = ("mae", *ABSOLUTE, "bias", "rmse", "r2_public_baseline", *QUANTILES, "unread_share")
OF_A_GROUP = ("mae", "bias")


@dataclass(frozen=True)
class PublicBins:
    """What public errors say of each bin: r, q, s, u and P, (B,) each."""

    means: tuple[float, ...]
    squares: tuple[float, ...]
    spreads: tuple[float, ...]
    square_spreads: tuple[float, ...]
    public: tuple[int, ...]


@dataclass(frozen=True)
class ErrorTable:
    """A released histogram of errors with the public facts it is read by.

    Attributes:
        n_records: m.
        scale: b.
        edges: between the bins, ascending, 0 among them, each with its negative; in the target's unit.
        bound: E.
        bins: what public errors say of each.
        variance: V.
        groups: names of the groups, the last for all other values; empty where there is the whole alone.
        drawn: (1 + G·B,): what cannot be read, then group by group the bins.
        weight: W of one person in `drawn`; 1 where records are counted.
    """

    n_records: int
    scale: float
    edges: tuple[float, ...]
    bound: float
    bins: PublicBins
    variance: float
    groups: tuple[str, ...]
    drawn: tuple[int, ...]
    weight: int = 1

    @property
    def n_cells(self) -> int:
        """Of one group, B."""
        return len(self.edges) + 1

    @property
    def ends(self) -> Reals:
        """−E, the edges, E: (B + 1,)."""
        return np.array([-self.bound, *self.edges, self.bound])

    def split(self, counts: Reals) -> Reals:
        """The cells that could be read, (…, G, B)."""
        return counts[..., 1:].reshape(*counts.shape[:-1], max(1, len(self.groups)), self.n_cells)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON, with every public fact."""
        return table_json(KIND, self)


def of_bins(errors: Reals, edges: tuple[float, ...], bound: float) -> PublicBins:
    """What public errors, clipped at ±E, say of each bin."""
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


def figures(table: ErrorTable, counts: Reals) -> Figures:
    """By name, for counts (…, 1 + G·B): scalars (…); "in …" one a bin, "of …" and "gap …" one a group."""
    with np.errstate(all="ignore"):
        split = table.split(counts)
        n = split.sum(axis=-2)
        found = _of(table, n) | {"unread_share": counts[..., 0] / table.n_records, "in records": n}
        found["rmse"] = np.sqrt(np.maximum(found["mse"], 0.0))
        found["r2_public_baseline"] = 1.0 - found["mse"] / (table.variance if table.variance > 0.0 else np.nan)
        for name, share in QUANTILES.items():
            found |= _quantile(name, n, table.ends, share)
        folded = (n + np.flip(n, axis=-1))[..., table.n_cells // 2 :]
        for name, share in ABSOLUTE.items():
            found |= _quantile(name, folded, table.ends[table.n_cells // 2 :], share)
        if table.groups:
            one, rest = _of(table, split), _of(table, n[..., None, :] - split)
            found["of records_share"] = split.sum(axis=-1) / table.n_records
            found |= {f"of {name}": one[name] for name in OF_A_GROUP}
            found |= {f"gap {name}": one[name] - rest[name] for name in OF_A_GROUP}
        return found


def estimates(table: ErrorTable) -> Estimates:
    """Every figure with both intervals."""
    counts = shifted(in_units(table.drawn, table.weight), table.n_records)

    def limits(name: str) -> tuple[float, float]:
        E = table.bound
        if name.endswith("_share"):
            return 0.0, 1.0
        if name == "r2_public_baseline":
            return -np.inf, 1.0
        if name in ("in records", "mse"):
            return 0.0, np.inf
        signed = "bias" in name or name.startswith("gap ") or name in QUANTILES
        return (-2.0 * E if name.startswith("gap ") else -E) if signed else 0.0, 2.0 * E if "gap " in name else E

    found = simulate(lambda one: figures(table, one), table, limits, _beside(table, counts))
    every = np.asarray(float(table.n_records))
    shares = [name for name in ("unread_share", "of records_share") if name in found.values]
    wilsons = {name: wilson(found.values[name], every) for name in shares}
    return Estimates(found.values, found.noise, dict(found.sampling) | wilsons)


def farthest(table: ErrorTable) -> float:
    """By how much the bins can move the MAE at most, wherever in them the records lie."""
    counts = np.maximum(table.split(shifted(in_units(table.drawn, table.weight), table.n_records)), 0.0)
    n, ends, middle = counts.sum(axis=0), np.abs(table.ends), np.abs(np.array(table.bins.means))
    off = np.maximum(np.abs(ends[:-1] - middle), np.abs(ends[1:] - middle))
    return float((n * off).sum() / n.sum()) if n.sum() > 0.0 else float("nan")


def _of(table: ErrorTable, n: Reals) -> dict[str, Reals]:
    r, q = np.array(table.bins.means), np.array(table.bins.squares)
    read = n.sum(axis=-1)
    read = np.where(read > 0.0, read, np.nan)
    return {
        "mae": (n * np.abs(r)).sum(axis=-1) / read,
        "bias": (n * r).sum(axis=-1) / read,
        "mse": (n * q).sum(axis=-1) / read,
    }


def _quantile(name: str, n: Reals, ends: Reals, share: float) -> dict[str, Reals]:
    """The bin that a quantile lies in, its ends, and a value between them."""
    reached, sought = n.cumsum(axis=-1), share * n.sum(axis=-1)
    at = (reached[..., :-1] < sought[..., None]).sum(axis=-1)
    inside = np.take_along_axis(n, at[..., None], axis=-1)[..., 0]
    before = np.take_along_axis(reached, at[..., None], axis=-1)[..., 0] - inside
    part = np.where(inside > 0.0, np.clip((sought - before) / inside, 0.0, 1.0), 0.5)
    low, high = ends[at], ends[at + 1]
    return {name: low + part * (high - low), LOW + name: low, HIGH + name: high}


def _beside(table: ErrorTable, counts: Reals) -> Figures:
    """Standard deviations of what the bins leave open, as public records lie in them."""
    split = np.maximum(table.split(counts), 0.0)
    n, P = split.sum(axis=0), np.maximum(1.0, np.array(table.bins.public))

    def spread(of: Reals, s: tuple[float, ...]) -> Reals:
        v = np.array(s) ** 2
        return np.asarray(np.sqrt((of * v + of**2 * v / P).sum(axis=-1)) / np.maximum(of.sum(axis=-1), 1.0))

    e, squared = spread(n, table.bins.spreads), spread(n, table.bins.square_spreads)
    read = float(max(n.sum(), 1.0))
    mse = max(float((n * np.array(table.bins.squares)).sum()) / read, 1e-300)
    found = {"mae": e, "bias": e, "mse": squared, "rmse": squared / (2.0 * np.sqrt(mse))}
    if table.variance > 0.0:
        found["r2_public_baseline"] = squared / table.variance
    if table.groups:
        one, rest = spread(split, table.bins.spreads), spread(n - split, table.bins.spreads)
        found |= {f"of {name}": one for name in OF_A_GROUP} | {
            f"gap {n_}": np.hypot(one, rest) for n_ in OF_A_GROUP
        }
    return found
