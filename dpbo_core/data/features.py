"""From columns to rows of the unit ball: the features that a column becomes, and the clipping of standardised rows.

A column of the training table becomes a standardised number, or one 0/1 feature a category.

| symbol | name here | meaning | shape |
|---|---|---|---|
| μ, σ | `mean`, `deviation` | of the training column; σ (divisor n) is 0 for a constant one | scalar |
| r | | records handled at once | scalar |
| | `fill(column, out, broken)` | raw features, feature by feature | out (width, r) |

Standardised rows as mantissas times one power of two a row, and their clipping to the unit ball.

| symbol | name here | meaning | shape |
|---|---|---|---|
| z | | standardised row, (raw − center)/scale; may lie beyond the largest double | (d, r) |
| y, e | `mantissas`, `exponents` | z = y·2^e, a nonzero row's largest y_j in ±[½, 2) | (d, r), (r,) |
| R | `radius` | the length that becomes 1, from the training rows | scalar |
| B | `bound` | rows are clipped to ‖z/R‖₂ ≤ B | scalar |

Arrays are feature by record: a record's norm is summed feature by feature in one order, so it is the same
double whichever records stand beside it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.table import Table
from dpbo_core.data.values import (
    Column,
    Value,
    canonical_text,
    detect_form,
    is_text,
    numbers,
    positions,
    shown,
    sorted_values,
)
from dpbo_core.errors import StudyInvalid

MAX_CATEGORIES = 50


@dataclass(frozen=True)
class Number:
    """A numeric column; the feature is (x − mean)/deviation, or 0 if the training column is constant."""

    name: str
    mean: float  # μ
    deviation: float  # σ
    # replaces a value that is no finite number; None if the record then cannot be used ("broken")
    stand_in: float | None = None
    truth: bool = False  # whether the training table has only true and false in this column

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

    With `missing` "mean" the training mean stands in a gap's place; a text that is missing is no category.
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
    """Return the classes in the PUBLIC table's `target`, sorted; refused if there is one, or a label is missing."""
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
    """Refuse a PUBLIC regression target that is not a finite number in every training record."""
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
    if values.min() == values.max():
        return float(values[0]), 0.0
    # A power of two as the unit changes no digit, and neither sums nor squares can overflow.
    unit = int(np.frexp(np.abs(values).max())[1])
    scaled = np.ldexp(values, -unit)
    mean = scaled.mean()
    deviation = np.sqrt(np.mean((scaled - mean) ** 2))
    return float(np.ldexp(mean, unit)), float(np.ldexp(deviation, unit))


Records = slice | NDArray[np.intp]
Fill = Callable[[Records, NDArray[np.float64]], Iterator[slice]]
Scaling = tuple[NDArray[np.float64], NDArray[np.float64]]  # center and positive scale of every feature, (d,) each

_MAX_EXACT_SQUARE = 2.0**900  # a squared norm up to which doubles themselves serve
_MAX_EXACT_RADIUS = 2.0**400  # nor is a radius this large, or its inverse
_VALUES_PER_BLOCK = 2**18  # keeps the scratch arrays in the cache
_MIN_RECORDS_PER_BLOCK = 1024  # and so does this of wide tables, beside what it costs to begin a block
_MANTISSA_BLOCK_RECORDS = 4096  # that are computed by mantissas
_EXTRA_SLOTS = 16  # places for records beyond that, of every so many, computed whether needed or not
_MIN_EXPONENT = -100_000  # below that of any quotient of doubles


def scaled_rows(
    raw: NDArray[np.float64], center: NDArray[np.float64], scale: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.intc]]:
    """Return standardised rows as mantissas (d, r) and exponents (r,) of finite `raw`. Cannot overflow."""
    # A quarter of each keeps the difference of two huge values finite; it is exact but for the last subnormal bits.
    top, top_exponent = np.frexp(raw * 0.25 - center[:, None] * 0.25)
    bottom, bottom_exponent = np.frexp(scale[:, None])
    mantissas = top / bottom
    exponents = np.where(top == 0.0, _MIN_EXPONENT, top_exponent - bottom_exponent + 2).astype(np.intc)
    largest = exponents.max(axis=0)
    return np.ldexp(mantissas, exponents - largest), largest


