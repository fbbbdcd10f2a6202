"""A search space as a dict: axes as other searches write them, and as a study has them."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dpbo_core.errors import StudyInvalid
from dpbo_core.space.search_space import Axis, Categorical, Integer, Real
from dpbo_core.study_file import AxisSection

PLAIN = (str, int, float, bool)
REMEDY = "use Real(low, high), Integer(low, high) or Categorical(values) from dpbo_core"


def axes_of(space: Mapping[str, Any]) -> dict[str, Any]:
    """The `Axis` under each name of a user's search space; (axis, {parent: values}) where it is conditional."""
    return {
        name: (axis_of(name, item[0]), item[1]) if conditional(item) else axis_of(name, item)
        for name, item in space.items()
    }


def conditional(item: Any) -> bool:
    """Whether an item of a search space is a conditional axis: (axis, {parent: values})."""
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Mapping)


def axis_of(name: str, axis: Any) -> Axis:
    """A user's axis as an `Axis`: ours, a list or array, or an even scipy distribution's range; refused if another.

    scipy's `uniform` is a `Real` of the same ends, `loguniform` one with log = True, `randint` an `Integer` without
    its upper end, as scipy has it. What is searched is the range: points are spread evenly over it, none is drawn.

    Raises:
        StudyInvalid: it stands for none: a distribution that is not even, say, or an axis of another library.
    """
    if isinstance(axis, Real | Integer | Categorical):
        return axis
    if isinstance(axis, np.ndarray) and axis.ndim == 1:
        axis = axis.tolist()
    if isinstance(axis, list | tuple):
        return Categorical([value.item() if isinstance(value, np.generic) else value for value in axis])
    family, support = getattr(getattr(axis, "dist", None), "name", None), getattr(axis, "support", None)
    if not isinstance(family, str) or not callable(support):
        raise StudyInvalid(
            f"axis {name!r} of the search space is a {type(axis).__name__}",
            cause="an axis of another library",
            remedy=f"{REMEDY}, a list of values, or scipy's uniform, loguniform or randint",
        )
    low, high = map(float, support())
    if family == "randint":
        return Integer(low, high)
    if family not in ("uniform", "loguniform", "reciprocal") or not math.isfinite(high - low):
        raise StudyInvalid(
            f"axis {name!r} of the search space is scipy's {family}",
            cause="a search spreads its points evenly over a range with two ends; this distribution weights",
            remedy=REMEDY,
        )
    return Real(low, high, log=family != "uniform")


def sections_of(space: Mapping[str, Any]) -> tuple[dict[str, AxisSection], dict[str, dict[Any, Any]]]:
    """The axes as a study's [space]; and, by axis and repr, the values of axes that a study file holds by repr.

    Args:
        space: name → `Real`, `Integer` or `Categorical`, what `axis_of` takes for one, or (axis, {parent: values})
            for a conditional one.

    Raises:
        StudyInvalid: it is no such dict.
    """
    sections: dict[str, AxisSection] = {}
    decode: dict[str, dict[Any, Any]] = {}
    if not isinstance(space, Mapping):
        raise StudyInvalid("the search space is not a dict", remedy='write {"C": Real(1e-3, 1e3, log=True)}')
    for name, item in space.items():
        axis, when = item if conditional(item) else (item, None)
        sections[name], names = _section(axis_of(name, axis))
        if names:
            decode[name] = names
        if when is not None:
            sections[name] = replace(sections[name], when=_encoded(when, decode))
    return sections, decode


def _section(axis: Axis) -> tuple[AxisSection, dict[Any, Any]]:
    """An axis as a study's [space]; and every value by its repr, where one is no text, number or truth value."""
    match axis:
        case Real() | Integer():
            integer = isinstance(axis, Integer)
            return AxisSection(low=float(axis.low), high=float(axis.high), log=axis.log, integer=integer), {}
        case Categorical():
            if all(type(value) in PLAIN for value in axis.values):
                return AxisSection(values=axis.values), {}
            names = {repr(value): value for value in axis.values}
            return AxisSection(values=tuple(names)), names


def _encoded(when: Mapping[str, Any], decode: Mapping[str, Mapping[Any, Any]]) -> dict[str, Any]:
    """A condition {parent: values} as a study file has it: values of a parent named in `decode` by their repr."""

    def named(parent: str, value: Any) -> Any:
        """The value as a study file names it: by its repr where `decode` has the parent, else itself."""
        return repr(value) if parent in decode else value

    return {
        parent: tuple(named(parent, value) for value in values)
        if isinstance(values, list | tuple)
        else named(parent, values)
        for parent, values in when.items()
    }
