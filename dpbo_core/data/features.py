"""What one column of the training table becomes: a standardised number, or one 0/1 feature a category.

| symbol | name here | meaning | shape |
|---|---|---|---|
| μ, σ | `mean`, `deviation` | of the training column; σ (divisor n) is 0 for a constant one | scalar |
| r | | records handled at once | scalar |
| | `fill(column, out, broken)` | raw features, feature by feature | out (width, r) |
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.table import Table
from dpbo_core.data.values import Column, Value, is_text, numbers, positions, shown, sorted_values
from dpbo_core.errors import StudyInvalid

CATEGORIES_AT_MOST = 50


@dataclass(frozen=True)
class Number:
    """A numeric column; the feature is (x − mean)/deviation, or 0 where the training column is constant."""

    name: str
    mean: float
    deviation: float

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The column's name."""
        return (self.name,)

    @property
    def center_and_scale(self) -> tuple[float, float]:
        """What to subtract from and to divide by the values that `fill` writes."""
        return (self.mean, self.deviation) if self.deviation > 0 else (0.0, 1.0)

    def fill(self, column: Column, out: NDArray[np.float64], broken: NDArray[np.bool_]) -> None:
        """Writes the finite values to the zeros of `out` (1, r); a record without one is broken (r,)."""
        values = numbers(column)
        finite = np.isfinite(values)
        broken |= ~finite
        if self.deviation > 0:
            np.copyto(out[0], values, where=finite)


@dataclass(frozen=True)
class Category:
    """A column that holds texts; one feature a training category, all of them 0 for a category never seen."""

    name: str
    values: tuple[Value, ...]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """One name a category, as `colour=red`."""
        return tuple(f"{self.name}={shown(value)}" for value in self.values)

    @property
    def center_and_scale(self) -> tuple[float, float]:
        """0 and 1: indicators are not standardised."""
        return (0.0, 1.0)

    def fill(self, column: Column, out: NDArray[np.float64], broken: NDArray[np.bool_]) -> None:  # noqa: ARG002
        """Writes a 1 into the zeros of `out` (width, r) where the category is known; nothing breaks a record."""
        at = positions(column, self.values)
        known = np.flatnonzero(at >= 0)
        out[at[known], known] = 1.0


Feature = Number | Category


def fit_feature(name: str, table: Table, *, standardize: bool) -> Feature:
    """The feature of column `name` of the PUBLIC `table`.

    Raises:
        StudyInvalid: a value is missing or infinite, or a text column has more than 50 categories.
    """
    column = table.columns[name]
    _refuse_missing(name, table)
    if not is_text(column):
        return Number(name, *(_moments(numbers(column)) if standardize else (0.0, 1.0)))
    values = sorted_values(column)
    if len(values) > CATEGORIES_AT_MOST:
        record = next(i for i, value in enumerate(column) if isinstance(value, str))
        raise StudyInvalid(
            f"column {name!r} of {table.source} has {len(values)} different values and is not numeric "
            f"(the first text is {column[record][:30]!r}, {table.place(record)})",
            cause="a name, a date or an identifier, or a word in a column of numbers",
            remedy=f"drop the column from both files, or make it numeric; at most {CATEGORIES_AT_MOST} categories",
        )
    return Category(name, values)


def class_values(target: str, table: Table) -> tuple[Value, ...]:
    """The training classes, sorted: numbers before texts.

    Raises:
        StudyInvalid: a label is missing or infinite, or all are the same.
    """
    _refuse_missing(target, table)
    classes = sorted_values(table.columns[target])
    if len(classes) < 2:
        raise StudyInvalid(
            f"the target {target!r} of {table.source} has one class, {shown(classes[0])!r}",
            cause="the training file was filtered, or another column was meant",
            remedy="give a training file with at least two classes",
        )
    return classes


def _refuse_missing(name: str, table: Table) -> None:
    column = table.columns[name]
    values = numbers(column)
    usable = np.isfinite(values)
    if column.dtype == object:
        usable |= np.array([isinstance(value, str) for value in column], dtype=np.bool_)
    if usable.all():
        return
    record = int(np.argmin(usable))
    what = "an infinite value" if math.isinf(values[record]) else "no value"
    raise StudyInvalid(
        f"column {name!r} of {table.source} has {what} at {table.place(record)} "
        f"({int((~usable).sum())} such records)",
        cause="the training table has gaps, and missing values are not imputed",
        remedy="fill the gaps, or drop the column from both files or the records from the training file",
    )


def _moments(values: NDArray[np.float64]) -> tuple[float, float]:
    if values.min() == values.max():
        return float(values[0]), 0.0
    # A power of two as the unit changes no digit, and neither sums nor squares can overflow.
    unit = int(np.frexp(np.abs(values).max())[1])
    scaled = np.ldexp(values, -unit)
    mean = scaled.mean()
    deviation = np.sqrt(np.mean((scaled - mean) ** 2))
    return float(np.ldexp(mean, unit)), float(np.ldexp(deviation, unit))