def norms(mantissas: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the norm ‖y‖₂ of each record's mantissas, (r,), with a relative error of at most (d + 2)·2⁻⁵³."""
    total = np.zeros(mantissas.shape[1])
    for feature in mantissas:  # not np.sum, whose order of summation depends on the shape
        total += feature * feature
    return np.sqrt(total)


def clipped(
    mantissas: NDArray[np.float64], exponents: NDArray[np.intc], *, radius: float, bound: float
) -> NDArray[np.float64]:
    """Return the scaled rows divided by `radius`, (d, r), each record clipped to norm `bound`.

    The norm of what is returned is at most B in exact arithmetic: clipping aims at B(1 − s) with
    s = max(1e-12, (d + 16)·2⁻⁵²), more than all rounding on the way can add.
    """
    slack = _slack(len(mantissas))
    top, top_exponent = np.frexp(radius)
    with np.errstate(divide="ignore", over="ignore", under="ignore"):  # infinite if the other one is meant
        factor = np.minimum(np.ldexp(1.0 / top, exponents - top_exponent), bound * (1.0 - slack) / norms(mantissas))
    return np.asarray(mantissas * factor, dtype=np.float64)


def clipped_rows(
    fill: Fill,
    broken: NDArray[np.bool_],
    scaling: Scaling,
    out: NDArray[np.float64],
    *,
    radius: float,
    bound: float,
) -> None:
    """Write all records' standardised rows, divided by `radius` and clipped to norm `bound`, to `out` (m, d).

    The rows are those of `clipped(*scaled_rows(...))`, except for the last digits of subnormal numbers, and are
    within the same bound in exact arithmetic. Rows of records marked in `broken` are meaningless.

    Plain doubles are used unless a number overflows, as they then give the same digits: a power of two as the unit
    changes none. The few records whose numbers overflow are computed by mantissas. A fixed number of places per
    table is computed in this way, needed or not, so that the running time tells nothing of up to that many such
    records.

    `fill` writes raw features of some records, (d, r), and yields the features that it has just written; it marks
    records in `broken` (m,).
    """
    m, d = out.shape
    center, scale = scaling
    size = min(m, max(_MIN_RECORDS_PER_BLOCK, _VALUES_PER_BLOCK // max(1, d)))
    scratch, squares, far = np.empty((d, size)), np.empty((2, size)), []
    aim = bound * (1.0 - _slack(d))
    farthest = _MAX_EXACT_SQUARE if 1.0 / _MAX_EXACT_RADIUS < radius < _MAX_EXACT_RADIUS else -1.0
    with np.errstate(all="ignore"):
        for start in range(0, m, max(1, size)):
            rows = slice(start, min(start + size, m))
            z, (total, square) = scratch[:, : rows.stop - start], squares[:, : rows.stop - start]
            total[:] = 0.0
            for features in fill(rows, z):
                for row, middle, unit in zip(z[features], center[features], scale[features], strict=True):
                    np.subtract(row, middle, out=row)
                    np.divide(row, unit, out=row)
                    np.multiply(row, row, out=square)
                    total += square  # feature by feature, as `norms`
            far.append(start + np.flatnonzero(~((total <= farthest) | broken[rows])))
            z *= np.minimum(1.0 / radius, aim / np.sqrt(total))
            out[rows] = z.T
    places = np.concatenate([*far, np.empty(0, dtype=np.intp)])
    n_far, places_made = len(places), _EXTRA_SLOTS * -(-m // _MANTISSA_BLOCK_RECORDS)
    if m:
        places = np.append(places, np.zeros(-n_far % places_made if n_far else places_made, dtype=np.intp))
    for start in range(0, len(places), _MANTISSA_BLOCK_RECORDS):
        some = places[start : start + _MANTISSA_BLOCK_RECORDS]
        raw = np.empty((d, len(some)))
        for _ in fill(some, raw):
            pass
        rows_far = clipped(*scaled_rows(raw, center, scale), radius=radius, bound=bound).T[: max(0, n_far - start)]
        out[some[: len(rows_far)]] = rows_far


def _slack(d: int) -> float:
    """Return a bound on the relative rounding error of a clipped norm in d dimensions."""
    return max(1e-12, (d + 16) * 2.0**-52)
