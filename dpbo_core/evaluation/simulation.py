"""Both intervals of figures of any table, by simulation: its noise, and m records drawn from it.

As `intervals` has them for two classes. A figure may come with ends of its own ("low x" and "high x" beside "x"):
then its interval reaches from the 5% quantile of the lower ends to the 95% quantile of the upper ones.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dpbo_core.evaluation.intervals import AT_ONCE, LEVEL, PAIRS, SEED, TOO_MANY, Interval, simulated_noise
from dpbo_core.evaluation.noised_table import Reals, counted, in_units

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Figures = Mapping[str, Reals]
Limits = Callable[[str], tuple[float, float]]
LOW, HIGH = "low ", "high "


@dataclass(frozen=True)
class Estimates:
    """Figures with both intervals; NaN where nothing can be said."""

    values: Figures
    noise: Mapping[str, Interval]
    sampling: Mapping[str, Interval]


class Released(Protocol):
    """What a released table has, whatever its cells are."""

    @property
    def n_records(self) -> int:
        """m: how many records, or persons, were counted."""
        ...

    @property
    def scale(self) -> float:
        """b of the noise in each cell."""
        ...

    @property
    def drawn(self) -> tuple[int, ...]:
        """Counts with noise, as they were released."""
        ...

    @property
    def weight(self) -> int:
        """W of one person in them; 1 where records are counted."""
        ...


def table_json(kind: str, table: "DataclassInstance") -> dict[str, Any]:
    """A table with every public fact, as plain JSON."""
    facts = asdict(table)
    facts = counted(facts.pop("n_records"), facts.pop("weight")) | facts
    facts = {"noise_scale" if name == "scale" else name: item for name, item in facts.items()}
    told: dict[str, Any] = json.loads(json.dumps({"kind": kind, **facts}, allow_nan=False))
    return told


def shifted(counts: Reals, n_records: int) -> Reals:
    """Counts (…, C) shifted to sum to m: of all tables with that sum, the nearest."""
    excess = counts.sum(axis=-1, keepdims=True) - n_records
    return np.asarray(counts - excess / counts.shape[-1])


def simulate(
    figures: Callable[[Reals], Figures],
    table: "Released",
    limits: Limits,
    beside: Figures,
) -> Estimates:
    """Every figure of a released table.

    Args:
        figures: of counts (…, C).
        table: as it was released.
        limits: where a figure can lie.
        beside: standard deviations of what bins leave open, added to both intervals as normal.
    """
    n_records, scale = table.n_records, table.scale
    counts = shifted(in_units(table.drawn, table.weight), n_records)
    positive = np.maximum(counts, 0.0)
    shares = positive / positive.sum() if positive.sum() > 0.0 else np.full(len(counts), 1.0 / len(counts))

    def noised(rng: np.random.Generator, size: int) -> Reals:
        z = simulated_noise(rng, scale, (size, len(counts)), table.weight)
        return shifted(counts + np.concatenate([z, -z]), n_records)  # its law is symmetric

    def sampled(rng: np.random.Generator, size: int) -> Reals:
        return rng.multinomial(n_records, shares, size=2 * size).astype(np.float64)

    shown, centre = figures(counts), figures(shares * n_records)
    names = [name for name in shown if not name.startswith((LOW, HIGH))]
    found = []
    for draws, middle in ((noised, shown), (sampled, centre)):
        added = _quantiles(figures, draws, middle, beside, len(counts))
        found.append({name: _interval(name, shown, middle, added, limits(name)) for name in names})
    return Estimates({name: np.clip(shown[name], *limits(name)) for name in names}, found[0], found[1])


def _interval(
    name: str, shown: Figures, middle: Figures, added: Mapping[str, Interval], limits: tuple[float, float]
) -> Interval:
    if LOW + name in shown:
        low, high = LOW + name, HIGH + name
        return np.asarray(middle[low] + added[low][0]), np.asarray(middle[high] + added[high][1])
    return np.clip(shown[name] - added[name][1], *limits), np.clip(shown[name] - added[name][0], *limits)


def _quantiles(
    figures: Callable[[Reals], Figures],
    draws: Callable[[np.random.Generator, int], Reals],
    middle: Figures,
    beside: Figures,
    width: int,
) -> dict[str, Interval]:
    """5% and 95% quantiles of what the draws add to each figure."""
    normal = np.random.default_rng(SEED + 1).standard_normal
    pieces: dict[str, list[Reals]] = {name: [] for name in middle}
    for tables in _blocks(draws, width):
        for name, values in figures(tables).items():
            more = normal(values.shape) * beside[name] if name in beside else 0.0
            pieces[name].append(values - middle[name] + more)
    return {name: _ends(np.concatenate(parts)) for name, parts in pieces.items()}


def _blocks(draws: Callable[[np.random.Generator, int], Reals], width: int) -> Iterator[Reals]:
    rng, left = np.random.default_rng(SEED), PAIRS
    while left:
        size = max(1, min(left, AT_ONCE // (2 * width)))
        yield draws(rng, size)  # twice as many
        left -= size


def _ends(added: Reals) -> Interval:
    unknown = np.isnan(added).mean(axis=0) > TOO_MANY
    low, high = np.quantile(
        np.where(np.isnan(added), 0.0, added), [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0], axis=0
    )
    return np.where(unknown, np.nan, low), np.where(unknown, np.nan, high)
