"""The hyperparameter box, axis by axis, its map to the unit cube, and the finite candidate set Λ in it; all public.

| symbol | name here | meaning | shape |
|---|---|---|---|
| d | `len(space)` | encoded dimensions: one an axis, one a value for an unordered categorical axis | scalar |
| u | `encode(...)` | a point of the unit cube | (d,) |
| — | `conditions` | axis → (parent axis, values at which it exists) | — |
| Λ | `CandidateSet` | the candidates | N points |
| N | `len(candidates)` | how many | scalar |
| — | `encoded` | Λ in the unit cube | (N, d) |
| y, σ | `ReleasedScore` | a released score and the deviation of its noise, in units of the score | scalars |

A conditional axis (the width of an RBF kernel, say) is absent from the points where it does not exist. Its
coordinate there is ½, so that it does not add to the distance between two such points.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.content import content_key, is_plain, point_key, unwrap_numpy, value_names
from dpbo_core.errors import StudyInvalid

Value = float | int | str | bool


def _check_ends(low: float, high: float, *, log: bool) -> None:
    try:
        finite = math.isfinite(low) and math.isfinite(high)
    except (TypeError, OverflowError):
        finite = False
    if not finite:
        raise StudyInvalid(
            "an end of an axis is no finite number",
            cause="an end is infinite, NaN, a text, or a number of hundreds of digits",
            remedy="give two finite numbers",
        )
    if low >= high:
        raise StudyInvalid(
            f"an axis has low = {low:g}, not below high = {high:g}",
            cause="the two ends were swapped",
            remedy="write the smaller one as low",
        )
    if log and low <= 0:
        raise StudyInvalid(
            f"a logarithmic axis starts at {low:g}",
            cause="a logarithm needs positive numbers",
            remedy="raise low above 0 or set log = false",
        )


@dataclass(frozen=True)
class Real:
    """A real axis [low, high], evenly spaced in the value or in its logarithm."""

    dimensions: ClassVar[int] = 1  # coordinates it takes in the unit cube

    low: float
    high: float
    log: bool = False

    def __init__(self, low: float, high: float, *, log: bool = False) -> None:
        _check_ends(low, high, log=log)
        object.__setattr__(self, "low", float(low))
        object.__setattr__(self, "high", float(high))
        object.__setattr__(self, "log", log)

    def at(self, position: float) -> float:
        """Return the value at `position`, evenly (in logarithms if `log`) from `low` at ≤ 0 to `high` at ≥ 1."""
        if position <= 0.0:
            return self.low
        if position >= 1.0:
            return self.high
        if self.log:
            return math.exp(math.log(self.low) + position * (math.log(self.high) - math.log(self.low)))
        return self.low + position * (self.high - self.low)

    def encode(self, value: Value) -> tuple[float, ...]:
        """The position of `value` on the axis, by logarithms on a logarithmic one, clipped to [0, 1]; (u,)."""
        a, b, x = self.low, self.high, float(value)
        if self.log:
            a, b, x = math.log(a), math.log(b), math.log(x)
        return (min(1.0, max(0.0, (x - a) / (b - a))),)

    def grid(self, points: int) -> list[Value]:
        """Return `points` values from low to high, evenly spaced (in logarithms if `log`); for 1 the middle one."""
        if points == 1:
            return [self.at(0.5)]
        return [self.at(i / (points - 1)) for i in range(points)]


@dataclass(frozen=True)
class Integer:
    """An integer axis low … high, both included."""

    dimensions: ClassVar[int] = 1  # coordinates it takes in the unit cube

    low: int
    high: int
    log: bool = False

    def __init__(self, low: float, high: float, *, log: bool = False) -> None:
        _check_ends(low, high, log=log)
        if int(low) != low or int(high) != high:
            raise StudyInvalid(
                f"an integer axis runs from {low} to {high}", remedy="give whole numbers, or leave integer out"
            )
        object.__setattr__(self, "low", int(low))
        object.__setattr__(self, "high", int(high))
        object.__setattr__(self, "log", log)

    def at(self, position: float) -> int:
        """Return the integer nearest to `position` in [0, 1], on a logarithmic axis by logarithms."""
        real = Real(self.low, self.high, log=self.log).at(position)
        return min(self.high, max(self.low, round(real)))

    def encode(self, value: Value) -> tuple[float, ...]:
        """The position of `value` on the axis, by logarithms on a logarithmic one, clipped to [0, 1]; (u,)."""
        return Real(self.low, self.high, log=self.log).encode(value)

    def grid(self, points: int) -> list[Value]:
        """Return at most `points` distinct integers from low to high, all if they fit; for 1 the middle one."""
        if points >= self.high - self.low + 1:
            return list(range(self.low, self.high + 1))
        if points == 1:
            return [self.at(0.5)]
        return list(dict.fromkeys(self.at(i / (points - 1)) for i in range(points)))


@dataclass(frozen=True)
class Categorical:
    """An axis of unordered values; each takes a coordinate of its own, so any two are equally far apart.

    Points, releases and the ledger hold plain data alone. A value that is a text, a truth value or a finite number
    is its own name there; any other (a list, an estimator) is represented by a text.

    Attributes:
        values: as they were given.
        keys: a text for each value that depends on its content, by which values are compared.
        names: of the values in points, releases and the ledger.
    """

    values: tuple[Any, ...] = field(compare=False)
    keys: tuple[str, ...] = field(init=False, repr=False)
    names: tuple[Value, ...] = field(init=False, repr=False, compare=False)

    def __init__(self, values: "list[Any] | tuple[Any, ...]") -> None:
        if len(values) < 1:
            raise StudyInvalid("a categorical axis has no values", remedy="list at least one")
        plain = tuple(map(unwrap_numpy, values))
        keys = tuple(map(_key, plain))
        if len(set(keys)) != len(keys):
            raise StudyInvalid("a categorical axis lists a value twice", remedy="list each value once")
        object.__setattr__(self, "values", plain)
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "names", value_names(plain, keys))

    @property
    def dimensions(self) -> int:
        """The coordinates of a choice in the unit cube: one for each value, none if there is a single value."""
        return len(self.values) if len(self.values) > 1 else 0

    @property
    def meant(self) -> dict[str, Any]:
        """The values that are not plain data, by the text that represents each of them in points."""
        pairs = zip(self.names, self.values, strict=True)
        return {str(name): value for name, value in pairs if not is_plain(value)}

    def name_of(self, value: Any) -> Any:
        """Return the name of a value of the axis; anything that is not one of its values is returned unchanged."""
        key = _key(unwrap_numpy(value))
        return self.names[self.keys.index(key)] if key in self.keys else value

    def has(self, value: Any) -> bool:
        """Return whether a value, or its name, is one of the axis's, of the same type too."""
        return _key(unwrap_numpy(value)) in (*self.keys, *map(_key, self.names))

    def at(self, position: float) -> Value:
        """Return the name of the value whose slice of [0, 1] holds `position`."""
        return self.names[min(len(self.names) - 1, int(position * len(self.names)))]

    def encode(self, value: Value) -> tuple[float, ...]:
        """Return the one-hot vector of a value's name, of height 1/√2, so that any two are at distance 1."""
        if self.dimensions == 0:
            return ()
        return tuple(math.sqrt(0.5) if is_same_value(v, value) else 0.0 for v in self.names)

    def grid(self, points: int) -> list[Value]:  # noqa: ARG002  every value is always listed
        """Return the names of all the values of the axis, whatever `points` is."""
        return list(self.names)


