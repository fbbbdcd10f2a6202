"""A table's own columns, by name and with public types: what a Pipeline with a ColumnTransformer is given.

| symbol | name here | meaning | shape |
|---|---|---|---|
| d | — | columns but the target | scalar |
| — | `NamedColumn.cell` | a raw cell (`raw_cells`) as it is held; `UNCONVERTIBLE` where it cannot be | scalar |
| X | `data_frame(columns, rows)` | objects (r, d) of such cells as a pandas.DataFrame | (r, d) |

A column is a number (float64, gaps are NaN), a truth value (bool; a number if the training table has gaps), a time,
a text, or one of the training table's categories. The PUBLIC table alone decides which. Each value is converted by
itself, so that no record changes how another one is read.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.raw_cells import FIELD_LIMIT, UNREADABLE_CELL, Cells, as_cells, micros, time_of_text
from dpbo_core.data.table import Table
from dpbo_core.data.values import canonical_text, shown
from dpbo_core.errors import StudyInvalid

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["number", "truth", "time", "text", "category"]
UNCONVERTIBLE = None  # no column holds it: gaps are NaN
MAX_GROUPS = 50  # texts of a training column that are kept as its groups
GAP_VALUE = float("nan")
MAX_MICROSECONDS = 9_223_372_036_854_775  # that can be told in nanoseconds
EXTREME_VALUES: Mapping[Kind, tuple[object, ...]] = {  # what no public table holds
    "number": (1e20, -1e8, GAP_VALUE, 1e-30),
    "truth": (),
    "time": (8_000_000_000_000_000, GAP_VALUE, -8_000_000_000_000_000),
    "text": ("\u2200x " * 64, "", GAP_VALUE, "9" * 400),
    "category": (GAP_VALUE,),
}
MAX_FLOAT32 = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class NamedColumn:
    """One column, and what it holds."""

    name: str
    kind: Kind
    dtype: str  # the name of its type in pandas
    values: tuple[float | str, ...] = ()  # of a category all, in order; of a text the training table's, if few
    ordered: bool = False  # of a category
    stand_in: float | None = None  # of a number or a time the training table's median, for examples

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The column's own name, as the name of the one feature it makes."""
        return (self.name,)

    def cell(self, raw: object) -> object:
        """Return a raw cell converted to this column's type, or `UNCONVERTIBLE`.

        A gap becomes NaN, but in a column of truth values, which has no NaN, `UNCONVERTIBLE`.
        """
        if raw is None:
            return UNCONVERTIBLE if self.kind == "truth" else GAP_VALUE
        if self.kind == "number":
            return _number_cell(raw)
        if self.kind == "truth":
            number = _number_cell(raw)
            return bool(number) if number in (0.0, 1.0) else UNCONVERTIBLE
        if self.kind == "time":
            return self._time_cell(raw)
        if self.kind == "text":
            return _text_cell(raw)
        meant = canonical_text(raw)
        return (
            meant if any(type(meant) is type(value) and meant == value for value in self.values) else UNCONVERTIBLE
        )

    def _time_cell(self, raw: object) -> object:
        """Return a time, or its text, as microseconds since 1970; `UNCONVERTIBLE` where it does not fit."""
        moment = time_of_text(raw) if type(raw) is str else raw
        if type(moment) is not (dt.datetime if "," in self.dtype else np.datetime64):
            return UNCONVERTIBLE
        at = micros(moment)
        if at is None or ("[ns" in self.dtype and abs(at) > MAX_MICROSECONDS):
            return UNCONVERTIBLE
        return at

    def held(self, cells: NDArray[Any]) -> Any:
        """Return converted values (r,) as a data frame's column: an array, or a series if the type is pandas'."""
        import pandas as pd

        if self.kind == "number":
            return cells.astype(np.float64)
        if self.kind == "truth":
            return cells.astype(bool)
        if self.kind == "text":
            return pd.Series(cells, dtype=self.dtype)
        if self.kind == "category":
            return pd.Series(pd.Categorical(cells, categories=list(self.values), ordered=self.ordered))
        at = np.array([np.iinfo(np.int64).min if cell != cell else cell for cell in cells], dtype=np.int64)
        series = pd.Series(at.view("M8[us]"))
        if "," not in self.dtype:
            return series.astype(self.dtype)  # type: ignore[call-overload]
        return series.dt.tz_localize("UTC").astype(self.dtype)  # type: ignore[call-overload]


def _number_cell(raw: object) -> object:
    number = canonical_text(raw)
    # trees and neighbours compute in single precision
    return UNCONVERTIBLE if not isinstance(number, float) or abs(number) > MAX_FLOAT32 else number


def _text_cell(raw: object) -> object:
    """Return a value as a text; `UNCONVERTIBLE` where it has none that can be encoded."""
    if isinstance(raw, bool):
        return str(raw)
    if isinstance(raw, float):
        return UNCONVERTIBLE if raw == UNREADABLE_CELL else shown(raw) if np.isfinite(raw) else UNCONVERTIBLE
    if not isinstance(raw, str) or len(raw) > FIELD_LIMIT:
        return UNCONVERTIBLE
    try:
        raw.encode()
    except UnicodeEncodeError:  # half a character
        return UNCONVERTIBLE
    return raw


def data_frame(columns: tuple[NamedColumn, ...], rows: NDArray[Any]) -> "pd.DataFrame":
    """Return rows (r, d) of converted values as a data frame; each of its rows depends on that row alone."""
    import pandas as pd

    return pd.DataFrame({column.name: column.held(rows[:, j]) for j, column in enumerate(columns)})


