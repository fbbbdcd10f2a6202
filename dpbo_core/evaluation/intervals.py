"""What the noise, whose law is known, and sampling, which is estimated, leave open of every figure.

| symbol | name here | meaning |
|---|---|---|
| θ(t) | `figures` | a figure of a table t |
| t̃ | — | the released table, shifted to sum to m |
| z | — | simulated noise of the released table's own law, shifted alike |
| — | noise interval | θ(t̃) − the 95% and 5% quantiles of θ(t̃ + z) − θ(t̃) |
| — | sampling interval | of a share, Wilson's; else the same with tables of m records drawn from t̃ for t̃ + z |

The first is about the figure of the very records that were counted; the second about that of all records of their
kind, as if the counted ones were independent draws and t̃ had no noise. Of an AUC the first also holds what the
bins leave open: how pairs within a bin are ranked, of which public records say the mean (`within`). Both
simulations begin with a fixed seed: they are post-processing, and anyone finds the same.

Where each person counts once, m persons are drawn, each in one cell. Whose records lie in several cells spreads
less (Jensen), so that the sampling interval, and what the bins leave open, then hold more often.

A calibration error is a sum of absolute values, which noise raises: from its estimate the mean rise is taken away,
and its intervals reach the 95% quantile to either side, so that they hold more often than the others.
"""

from collections.abc import Callable, Iterator

import numpy as np

from dpbo_core.evaluation.figures import DIFFERENCES, OF_WHOM, Figures, figures
from dpbo_core.evaluation.noised_table import NoisedTable, Reals
from dpbo_core.evaluation.within import variance

Z = 1.6448536269514722  # the normal's 95% quantile
LARGE = 1e6  # scale of noise whose whole steps no figure sees
LEVEL, PAIRS, SEED = 0.9, 2000, 20
AT_ONCE = 2_000_000  # numbers of simulated tables in memory
TOO_MANY = 0.05  # of the simulated tables, without the figure: then nothing is said of it
ABSOLUTE = ("calibration_error",)
COUNTS = ("positives", "negatives", "read", "flagged", "true_positives", "false_positives", "records")
UNBOUNDED = ("lift", "at lift", *COUNTS, *(f"{of} {name}" for of in ("at", "in", "of") for name in COUNTS))

Interval = tuple[Reals, Reals]
Spread = tuple[Reals, Reals, Reals]
Draws = Callable[[np.random.Generator, int], Reals]


def estimates(table: NoisedTable) -> tuple[Figures, dict[str, Interval], dict[str, Interval]]:
    """Every figure, its noise interval and its sampling interval; NaN where nothing can be said."""
    counts = table.shifted(table.counts)
    shown = dict(figures(table, counts))
    positive = np.maximum(counts, 0.0)
    shares = positive / positive.sum() if positive.sum() > 0.0 else np.full(len(counts), 1.0 / len(counts))

    def noised(rng: np.random.Generator, size: int) -> Reals:
        drawn = simulated_noise(rng, table.scale, (size, len(counts)), table.weight)
        return table.shifted(counts + np.concatenate([drawn, -drawn]))  # its law is symmetric

    def sampled(rng: np.random.Generator, size: int) -> Reals:
        return rng.multinomial(table.n_records, shares, size=2 * size).astype(np.float64)

    centre = figures(table, shares * table.n_records)
    noise = _quantiles(table, noised, shown, within_spreads(table, counts))
    sampling = _quantiles(table, sampled, centre, {})
    intervals = [
        {name: _interval(name, shown[name], spread[name]) for name in shown} for spread in (noise, sampling)
    ]
    for name, whole in _wholes(table, shown):
        intervals[1][name] = wilson(shown[name], whole)
    for name in ABSOLUTE:
        if name in shown:
            shown[name] = np.maximum(0.0, shown[name] - noise[name][2])
    values = {name: _within(name, found) for name, found in shown.items()}
    return values, intervals[0], intervals[1]


def simulated_noise(rng: np.random.Generator, scale: float, shape: tuple[int, ...], weight: int = 1) -> Reals:
    """Discrete Laplace noise of the mechanism's law in steps of 1/W: the difference of two geometric variables."""
    if scale * weight > LARGE:
        return np.asarray(np.rint(rng.laplace(scale=scale * weight, size=shape)) / weight)
    p = -np.expm1(-1.0 / (scale * weight))
    return np.asarray((rng.geometric(p, shape) - rng.geometric(p, shape)) / weight, dtype=np.float64)


