"""The finite candidate set Λ: public, ordered, encoded once; and what earlier editions RELEASED of it, public too.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Λ | `CandidateSet` | the candidates | N points |
| N | `len(candidates)` | how many | scalar |
| — | `encoded` | Λ in the unit cube | (N, d) |
| y, σ | `ReleasedScore` | a released score and the deviation of its noise, in units of the score | scalars |
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.content import point_key
from dpbo_core.errors import StudyInvalid
from dpbo_core.search.search_space import Axis, Categorical, Integer, SearchSpace, Value

MAX_CANDIDATES = 2_000_000  # about 2 GB of posterior state at 100 steps; a larger Λ is refused, not attempted


@dataclass(frozen=True)
class CandidateSet:
    """The finite candidate set Λ, in a fixed order.

    `points[i]` is a dict of hyperparameters, `encoded[i]` its place in the unit cube.
    """

    space: SearchSpace
    points: tuple[Mapping[str, Value], ...]
    encoded: NDArray[np.float64] = field(repr=False, compare=False)

    def __len__(self) -> int:
        return len(self.points)


@dataclass(frozen=True)
class ReleasedScore:
    """One noised score of one candidate."""

    index: int
    score: float
    deviation: float


@dataclass(frozen=True)
class EarlierEdition:
    """The release of one earlier edition, as far as a later edition's search begins with it."""

    edition: str  # its name in the study
    release_id: str  # the ledger's name of its release
    scores: tuple[ReleasedScore, ...]  # the noisy scores that it released, of candidates that are in this Λ


def grid(space: SearchSpace, points: Mapping[str, int]) -> CandidateSet:
    """Return the full grid: `points[name]` values on each numeric axis (1 if absent), all of a categorical axis.

    A conditional axis is left out of the points at which it does not exist.
    """
    for name in space.axes:
        if points.get(name, 1) < 1:
            raise StudyInvalid(
                f"axis {name!r} has {points[name]} points", remedy="give at least 1 point on each axis"
            )
    _refuse_too_many(_count(space, points))
    combinations: list[dict[str, Value]] = [{}]
    for name, axis in space.axes.items():
        values = axis.grid(points.get(name, 1))
        combinations = [
            longer
            for point in combinations
            for longer in ([point | {name: value} for value in values] if space.exists(name, point) else [point])
        ]
    return _candidate_set(space, combinations)


def sobol(space: SearchSpace, n_candidates: int, *, seed: int) -> CandidateSet:
    """Return up to `n_candidates` points of a scrambled Sobol sequence over the axes, without repeated points.

    Points repeat on integer and categorical axes, so that fewer may be left.
    """
    if n_candidates < 1:
        raise StudyInvalid(f"a candidate set of {n_candidates} points", remedy="ask for at least 1")
    _refuse_too_many(n_candidates)
    positions = sobol_positions(len(space.axes), n_candidates, seed=seed)
    unique = {point_key(point): point for point in map(space.at, positions)}
    return _candidate_set(space, list(unique.values()))


def sobol_subset(candidates: CandidateSet, n_chosen: int, *, seed: int) -> tuple[int, ...]:
    """Return the indices of `n_chosen` candidates that are spread evenly over Λ; all if there are no more.

    Each is the nearest to the next Sobol point, among the candidates not chosen yet. Ties go to the lowest index.
    The result is public: it depends on Λ and the search seed alone.
    """
    N = len(candidates)
    if n_chosen >= N:
        return tuple(range(N))
    d = max(1, candidates.encoded.shape[1])  # a Sobol sequence needs a dimension, even if no axis has one
    left = np.ones(N, dtype=bool)
    chosen = []
    for target in islice(sobol_positions(d, n_chosen, seed=seed), n_chosen):
        distance = ((candidates.encoded - target[: candidates.encoded.shape[1]]) ** 2).sum(axis=1)
        nearest = int(np.argmin(np.where(left, distance, np.inf)))
        left[nearest] = False
        chosen.append(nearest)
    return tuple(chosen)


def sobol_positions(dimensions: int, count: int, *, seed: int) -> NDArray[np.float64]:
    """Return the first `count` points of a scrambled Sobol sequence in the unit cube, (count, dimensions)."""
    from scipy.stats import qmc

    engine = qmc.Sobol(dimensions, scramble=True, rng=np.random.default_rng(seed))
    positions: NDArray[np.float64] = engine.random_base2(max(0, math.ceil(math.log2(count))))[:count]
    return positions


def _candidate_set(space: SearchSpace, points: list[dict[str, Value]]) -> CandidateSet:
    encoded = np.array([space.encode(point) for point in points], dtype=float)
    encoded = encoded.reshape(len(points), space.dimensions)
    encoded.flags.writeable = False
    return CandidateSet(space, tuple(points), encoded)


def _count(space: SearchSpace, points: Mapping[str, int]) -> int:
    """Return the number of points that the grid will have, without listing them: a grid too large is refused first.

    Only the combinations of axes that others depend on are listed, since their values are few. For each of them the
    sizes of the other axes that exist there are multiplied.
    """
    parents = {parent for parent, _ in space.conditions.values()}
    total = 0
    shapes: list[dict[str, Value]] = [{}]
    for name in (name for name in space.axes if name in parents):
        values = space.axes[name].grid(1)
        shapes = [
            longer
            for shape in shapes
            for longer in ([shape | {name: value} for value in values] if space.exists(name, shape) else [shape])
        ]
        _refuse_too_many(len(shapes))
    for shape in shapes:
        total += math.prod(
            _values(axis, points.get(name, 1))
            for name, axis in space.axes.items()
            if name not in parents and space.exists(name, shape)
        )
    return total


def _values(axis: Axis, points: int) -> int:
    if isinstance(axis, Categorical):
        return len(axis.values)
    return min(points, axis.high - axis.low + 1) if isinstance(axis, Integer) else points


def _refuse_too_many(count: int) -> None:
    if count > MAX_CANDIDATES:
        raise StudyInvalid(
            f"the candidate set would have {count:,} points, and at most {MAX_CANDIDATES:,} fit in memory",
            cause="the axes' numbers of points multiply",
            remedy='lower them, or set candidates = "sobol" and n_candidates in [search]',
        )