@dataclass(frozen=True)
class FrameEstimator:
    """A fitted estimator that takes a table's own columns, asked with rows of their cells."""

    estimator: Any
    columns: tuple[NamedColumn, ...]

    def __getattr__(self, verb: str) -> Any:
        """Return the estimator's method `verb` for rows (r, d), which are made into a data frame."""
        if verb not in ("predict", "predict_proba", "decision_function"):
            raise AttributeError(verb)
        return lambda rows: getattr(self.estimator, verb)(data_frame(self.columns, rows))


def extreme_cells(columns: tuple[NamedColumn, ...], rows: NDArray[Any]) -> list[NDArray[Any]]:
    """Return copies of PUBLIC `rows` (k, d) in which one cell of each row, or every cell, is extreme or missing."""
    tables = []
    for turn in range(4):
        far = rows.copy()
        for i in range(len(rows)):
            j = i % len(columns)
            values = EXTREME_VALUES[columns[j].kind]
            if values:
                far[i, j] = values[turn % len(values)]
        tables.append(far)
    if any(EXTREME_VALUES[column.kind] for column in columns):
        whole = rows.copy()
        for j, column in enumerate(columns):
            if EXTREME_VALUES[column.kind]:
                whole[:, j] = EXTREME_VALUES[column.kind][0]
        tables.append(whole)
    return tables


def fit_columns(table: Table, target: str, hints: Mapping[str, Any] | None = None) -> tuple[NamedColumn, ...]:
    """Return each PUBLIC column's type but the target's, refused if a value fits none; `hints` are pandas types."""
    hints = hints or {}
    names = [name for name in table.columns if name != target]
    return tuple(_fit_column(name, table, hints.get(name)) for name in names)


def _fit_column(name: str, table: Table, hint: Any) -> NamedColumn:
    """Return the type of column `name` in the PUBLIC `table`; refused if a value does not fit it."""
    cells = table.cells_of(name)
    made = column_type(name, parse_csv_texts(cells) if table.csv else cells, hint)
    held = [made.cell(cell) for cell in cells]
    refuse_unreadable(made, held, table)
    numbers = [cell for cell in held if isinstance(cell, int | float) and cell == cell]
    values = made.values
    if made.kind == "text":
        distinct = sorted({cell for cell in held if isinstance(cell, str)})
        values = tuple(distinct) if len(distinct) <= MAX_GROUPS else ()
    middle = float(np.median(numbers)) if numbers else None
    return NamedColumn(name, made.kind, made.dtype, values, made.ordered, middle)


def refuse_unreadable(column: NamedColumn, held: Iterable[object], table: Table) -> None:
    """Refuse a PUBLIC table, or one to predict, if a converted value in `held` is `UNCONVERTIBLE`; says where."""
    record = next((i for i, cell in enumerate(held) if cell is UNCONVERTIBLE), None)
    if record is not None:
        at = f"{table.source} holds at {table.place(record)}"
        raise StudyInvalid(
            f"column {column.name!r} of {at} what a {column.kind} cannot be",
            cause="an infinite or very large number, a time that is not in ISO 8601 or beyond its type, or a list",
            remedy="correct the value, or leave the column out",
        )


def parse_csv_texts(cells: Cells) -> Cells:
    """Return values (n,) of a CSV file with texts parsed to numbers, truth values and times.

    If every value would be an infinite number, the texts are kept: the column is one of words such as "inf".
    """
    parsed = as_cells(None if cell is None else _parsed_text(cell) for cell in cells)
    infinite = {type(cell) is float and np.isinf(cell) for cell in parsed if cell is not None}
    return cells if infinite == {True} else parsed


def column_type(name: str, cells: Cells, hint: Any = None) -> NamedColumn:
    """Return the type of the column that PUBLIC values (n,) make; `hint` is their pandas type."""
    import pandas as pd

    text = str(pd.Series(["a"]).dtype)
    if isinstance(hint, pd.CategoricalDtype):
        # Only categories in the public rows: a divided frame's type still has those of the sensitive rows.
        held = {canonical_text(cell) for cell in cells if cell is not None}
        values = tuple(value for value in map(canonical_text, hint.categories.tolist()) if value in held)
        if len(set(values)) == len(values) and all(value == value for value in values):
            return NamedColumn(name, "category", "category", values, bool(hint.ordered))
    there = [cell for cell in cells if cell is not None]
    gaps = len(there) < len(cells)
    kinds = {type(cell) for cell in there}
    if kinds == {bool} and not gaps:
        return NamedColumn(name, "truth", "bool")
    if kinds <= {bool, float}:
        return NamedColumn(name, "number", "float64")
    if kinds == {np.datetime64} or kinds == {dt.datetime}:
        zone = kinds == {dt.datetime}
        hinted = str(hint) if str(hint).startswith("datetime64[") and ("," in str(hint)) == zone else ""
        return NamedColumn(name, "time", hinted or ("datetime64[us, UTC]" if zone else "datetime64[us]"))
    return NamedColumn(name, "text", str(hint) if str(hint) in ("object", "str", "string") else text)


def _parsed_text(cell: object) -> object:
    """Return a CSV text as the truth value, time (ISO 8601) or float that it reads as, else stripped."""
    if not isinstance(cell, str):
        return cell
    if cell.lower() in ("true", "false"):
        return cell.lower() == "true"
    time = time_of_text(cell)
    return canonical_text(cell) if time is None else time
