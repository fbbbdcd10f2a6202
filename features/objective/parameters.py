"""The hyperparameters whose model is scored, and their one canonical text, by which the same are scored once."""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.search.search_space import Axis, Categorical, Integer, SearchSpace

Scalar = bool | int | float | str | None
Parameters = Mapping[str, Scalar]
MAX_TEXT_LENGTH = 4096  # characters of hyperparameters, which the ledger keeps


def parameters_of(values: Any) -> dict[str, Scalar]:
    """Return the hyperparameters in a mapping; refused unless names have numbers, texts, truth values or None."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise StudyInvalid(
            f"the hyperparameters are a {type(values).__name__}", remedy='ask with a dict, {"C": 1.0} say'
        )
    parameters = {str(name): _checked_scalar(str(name), value) for name, value in values.items()}
    if len(canonical_text(parameters)) > MAX_TEXT_LENGTH:
        raise StudyInvalid(
            f"the hyperparameters have more than {MAX_TEXT_LENGTH:,} characters",
            remedy="ask with fewer or shorter values",
        )
    return parameters


def canonical_text(parameters: Parameters) -> str:
    """Return hyperparameters as text that is the same for equal ones: names sorted, and 1 distinct from 1.0."""
    return json.dumps(parameters, sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def read_parameters(text: str) -> dict[str, Scalar]:
    """Return the hyperparameters that `canonical_text` wrote as this text."""
    parameters: dict[str, Scalar] = json.loads(text)
    return parameters


def _checked_scalar(name: str, value: Any) -> Scalar:
    """Return a hyperparameter's value as a plain Python one; refused unless number, text, truth value or None."""
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) in (bool, int, str, type(None)) or (type(value) is float and math.isfinite(value)):
        return value  # type: ignore[no-any-return]
    raise StudyInvalid(
        f"the hyperparameter {name[:60]!r} is a {type(value).__name__}"
        + (" that is not finite" if isinstance(value, float) else ""),
        cause="hyperparameters are numbers, texts, truth values and None, so that what it asks is public",
        remedy="give such a value; fixed objects belong into the estimator",
    )


def check_in_space(parameters: Parameters, space: SearchSpace) -> None:
    """Refuse unknown, missing or out-of-range hyperparameters of the declared space, if it has axes."""
    if not space.axes:
        return
    for name, value in parameters.items():
        if name not in space.axes:
            raise StudyInvalid(
                f"[space] has no axis {name!r}{suggestion(name, tuple(space.axes))}",
                remedy=f"ask about {', '.join(space.axes)}",
            )
        if not _on_axis(value, space.axes[name]):
            raise StudyInvalid(
                f"{name} = {value!r} is not in [space]", remedy="ask within its ends, or about one of its values"
            )
    missing = [name for name in space.axes if name not in parameters and name not in space.conditions]
    if missing:
        raise StudyInvalid(f"{missing[0]} is missing", cause="[space] declares it", remedy="give it a value")


def _on_axis(value: Scalar, axis: Axis) -> bool:
    if isinstance(axis, Categorical):
        return axis.has(value)
    kinds = (int,) if isinstance(axis, Integer) else (int, float)
    return type(value) in kinds and axis.low <= value <= axis.high  # type: ignore[operator]
