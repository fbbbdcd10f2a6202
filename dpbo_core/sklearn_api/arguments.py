"""Conversion of a Python call's arguments: numbers to Python's own types, a search space to a study's [space]."""

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from dpbo_core.data.content import content_key, shown
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.privacy.sensitive import without_frames
from dpbo_core.search.search_space import Axis, Categorical, Integer, Real
from dpbo_core.study import AxisSection
from dpbo_core.study.section import no_number

P = ParamSpec("P")
T = TypeVar("T")
AXIS_REMEDY = "use Real(low, high), Integer(low, high) or Categorical(values) from dpbo_core"


PYTHON_WORDS = {  # what messages about a study file say, and what they say to a caller of Python
    "[model] or the ends of [space]": "the estimator or the search space",
    "[space] or [model]": "the search space",
    " to [study]": "",
    "model.score_bounds": "score_bounds",
    "model.score_low": "score_bounds",
    "model.score_high": "score_bounds",
    "model.score": "scoring",
    "objective.scores": "n_scores",
    "search.steps": "n_steps",
    "search.seed": "random_state",
    "study.name": "study",
}
SECTIONS_PATTERN = re.compile(
    r"\b(?:privacy|model|objective|search|study|data)\.(epsilon|delta|dataset|person|max_records_per_person|n_persons"
    r"|estimator|error_bound|class_shares|rowwise|choice_share|n_candidates|edition|method)\b"
)


def python_door(door: Callable[P, T]) -> Callable[P, T]:
    """Return a method wrapped as by `without_frames`, whose errors name its arguments and not a study file's keys.

    An object whose `uses_arguments` is False was made from a study file, whose keys then stay.
    """

    @wraps(door)
    def call(*args: P.args, **named: P.kwargs) -> T:
        try:
            return door(*args, **named)
        except DpboError as error:
            if getattr(args[0], "uses_arguments", True):
                error.what, error.cause, error.remedy = map(
                    in_python_words, (error.what, error.cause, error.remedy)
                )
                error.args = (error.message(),)
            raise

    return without_frames(call)


def in_python_words(text: str) -> str:
    """Return the text of a message with the arguments of a Python call instead of a study file's keys."""
    for ours, theirs in PYTHON_WORDS.items():
        text = text.replace(ours, theirs)
    return SECTIONS_PATTERN.sub(r"\1", text)


def number_of(key: str, value: Any) -> float:
    """Return the argument `key` of a Python call as a float; raises if it is not one, or too large for one."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise no_number(key)


def whole_number_of(key: str, value: Any) -> int:
    """Return the argument `key` of a Python call as an integer; raises if it is none, or above a double's range."""
    with suppress(TypeError, ValueError, ArithmeticError):
        if abs(float(value)) < math.inf and int(value) == value:
            return int(value)
    raise no_number(key)


def number_or_none(key: str, value: Any) -> float | None:
    """As `number_of`; None if the argument `key` is left out."""
    return None if value is None else number_of(key, value)


def axes_of(space: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `Axis` under each name of a user's search space; (axis, {parent: values}) if it is conditional."""
    return {
        name: (axis_of(name, item[0]), item[1]) if conditional(item) else axis_of(name, item)
        for name, item in space.items()
    }


def conditional(item: Any) -> bool:
    """Return whether an item of a search space is a conditional axis: (axis, {parent: values})."""
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Mapping)


def axis_of(name: str, axis: Any) -> Axis:
    """Return a user's axis as an `Axis`; refused unless it is one, a list, an array or a flat scipy distribution.

    scipy's `uniform` becomes a `Real` with the same ends, and `loguniform` one with log = True. `randint` becomes
    an `Integer` without the upper end, which scipy excludes too. Only the distribution's range is used: candidates
    are spread evenly over it, so that a distribution that prefers some values would be misread.
    """
    if isinstance(axis, Real | Integer | Categorical):
        return axis
    if isinstance(axis, np.ndarray) and axis.ndim == 1:
        axis = axis.tolist()
    if isinstance(axis, list | tuple):
        return Categorical(axis)
    family, support = getattr(getattr(axis, "dist", None), "name", None), getattr(axis, "support", None)
    if not isinstance(family, str) or not callable(support):
        raise StudyInvalid(
            f"axis {name!r} of the search space is a {type(axis).__name__}",
            cause="an axis of another library",
            remedy=f"{AXIS_REMEDY}, a list of values, or scipy's uniform, loguniform or randint",
        )
    low, high = map(float, support())
    if family == "randint":
        return Integer(low, high)
    if family not in ("uniform", "loguniform", "reciprocal") or not math.isfinite(high - low):
        raise StudyInvalid(
            f"axis {name!r} of the search space is scipy's {family}",
            cause="a search spreads its points evenly over a range with two ends; this distribution weights",
            remedy=AXIS_REMEDY,
        )
    return Real(low, high, log=family != "uniform")


def sections_of(space: Mapping[str, Any]) -> tuple[dict[str, AxisSection], dict[str, dict[str, Any]]]:
    """Return the axes as a study's [space], and the values that are not plain data, by axis and name.

    A study holds texts, numbers and truth values alone. Any other value (a list, an estimator) stands in it as a
    text, its name, and the second mapping gives the value of each name.
    """
    sections: dict[str, AxisSection] = {}
    decode: dict[str, dict[str, Any]] = {}
    axes: dict[str, Axis] = {}
    if not isinstance(space, Mapping):
        raise StudyInvalid("the search space is not a dict", remedy='write {"C": Real(1e-3, 1e3, log=True)}')
    for name, item in space.items():
        axis, when = item if conditional(item) else (item, None)
        axes[name] = axis_of(name, axis)
        sections[name], names = _section(name, axes[name])
        if names:
            decode[name] = names
        if when is not None:
            sections[name] = sections[name].replace(when={key: _names(axes, key, of) for key, of in when.items()})
    return sections, decode


def _section(name: str, axis: Axis) -> tuple[AxisSection, dict[str, Any]]:
    if not isinstance(axis, Categorical):
        integer = isinstance(axis, Integer)
        return AxisSection(low=float(axis.low), high=float(axis.high), log=axis.log, integer=integer), {}
    for value in axis.values:
        try:
            content_key(value)
        except StudyInvalid as error:
            what = f"the axis {name!r} has the value {shown(value)}, and {error.what}"
            raise StudyInvalid(what, cause=error.cause, remedy=error.remedy) from None
    return AxisSection(values=axis.names), dict(axis.meant)


def _names(axes: Mapping[str, Axis], parent: str, values: Any) -> Any:
    """Return the value or values of the axis `parent` at which another axis exists, by their names in a study."""
    axis = axes.get(parent)
    if not isinstance(axis, Categorical):
        return values
    if isinstance(values, list | tuple) and not axis.has(values):  # else the list is itself one value of the axis
        return tuple(map(axis.name_of, values))
    return axis.name_of(values)