def _key(value: Any) -> str:
    """Return the text by which a value is compared: its content's, or of one that studies refuse, its id."""
    try:
        return content_key(value)
    except StudyInvalid:
        return f"at {id(value)}"


Axis = Real | Integer | Categorical


@dataclass(frozen=True)
class SearchSpace:
    """The hyperparameters of a study: named axes, some of which exist only at certain values of an earlier axis.

    A space without axes has one point: the model with its own parameters.
    """

    axes: Mapping[str, Axis]
    conditions: Mapping[str, tuple[str, tuple[Value, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, (parent, values) in self.conditions.items():
            self._check_condition(name, parent, values)
        named = {
            name: (parent, tuple(map(self.axes[parent].name_of, values)))  # type: ignore[union-attr]
            for name, (parent, values) in self.conditions.items()
        }
        object.__setattr__(self, "conditions", named)

    @property
    def meant(self) -> dict[str, dict[str, Any]]:
        """By axis, the values that are not plain data, by the text that represents each of them in points."""
        categorical = {name: axis.meant for name, axis in self.axes.items() if isinstance(axis, Categorical)}
        return {name: values for name, values in categorical.items() if values}

    @property
    def dimensions(self) -> int:
        """The number d of coordinates that `encode` gives: 1 a numeric axis, 1 a value of a categorical one."""
        return sum(axis.dimensions for axis in self.axes.values())

    def exists(self, name: str, point: Mapping[str, Value]) -> bool:
        """Return whether axis `name` exists at `point`, which holds at least the axes before it."""
        if name not in self.conditions:
            return True
        parent, values = self.conditions[name]
        return parent in point and any(is_same_value(point[parent], value) for value in values)

    def encode(self, point: Mapping[str, Value]) -> NDArray[np.float64]:
        """Return the coordinates (d,) of `point`: categorical axes one-hot, ½ for axes that do not exist there."""
        places = (
            axis.encode(point[name]) if name in point else (0.5,) * axis.dimensions
            for name, axis in self.axes.items()
        )
        return np.array([u for place in places for u in place], dtype=float)

    def to_json(self) -> dict[str, Any]:
        """Return the axes, without their conditions, as plain tables: low, high, log and integer, or values."""
        return {
            name: {"values": list(axis.names)}
            if isinstance(axis, Categorical)
            else {"low": axis.low, "high": axis.high, "log": axis.log, "integer": isinstance(axis, Integer)}
            for name, axis in self.axes.items()
        }

    def at(self, position: NDArray[Any]) -> dict[str, Value]:
        """Return the point at these positions in [0, 1], one for each axis; axes that do not exist are left out."""
        point: dict[str, Value] = {}
        for (name, axis), x in zip(self.axes.items(), position, strict=True):
            if self.exists(name, point):
                point[name] = axis.at(float(x))
        return point

    def _check_condition(self, name: str, parent: str, values: tuple[Value, ...]) -> None:
        before = list(self.axes)[: list(self.axes).index(name)]
        axis = self.axes.get(parent)
        if parent not in before or not isinstance(axis, Categorical):
            raise StudyInvalid(
                f"axis {name!r} exists only at certain values of {parent!r}, which is no axis of values above it",
                cause="a misspelt name, a numeric axis, or the wrong order",
                remedy=f"write {parent} = {{ values = [...] }} before {name}",
            )
        unknown = [value for value in values if not axis.has(value)]
        if unknown or not values:
            raise StudyInvalid(
                f"axis {name!r} exists at {parent} = {unknown[0] if unknown else 'nothing'!r}, which it never is",
                cause="a misspelt value",
                remedy=f"choose among {', '.join(map(str, axis.values))}",
            )


def is_same_value(value: Value, other: Value) -> bool:
    """Return whether two names of values are the same, of one type too: 1 is not True, and 0.0 not −0.0."""
    return type(value) is type(other) and (
        value == other if type(value) is not float else repr(value) == repr(other)
    )


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