def wilson(share: Reals, whole: Reals) -> Interval:
    """Of a share of so many records, its interval at LEVEL; NaN where there are none."""
    with np.errstate(all="ignore"):
        n, p = np.where(whole > 0.0, whole, np.nan), np.clip(share, 0.0, 1.0)
        middle = (p + Z**2 / (2.0 * n)) / (1.0 + Z**2 / n)
        half = Z / (1.0 + Z**2 / n) * np.sqrt(p * (1.0 - p) / n + (Z / (2.0 * n)) ** 2)
    return np.clip(middle - half, 0.0, 1.0), np.clip(middle + half, 0.0, 1.0)


def _wholes(table: NoisedTable, shown: Figures) -> Iterator[tuple[str, Reals]]:
    """Every figure that is a share of records, and of how many."""
    for name, whole in OF_WHOM.items():
        for of in ("", "of "):
            if of + name in shown:
                yield of + name, shown[of + whole]
        if f"at {name}" in shown:
            yield f"at {name}", shown["at flagged"] if whole == "flagged" else shown[whole]
    yield "in observed", shown["in records"]
    every = np.asarray(float(table.n_records))
    yield "unread_share", every
    if table.groups:
        yield "of records_share", every


def within_spreads(table: NoisedTable, counts: Reals) -> Figures:
    """Standard deviation of each AUC for its pairs within bins: as these records spread, and as `within` errs."""
    split = table.split(counts)

    def spread(bins: Reals) -> Reals:
        N, P = bins[..., 0, :], bins[..., 1, :]
        pairs = np.maximum(P.sum(axis=-1) * N.sum(axis=-1), 1.0)
        inside = (np.maximum(P, 0.0) * np.maximum(N, 0.0)).sum(axis=-1)
        return np.asarray(
            np.hypot(np.sqrt(table.untied * variance(P, N)) / pairs, table.within_error * inside / pairs)
        )

    found = {"auc": spread(split.sum(axis=-3))}
    if table.groups:
        found["of auc"] = spread(split)
        found["gap auc"] = np.hypot(found["of auc"], spread(split.sum(axis=-3) - split))
    return found


def _quantiles(table: NoisedTable, draws: Draws, middle: Figures, spreads: Figures) -> dict[str, Spread]:
    """5% and 95% quantiles of what the draws add to each figure, and their mean; beside them `spreads`, normal."""
    normal = np.random.default_rng(SEED + 1).standard_normal
    pieces: dict[str, list[Reals]] = {name: [] for name in middle}
    for drawn in _blocks(draws, len(table.drawn)):
        for name, values in figures(table, drawn).items():
            beside = normal(values.shape) * spreads[name] if name in spreads else 0.0
            pieces[name].append(values - middle[name] + beside)
    return {name: _spread(np.concatenate(parts)) for name, parts in pieces.items()}


def _blocks(draws: Draws, width: int) -> Iterator[Reals]:
    rng, left = np.random.default_rng(SEED), PAIRS
    while left:
        size = max(1, min(left, AT_ONCE // (2 * width)))
        yield draws(rng, size)  # twice as many
        left -= size


def _spread(added: Reals) -> Spread:
    unknown = np.isnan(added).mean(axis=0) > TOO_MANY
    filled = np.where(np.isnan(added), 0.0, added)
    low, high = np.quantile(filled, [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0)
    low, high, mean = (np.where(unknown, np.nan, part) for part in (low, high, filled.mean(axis=0)))
    return low, high, mean


def _interval(name: str, shown: Reals, spread: Spread) -> Interval:
    low, high, _ = spread
    return _within(name, shown - high), _within(name, shown + high if name in ABSOLUTE else shown - low)


def _within(name: str, values: Reals) -> Reals:
    """Clipped to where the figure can lie."""
    if name in UNBOUNDED:
        return np.maximum(values, 0.0)
    return np.clip(values, -1.0 if name.startswith(DIFFERENCES) else 0.0, 1.0)
