"""The noised histogram, all that was released; and every figure of it with what noise and sampling leave open.

| symbol | name here | meaning | shape |
|---|---|---|---|
| m | `n_records` | records that were counted, public; persons, where each counts once | scalar |
| W | `weight` | of one person in ñ (`histogram_cells`); 1 where records are counted | integer |
| ñ | `drawn` | counts with noise, as they were released | (C,) integers |
| b | `scale` | of the noise in each cell of ñ/W | scalar |
| t̃ | `shifted(counts)` | ñ/W shifted to sum to m | (C,) |
| θ(t) | `figures(t)` | a figure of a table t | of its kind |
| z | — | simulated noise of the released table's own law, shifted alike | (C,) |
| — | noise interval | θ(t̃) − the 95% and 5% quantiles of θ(t̃ + z) − θ(t̃) | |
| s | — | m records drawn by the shares of t̃, less what is expected of them | (C,) |
| — | sampling interval | of a share, `wilson`'s with the noise's own variances; else the same with t̃ + z + s | |

The first is about the figure of the very records that were counted; the second about that of all records of their
kind, as if the counted ones were independent draws: it holds noise and sampling together. What bins leave open of a
figure its kind says (`spreads`), and it is added as normal. Both simulations begin with a fixed seed: they are
post-processing, and anyone finds the same.

Where each person counts once, m persons are drawn, each in one cell. Whose records lie in several cells spreads
less (Jensen), so that the sampling interval, and what the bins leave open, then hold more often.

From a sum of absolute values, which noise raises, the mean rise is taken away, and its intervals reach as far down
as what was added could have raised it (the triangle inequality), so that they hold more often than the others.

What a noised table says of a class that has few records: whether it has any, and the ends of means over it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| P_b | `cells` | noised counts of the class's records, by bin; their table is shifted to a known sum | (…, B) |
| h_b | `weights` | what a record of the bin adds to the mean, in [0, 1] | (…, B) |
| b, C | `scale`, `n_all` | of the noise in each cell, and how many cells the table has | scalars |
| G | `n_summed` | how many of them each P_b is the sum of | scalar |
| A | — | Σ h_b P_b / Σ P_b: a recall, or an AUC | (…) |

A = h̄ + V/P, where h̄ is the mean of the h_b, V = Σ (h_b − h̄) P_b and P = Σ P_b. The noise of V and that of P are
uncorrelated, so that A's ends are those of an AUC by pairs (`methods.pair_bounds`): P's own allow for its having
been large enough to be shown.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.methods.pair_bounds import COUNT, NoiseTail, auc_interval, bounds_of_pairs
from dpbo_core.privacy.release import NO_SCORE
from dpbo_core.report.report_kind import HIGH, LEVEL, LOW, Estimates, Figures, Interval, Reals, ReportKind, wilson

LARGE_SCALE = 1e6  # scale of noise whose whole steps no figure sees
PAIRS, SEED = 2000, 20
MAX_SIMULATED_NUMBERS = 2_000_000  # numbers of simulated tables in memory
TOO_FEW_POSITIVES = "too few positives for an AUC at this ε, or too few records of another class"
MAX_UNDEFINED_SHARE = 0.05  # of the simulated tables, without the figure: then nothing is said of it

Spread = tuple[Reals, Reals, Reals]
Draws = Callable[[np.random.Generator, int], Reals]


@dataclass(frozen=True)
class NoisedTable:
    """A released histogram with the public facts it is read by."""

    n_records: int  # m
    scale: float  # b
    kind: ReportKind  # how its cells are read
    # names of the groups, the last for all other values; empty if there is the whole alone
    groups: tuple[str, ...]
    drawn: tuple[int, ...]  # (C,): what cannot be read, then group by group the cells of the kind
    weight: int = 1  # W

    @property
    def counts(self) -> Reals:
        """The released noisy counts ñ/W of all histogram cells, in records or persons, (C,)."""
        return np.array(self.drawn, dtype=np.float64) / self.weight

    def shifted(self, counts: Reals) -> Reals:
        """Return counts (…, C) shifted by one constant so that they sum to m: the nearest such."""
        excess = counts.sum(axis=-1, keepdims=True) - self.n_records
        return np.asarray(counts - excess / counts.shape[-1])

    def split(self, counts: Reals) -> Reals:
        """Counts (…, C) arranged by group and the report's own axes, without unreadable records: (…, G, *shape)."""
        return counts[..., 1:].reshape(*counts.shape[:-1], max(1, len(self.groups)), *self.kind.shape)

    def figures(self, counts: Reals) -> Figures:
        """Return every metric of counts (…, C), by name; "of …" and "gap …" have one per group."""
        kind, axes = self.kind, len(self.kind.shape)
        with np.errstate(all="ignore"):
            split = self.split(counts)
            whole = split.sum(axis=-1 - axes)
            figures = dict(kind.figures(whole)) | {"unread_share": counts[..., 0] / self.n_records}
            if self.groups:
                one = kind.group_figures(split)
                rest = kind.group_figures(np.expand_dims(whole, -1 - axes) - split)
                figures["of records_share"] = split.sum(axis=tuple(range(-axes, 0))) / self.n_records
                for name, values in one.items():
                    end = next((end for end in (LOW, HIGH) if name.startswith(end)), "")
                    figures[f"{end}of {name.removeprefix(end)}"] = values
                for name in kind.of_a_group:
                    figures[f"gap {name}"] = one[name] - rest[name]
                    if LOW + name in one:
                        figures[f"{LOW}gap {name}"] = one[LOW + name] - rest[HIGH + name]
                        figures[f"{HIGH}gap {name}"] = one[HIGH + name] - rest[LOW + name]
            return figures

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Reals:
        """Simulated noise as it was drawn for this table, in records or persons, of the given shape."""
        return simulated_noise(rng, self.scale, shape, self.weight)

    def estimates(self) -> Estimates:
        """Return every metric of the table, with 90% intervals for the noise alone and for noise with sampling."""
        kind, counts = self.kind, self.shifted(self.counts)
        positive = np.maximum(counts, 0.0)
        shares = positive / positive.sum() if positive.sum() > 0.0 else np.full(len(counts), 1.0 / len(counts))

        def noised(rng: np.random.Generator, size: int) -> Reals:
            """Simulated tables with noise added to these counts, 2·`size` of them: each noise with either sign."""
            z = self.noise(rng, (size, len(counts)))
            return self.shifted(counts + np.concatenate([z, -z]))  # its law is symmetric

        def sampled(rng: np.random.Generator, size: int) -> Reals:
            """Simulated tables with noise and with records drawn again by the shares, 2·`size` of them."""
            drawn = rng.multinomial(self.n_records, shares, size=2 * size)
            return np.asarray(noised(rng, size) + drawn - self.n_records * shares)

        values, spreads = dict(self.figures(counts)), kind.spreads(self.split(counts))
        names = [name for name in values if not name.startswith((LOW, HIGH))]
        added = [self._added(draws, values, spreads) for draws in (noised, sampled)]
        intervals = [{name: self._interval_of(name, values[name], values, one) for name in names} for one in added]
        rises = {name: added[0][name][2] for name in kind.raised if name in added[0]}
        intervals[1] |= self._share_intervals(noised, values)
        values |= {name: np.maximum(0.0, values[name] - rise) for name, rise in rises.items()}
        figures = {name: np.clip(values[name], *kind.limits(name)) for name in names}
        for name, ends in self._ends_of_few().items():
            for one in intervals:
                low, high = widened(one[name], figures[name], ends)
                one[name] = np.clip(low, *kind.limits(name)), np.clip(high, *kind.limits(name))
        for name, absent in self._absent().items():
            if name in figures:
                figures[name] = np.where(absent, np.nan, figures[name])
                for one in intervals:
                    low, high = one[name]
                    one[name] = np.where(absent, np.nan, low), np.where(absent, np.nan, high)
        return Estimates(figures, intervals[0], intervals[1], self.split(counts), self.n_records)

    def _ends_of_few(self) -> dict[str, list[Interval]]:
        """Return, for each metric that is a mean over a class (of groups "of …"), its extreme values, per class.

        They widen the simulated intervals of a class with too few records to trust these; NaN for any other class.
        """
        cells, C = self.split(self.shifted(self.counts)), len(self.drawn)
        ends: dict[str, list[Interval]] = {}
        for of, some, n_summed in (("", cells.sum(axis=0), len(cells)), ("of ", cells, 1)):
            for name, means in self.kind.class_means(some).items():
                if of == "" or (self.groups and name in self.kind.of_a_group):
                    ends[of + name] = [mean_bounds(*one, self.scale, n_summed, C) for one in means]
        return ends

    def _absent(self) -> dict[str, NDArray[np.bool_]]:
        """Return, by name, where a metric divides by a class of which the noise hides whether it has any records.

        Its shape is (), (G,) for the metrics of groups, or (K,) where there is a metric of each class.
        """
        divided, cells = self.kind.divided, self.split(self.shifted(self.counts))
        if not divided:
            return {}
        of_groups = cells.reshape(*cells.shape[:2], -1)
        n_groups, _, n_cells = of_groups.shape
        whole, C = of_groups.sum(axis=(0, 2)), len(self.drawn)
        few = whole < least_clear(n_groups * n_cells, C, self.scale)
        groups = of_groups.sum(axis=2)
        few_in = groups < least_clear(n_cells, C, self.scale)
        rest = (whole - groups) < least_clear((n_groups - 1) * n_cells, C, self.scale) if n_groups > 1 else few_in
        absent = {}
        for name, place in divided.items():
            one = few_in if name.startswith("of ") else few_in | rest if name.startswith("gap ") else few
            each = name.startswith("class ")
            absent[name] = one if each else one.any(axis=-1) if place is None else one[..., place]
        return absent

    def _share_intervals(self, noised: Draws, values: Figures) -> dict[str, Interval]:
        """Return the sampling interval, by name, of each metric that is a share, noise in its two counts included.

        Both are linear in the table: their noise is simulated on large counts, where no denominator is near 0.
        """
        counts, full = self.shifted(self.counts), LARGE_SCALE * max(1.0, self.scale)
        every = {name: np.asarray(float(self.n_records)) for name in ("unread_share", "of records_share")}
        wholes = {name: one for name, one in {**self.kind.denominators(values), **every}.items() if name in values}
        pieces: dict[str, list[Reals]] = {name: [] for name in wholes}
        for tables in _batches(noised, len(counts)):
            figures = self.figures(tables - counts + full)
            of = {**self.kind.denominators(figures), **every}
            for name, parts in pieces.items():
                whole = of[name].reshape(*of[name].shape, *[1] * (figures[name].ndim - of[name].ndim))
                parts.append(np.stack([figures[name] * whole, np.broadcast_to(whole, figures[name].shape)]))
        intervals = {}
        for name, whole in wholes.items():
            part, of_whole = np.concatenate(pieces[name], axis=1)
            part, of_whole = part - part.mean(axis=0), of_whole - of_whole.mean(axis=0)
            products = (part * part, part * of_whole, of_whole * of_whole)
            noise = [product.mean(axis=0) for product in products]
            intervals[name] = wilson(values[name], whole, noise)
        return intervals

    def _interval_of(self, name: str, value: Reals, middle: Figures, added: dict[str, Spread]) -> Interval:
        """Return the 90% interval of a metric: `value` less the quantiles of what noise adds, within its limits.

        With ends LOW and HIGH it reaches from the one to the other, each with its own quantile.
        """
        limits = self.kind.limits(name)
        if LOW + name in added:
            low, high = LOW + name, HIGH + name
            return np.clip(middle[low] + added[low][0], *limits), np.clip(middle[high] + added[high][1], *limits)
        low_end, high_end, _ = added[name]
        return np.clip(value - high_end, *limits), np.clip(value - low_end, *limits)

    def _added(self, draws: Draws, middle: Figures, beside: Figures) -> dict[str, Spread]:
        """Return, by metric, the 5% and 95% quantiles and mean of how far simulated tables move it from `middle`.

        `beside` is the standard deviation that binning adds. A metric that noise raises may have risen by as much
        as the simulated noise could raise it.
        """
        kind, counts = self.kind, self.shifted(self.counts)
        axes, normal = tuple(range(-1 - len(kind.shape), 0))[:1], np.random.default_rng(SEED + 1).standard_normal
        whole = self.split(counts).sum(axis=axes)
        rises: dict[str, list[Reals]] = {name: [] for name in kind.raised}
        pieces: dict[str, list[Reals]] = {name: [] for name in middle}
        for tables in _batches(draws, len(self.drawn)):
            for name, values in self.figures(tables).items():
                more = normal(values.shape) * beside[name] if name in beside else 0.0
                pieces[name].append(values - middle[name] + more)
            for name, values in kind.rises(self.split(tables - counts).sum(axis=axes), whole).items():
                rises[name].append(values)
        added = {name: _quantiles_and_mean(np.concatenate(parts)) for name, parts in pieces.items()}
        for name in rises.keys() & added.keys():
            _, high, mean = added[name]
            added[name] = -high, _quantiles_and_mean(np.concatenate(rises[name]))[1], mean
        return added

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain JSON, with every public fact."""
        whose = {"n_records": self.n_records}
        if self.weight != 1:
            whose = {"n_persons": self.n_records, "weight": self.weight}
        facts = {"noise_scale": self.scale, **self.kind.to_json()}
        return {**whose, **facts, "groups": list(self.groups), "drawn": list(self.drawn)}

    @classmethod
    def from_json(cls, table: Mapping[str, Any], kind: type[ReportKind]) -> "NoisedTable":
        """Return the table in a JSON object that `to_json` wrote, as a report of this kind."""
        n_records = table["n_persons"] if "n_persons" in table else table["n_records"]
        groups, drawn = tuple(table["groups"]), tuple(table["drawn"])
        return cls(n_records, table["noise_scale"], kind.from_json(table), groups, drawn, table.get("weight", 1))


def report(table: NoisedTable) -> dict[str, Any]:
    """Return the whole report of a released table, as JSON with the table itself, by post-processing alone."""
    estimates, kind = table.estimates(), table.kind
    shares = [name for name, place in kind.divided.items() if place is None and name in kind.metrics]
    return {
        "table": table.to_json(),
        "metrics": {name: estimates.figure(name) for name in kind.metrics if name in estimates.values},
        **kind.parts(estimates),
        **({NO_SCORE: TOO_FEW_POSITIVES} if any(np.isnan(estimates.values[name]) for name in shares) else {}),
        "groups": {
            group: {name: estimates.figure(f"of {name}", g) for name in ("records_share", *kind.of_a_group)}
            | {"gaps": {name: estimates.figure(f"gap {name}", g) for name in kind.of_a_group}}
            for g, group in enumerate(table.groups)
        },
    }


def simulated_noise(rng: np.random.Generator, scale: float, shape: tuple[int, ...], weight: int = 1) -> Reals:
    """Simulated discrete Laplace noise of this scale in steps of 1/`weight`; rounded Laplace if very wide."""
    if scale * weight > LARGE_SCALE:
        return np.asarray(np.rint(rng.laplace(scale=scale * weight, size=shape)) / weight)
    p = -np.expm1(-1.0 / (scale * weight))
    return np.asarray((rng.geometric(p, shape) - rng.geometric(p, shape)) / weight, dtype=np.float64)


def _batches(draws: Draws, width: int) -> Iterator[Reals]:
    """Simulated tables of `width` cells by `draws`, two for each of PAIRS noises, in batches that fit memory."""
    rng, left = np.random.default_rng(SEED), PAIRS
    while left:
        size = max(1, min(left, MAX_SIMULATED_NUMBERS // (2 * width)))
        yield draws(rng, size)  # twice as many
        left -= size


def _quantiles_and_mean(added: Reals) -> Spread:
    """The 5% and 95% quantiles and the mean over draws (first axis), NaN taken for 0; NaN if over 5% are NaN."""
    unknown = np.isnan(added).mean(axis=0) > MAX_UNDEFINED_SHARE
    filled = np.where(np.isnan(added), 0.0, added)
    low, high = np.quantile(filled, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
    low, high, mean = (np.where(unknown, np.nan, part) for part in (low, high, filled.mean(axis=0)))
    return low, high, mean


ABSENT_CLASS_CHANCE = 5e-4  # chance that a class without any record seems to have some
FEW_RECORDS_FACTOR = 3.0  # times what shows that there are any records


def least_clear(n_cells: int, n_all: int, scale: float) -> float:
    """Return the smallest sum of `n_cells` noised cells (of `n_all`) that shows that they contain any records.

    Noise alone reaches it with probability at most `ABSENT_CLASS_CHANCE`, by Chernoff's bound. The moments are
    those of the Laplace law, which are above those of the discrete one.
    """
    inside, outside = _parts(n_cells, n_all)
    t = np.linspace(0.002, 0.998, 499) / (scale * max(inside, outside))
    moments = n_cells * np.log1p(-((t * scale * inside) ** 2))
    moments = moments + (n_all - n_cells) * np.log1p(-((t * scale * outside) ** 2))
    return float(((-math.log(ABSENT_CLASS_CHANCE) - moments) / t).min())


def mean_bounds(cells: Reals, weights: Reals, scale: float, n_summed: int, n_all: int) -> Interval:
    """Return the extreme values, (…), of a class's mean of `weights` whose noisy counts are `cells` (…, B).

    NaN unless the class has fewer than `FEW_RECORDS_FACTOR` times the records at which it is surely not empty. The
    mean is written as a ratio, like an AUC from pairs, and bounded as one.
    """
    n_cells = n_summed * cells.shape[-1]
    inside, outside = _parts(n_cells, n_all)
    deviation = scale * math.sqrt(2.0 * (n_cells * inside**2 + (n_all - n_cells) * outside**2))
    of_whole = NoiseTail(deviation, gaussian=True)
    middle, whole = weights.mean(axis=-1), cells.sum(axis=-1)
    apart = weights - middle[..., None]
    reach = NoiseTail(scale, gaussian=True).reach(COUNT / 2.0) * np.sqrt(2.0 * n_summed * (apart**2).sum(axis=-1))
    moved = (apart * cells).sum(axis=-1)
    _, least, most = bounds_of_pairs(whole, of_whole, math.inf)
    ends = auc_interval((moved - reach, moved + reach), (least, most), middle)
    few = whole < FEW_RECORDS_FACTOR * least_clear(n_cells, n_all, scale)
    return np.where(few, ends[0], np.nan), np.where(few, ends[1], np.nan)


def widened(interval: Interval, value: Reals, ends: list[Interval]) -> Interval:
    """Return the interval of a mean, widened by its extreme values `ends` for each class.

    Their distances from `value` are added as independent deviations are: the root of the summed squares.
    """
    off = [np.stack([value - low, high - value]) for low, high in ends]
    below, above = np.sqrt(np.nansum([np.maximum(one, 0.0) ** 2 for one in off], axis=0))
    return np.minimum(interval[0], value - below), np.maximum(interval[1], value + above)


def _parts(n_cells: int, n_all: int) -> tuple[float, float]:
    """Return the weight of a cell's noise in the sum of `n_cells` shifted cells of `n_all`: inside, and outside."""
    return 1.0 - n_cells / n_all, n_cells / n_all
