"""The fields of `model.json`, each checked for type and range: its file may come from somebody else.

Whatever is not as `storage.write` writes it is a ValueError or TypeError here, before anything is charged. A field
that passed can raise nothing on a record, and cannot make the column of one record depend on another's.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.features import Category, Feature, Number
from dpbo_core.data.named_columns import Kind, NamedColumn
from dpbo_core.data.preprocessing import Preprocessing
from dpbo_core.data.raw_cells import as_cells
from dpbo_core.privacy.amounts import list_of, text_of

T = TypeVar("T")
VERBS = ("predict", "predict_proba", "decision_function")
PANDAS_TYPES: Mapping[Kind, re.Pattern[str]] = {  # of pandas, by what a column holds
    "number": re.compile("float64"),
    "truth": re.compile("bool"),
    "category": re.compile("category"),
    "text": re.compile("object|str|string"),
    "time": re.compile(r"datetime64\[(s|ms|us|ns)(, [A-Za-z0-9_/+:-]+)?\]"),
}


def preprocessing_of(document: Mapping[str, Any]) -> Preprocessing:
    """Return the preprocessing in its fields of `model.json`."""
    document = {"csv": False, **document}  # which older models do not say
    fields = _exactly(document, "target", "classes", "features", "unit_ball", "bias", "radius", "ignored", "csv")
    features = tuple(_feature(feature) for feature in list_of(fields["features"]))
    names, target = [feature.name for feature in features], _text(fields["target"])
    classes = _in_order(fields["classes"])
    bias, radius = _number(fields["bias"]), _number(fields["radius"])
    _require(
        len({*names, target}) == len(names) + 1 > 1
        and len(classes) != 1
        and len({isinstance(feature, NamedColumn) for feature in features}) == 1
        and 0.0 <= bias < 1.0
        and radius > 0.0
    )
    ignored = frozenset(_text(name) for name in list_of(fields["ignored"]))
    unit_ball, csv = _truth(fields["unit_ball"]), _truth(fields["csv"])
    return Preprocessing(target, classes, features, unit_ball, bias, radius, ignored, csv)


def linear_of(document: Mapping[str, Any], length: int) -> tuple[NDArray[np.float64], float, float, str | None]:
    """Return a linear model's weights (`length`,), its λ, its certificate and its loss."""
    fields = _exactly(document, "weights", "lambda", "certificate", "loss")
    weights = row_of(fields["weights"], length)
    _require(bool(np.isfinite(weights).all()))
    return weights, _number(fields["lambda"]), _number(fields["certificate"]), _optional(fields["loss"], _text)


def terms_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the terms of a `Repaired` model."""
    fields = _exactly(document, "verb", "slope", "intercept", "threshold", "logistic")
    numbers = {name: _number(fields[name]) for name in ("slope", "intercept", "threshold")}
    return {"verb": VERBS[VERBS.index(fields["verb"])], **numbers, "logistic": _truth(fields["logistic"])}


def row_of(cells: object, length: int) -> NDArray[np.float64]:
    """Return a public row of numbers, (`length`,), null as NaN."""
    row = np.array([math.nan if cell is None else _number(cell) for cell in list_of(cells)], dtype=np.float64)
    _require(row.shape == (length,))
    return row


def cells_of(cells: object, columns: Sequence[NamedColumn]) -> NDArray[Any]:
    """Return a public row of raw cells of these columns, null as NaN."""
    row = list_of(cells)
    _require(len(row) == len(columns) and all(isinstance(cell, str | int | float | None) for cell in row))
    return as_cells(math.nan if cell is None else cell for cell in row)


def _feature(document: Mapping[str, Any]) -> Feature | NamedColumn:
    if "kind" in document:
        return _named_column(document)
    if "values" in document:
        fields = _exactly(document, "name", "values")
        return Category(_text(fields["name"]), _in_order(fields["values"]))
    fields = _exactly(document, "name", "mean", "deviation", "stand_in", "truth")
    deviation = _number(fields["deviation"])
    _require(deviation >= 0.0)
    stand_in = _optional(fields["stand_in"], _number)
    return Number(_text(fields["name"]), _number(fields["mean"]), deviation, stand_in, _truth(fields["truth"]))


def _named_column(document: Mapping[str, Any]) -> NamedColumn:
    """Return the named column that these fields describe, whose type can be no other than its kind has."""
    import pandas as pd

    fields = _exactly(document, "name", "kind", "dtype", "values", "ordered", "stand_in")
    kind, dtype = fields["kind"], _text(fields["dtype"])
    _require(kind in get_args(Kind) and PANDAS_TYPES[kind].fullmatch(dtype) is not None)
    pd.Series([], dtype=dtype)  # whose time zone may be none
    return NamedColumn(
        _text(fields["name"]),
        kind,
        dtype,
        _distinct(fields["values"]),
        _truth(fields["ordered"]),
        _optional(fields["stand_in"], _number),
    )


def _exactly(document: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    """Return a JSON object that has exactly these fields."""
    _require(isinstance(document, dict) and document.keys() == {*names})
    return document


def _distinct(values: object) -> tuple[float | str, ...]:
    """Return an array of numbers and texts, no two of which are equal."""
    members = tuple(_text(value) if isinstance(value, str) else _number(value) for value in list_of(values))
    _require(len({*members}) == len(members))
    return members


def _in_order(values: object) -> tuple[float | str, ...]:
    """Return an array of distinct numbers in ascending order, then of texts in theirs, as a table's values have."""
    members = _distinct(values)
    _require(members == tuple(sorted(members, key=lambda value: (isinstance(value, str), value))))
    return members


def _number(value: object) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError
    return float(value)  # type: ignore[arg-type]


def _text(value: object) -> str:
    text_of(value).encode()  # what UTF-8 cannot encode raises
    return text_of(value)


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _optional(value: object, read: Callable[[object], T]) -> T | None:
    return None if value is None else read(value)


def _require(condition: bool) -> None:  # noqa: FBT001  it is what is asked
    if not condition:
        raise ValueError
