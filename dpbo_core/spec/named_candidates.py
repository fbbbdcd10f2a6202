"""The candidates that the [space] and the [search] of a study describe, as an object: Λ, finite and public."""

from dpbo_core.space.candidates import CandidateSet, grid, sobol
from dpbo_core.space.search_space import Axis, Categorical, Integer, Real, SearchSpace
from dpbo_core.spec.sections import AxisSection
from dpbo_core.spec.study import StudySpec

DEFAULT_POINTS = {1: 64, 2: 16, 3: 8}  # a numeric axis, by how many numeric axes there are


def candidates_of(spec: StudySpec) -> CandidateSet:
    """Λ: a grid over the axes, or points that are spread over them evenly."""
    conditions = {name: axis.condition for name, axis in spec.space.items() if axis.condition is not None}
    space = SearchSpace({name: _axis(axis) for name, axis in spec.space.items()}, conditions)
    if spec.search.candidates == "sobol":
        return sobol(space, spec.search.n_candidates, seed=spec.search.seed)
    numeric = sum(axis.values is None for axis in spec.space.values())
    default = DEFAULT_POINTS.get(numeric, 4)
    points = {name: default if axis.points is None else axis.points for name, axis in spec.space.items()}
    return grid(space, points)


def _axis(section: AxisSection) -> Axis:
    if section.ends is None:
        return Categorical(section.values or ())
    low, high = section.ends
    return Integer(low, high, log=section.log) if section.integer else Real(low, high, log=section.log)
