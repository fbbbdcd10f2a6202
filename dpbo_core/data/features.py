"""The features that one column of the training table becomes: a standardised number, or one 0/1 feature a category.

| symbol | name here | meaning | shape |
|---|---|---|---|
| μ, σ | `mean`, `deviation` | of the training column; σ (divisor n) is 0 for a constant one | scalar |
| r | | records handled at once | scalar |
| | `fill(column, out, broken)` | raw features, feature by feature | out (width, r) |
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.number_forms import detect_form
from dpbo_core.data.table import Table
from dpbo_core.data.values import Column, Value, canonical_text, is_text, numbers, positions, shown, sorted_values
from dpbo_core.errors import StudyInvalid

MAX_CATEGORIES = 50


@dataclass(frozen=True)
class Number:
    """A numeric column; the feature is (x − mean)/deviation, or 0 if the training column is constant.

    Attributes:
        name: the column's.
        mean: μ.
        deviation: σ.
        stand_in: replaces a value that is no finite number; None if the record then cannot be used ("broken").
        truth: whether the training table has only true and false in this column.
    """

    name: str
    mean: float
    deviation: float
    stand_in: float | None = None
    truth: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of the one column that this feature makes."""
        return (self.name,)

    @property
    def center_and_scale(self) -> tuple[float, float]:
        """The center to subtract and the scale to divide by; (0, 1) where the training column is constant."""
        return (self.mean, self.deviation) if self.deviation > 0 else (0.0, 1.0)

    def fill(self, column: Column, out: NDArray[np.float64], broken: NDArray[np.bool_]) -> None:
        """Write a column's raw numbers to `out` (1, r); a gap takes the stand-in, or is marked in `broken` (r,)."""
        values = numbers(column)
        if self.stand_in is not None:
            values = np.where(np.isfinite(values), values, self.stand_in)
        broken |= ~np.isfinite(values)
        out[0] = values if self.deviation > 0 else 0.0


@dataclass(frozen=True)
class Category:
    """A column that holds texts; one feature a training category, all of them 0 for a category never seen."""

    name: str
    values: tuple[Value, ...]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the one-hot columns that this feature makes, as `colour=red`."""
        return tuple(f"{self.name}={shown(value)}" for value in self.values)

    @property
    def center_and_scale(self) -> tuple[float, float]:
        """Center 0 and scale 1: indicators are not standardised."""
        return (0.0, 1.0)

    def fill(self, column: Column, out: NDArray[np.float64], broken: NDArray[np.bool_]) -> None:  # noqa: ARG002
        """Write one-hot indicators of a column to `out` (width, r): all 0 for an unknown category, none broken."""
        out[:] = 0.0
        at = positions(column, self.values)
        records = np.flatnonzero(at >= 0)
        out[at[records], records] = 1.0


Feature = Number | Category
Missing = Literal["refuse", "mean"]


def fit_feature(name: str, table: Table, *, standardize: bool, missing: Missing = "refuse") -> Feature:
    """Return the feature that a PUBLIC column makes; over 50 texts, infinity and, by `missing`, gaps are refused.

    Args:
        name: the column.
        table: the training records.
        standardize: whether a number is centred and scaled.
        missing: "refuse" gaps, or put the training "mean" in their place; a text that is missing is no category.

    Raises:
        StudyInvalid: a value is missing (and refused) or infinite, or a text column has more than 50 categories.
    """
    column = table.columns[name]
    if missing == "refuse" or np.isinf(numbers(column)).any() or not present_mask(column).any():
        _refuse_missing(name, table)
    if not is_text(column):
        usable = numbers(column)[present_mask(column)]
        mean, deviation = _mean_and_deviation(usable)
        stand_in = mean if missing == "mean" else None
        truth = all(isinstance(cell, bool) for cell in table.cells.get(name, (None,)))
        return Number(name, *((mean, deviation) if standardize else (0.0, 1.0)), stand_in, truth)
    values = sorted_values(column)
    if len(values) > MAX_CATEGORIES:
        texts = [isinstance(value, str) and isinstance(canonical_text(value), str) for value in column]
        record = texts.index(max(texts))  # the first record with a text that is no number, if there is one
        raise StudyInvalid(
            f"column {name!r} of {table.source} has {len(values)} different values and is not numeric "
            f"(the first text is {column[record][:30]!r}, {table.place(record)})",
            cause=f"it holds {form}"
            if (form := detect_form(values))
            else "a name, a date or an identifier, or a word in a column of numbers",
            remedy=f'leave it out with ignore = ["{name}"] in [data], from Python by dropping it; or make it '
            f"numbers, or at most {MAX_CATEGORIES} categories, in both tables",
        )
    return Category(name, values)


def class_labels(target: str, table: Table) -> tuple[Value, ...]:
    """Return the classes in the PUBLIC table's `target`, sorted; refused if there is one, or a label is missing.

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


def check_targets(target: str, table: Table) -> None:
    """Refuse a PUBLIC regression target that is not a finite number in every training record.

    Raises:
        StudyInvalid: a text, a gap or an infinite value.
    """
    _refuse_missing(target, table)
    if is_text(table.columns[target]):
        raise StudyInvalid(
            f"the target {target!r} of {table.source} holds texts, and the score compares numbers",
            cause="the target is a class",
            remedy="choose a score of classes",
        )


def present_mask(column: Column) -> NDArray[np.bool_]:
    """Return a mask (m,) of the records where the column holds a finite number or a text."""
    usable = np.isfinite(numbers(column))
    if column.dtype == object:
        usable |= np.array([isinstance(value, str) for value in column], dtype=np.bool_)
    return usable


def _refuse_missing(name: str, table: Table) -> None:
    """Refuse a PUBLIC column of which a record has neither a finite number nor a text; names the first."""
    column = table.columns[name]
    infinite, usable = np.isinf(numbers(column)), present_mask(column)
    if usable.all():
        return
    bad, what = (infinite, "an infinite value") if infinite.any() else (~usable, "no value")
    place = f"{table.place(int(np.argmax(bad)))} ({int(bad.sum())} such records)"
    raise StudyInvalid(
        f"column {name!r} of {table.source} has {what} at {place}",
        cause="a division by zero, or a number or code that no double holds"
        if infinite.any()
        else "the training table has gaps, or a text such as NA, null or None, which says that a value is missing",
        remedy=f'replace it in the file, or leave the column out with ignore = ["{name}"] in [data]'
        if infinite.any()
        else 'write missing = "mean" in [data]; for the target missing_target = "drop", which leaves such public '
        f'records out; or fill the gaps, or leave the column out with ignore = ["{name}"]',
    )


def _mean_and_deviation(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the mean and standard deviation of values, without overflow."""
    if values.min() == values.max():
        return float(values[0]), 0.0
    # A power of two as the unit changes no digit, and neither sums nor squares can overflow.
    unit = int(np.frexp(np.abs(values).max())[1])
    scaled = np.ldexp(values, -unit)
    mean = scaled.mean()
    deviation = np.sqrt(np.mean((scaled - mean) ** 2))
    return float(np.ldexp(mean, unit)), float(np.ldexp(deviation, unit))
