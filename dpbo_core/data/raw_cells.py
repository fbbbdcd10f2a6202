"""Raw cells and columns: a cell as it was written, and the values of a column in memory, each read by itself.

| Cell | means |
|---|---|
| `None` | there is no value |
| float, bool, str | a number, a truth value, a text as it stands |
| `numpy.datetime64` in microseconds | a time without a zone |
| `datetime` in UTC | a time with a zone |
| `UNREADABLE_CELL` | a value that is none of these: its record cannot be used, unless nothing asks for the column |

Nothing here raises, and no code of a value's own class runs. The TYPE of a column in memory, which is public,
decides how it is read. Its values are converted together or, if that fails, one by one, so that a bad value affects
its own record only. `series_values` does not touch temporal or nested columns and returns gaps for them: polars
panics at a day out of range, which `except Exception` does not catch, and writes to the standard error.
"""

import datetime as dt
import math
import re
import sys
import zoneinfo
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.values import GAP_TEXTS, Column, canonical_text, plain_value
from dpbo_core.privacy.sensitive import attempted, each

Cells = NDArray[Any]  # (m,) objects

UNREADABLE_CELL = math.inf
FIELD_LIMIT = 131_072  # characters of a field; the csv module's own
_CLOCK, _ZONE = r"(\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)", r"(Z|[+-]\d{2}:?\d{2})"
TIME_PATTERN = re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}})(?:[T ]{_CLOCK}\s?{_ZONE}?)?", re.ASCII)
_FIRST_TIME, _LAST_TIME = dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001  of no zone
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001
_MICROSECOND = dt.timedelta(microseconds=1)
MICROSECONDS_PER_UNIT = {
    "D": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1_000,
    "us": 1,
}


SHORT_FLOAT_TYPES = {"float16": np.float16, "halffloat": np.float16, "float32": np.float32, "float": np.float32}
TIME_TYPE_NAMES = ("datetime64", "datetime", "date", "timestamp")


def as_cells(values: Iterable[object]) -> Cells:
    """Return objects as an array (m,) of dtype object, one each, whatever NumPy would make of them."""
    listed = list(values)
    cells = np.empty(len(listed), dtype=object)
    cells[:] = listed
    return cells


def is_sequence(X: Any) -> bool:
    """Return whether X is a sequence but no array; NumPy would guess one type for all its items."""
    if isinstance(X, Sequence):
        return not isinstance(X, str | bytes | bytearray | memoryview | np.ndarray)
    arrays = ("__array__", "__array_interface__", "__array_struct__", "__buffer__")
    return hasattr(X, "__len__") and hasattr(X, "__getitem__") and not any(hasattr(X, name) for name in arrays)


def row_cells(row: Any) -> list[object] | None:
    """Return the cells of one row (d,), or None if it is no row. Never raises."""
    kind = type(row)
    if issubclass(kind, list):
        return list.__getitem__(row, slice(None))
    if issubclass(kind, tuple):
        return list(tuple.__getitem__(row, slice(None)))
    if kind is np.ndarray:
        return list(row) if row.ndim == 1 else None
    return None


def text_cell(text: str) -> object:
    """Return a field of a CSV file as its stripped text; None if it says that the value is missing."""
    text = text.strip()
    return None if text in GAP_TEXTS else text


def cell_of(value: Any) -> object:
    """Return a value as a text, number, truth value or time: None for a gap, `UNREADABLE_CELL` for all else."""
    kind = type(value)
    if value is None or kind is str or kind is bool:
        return value
    if kind is float:
        return None if value != value else value
    if kind is int:
        return canonical_text(value)
    pandas = sys.modules.get("pandas")
    if pandas is not None and (value is pandas.NA or value is pandas.NaT):
        return None
    if issubclass(kind, dt.date):
        return _time(value)
    if kind is np.datetime64:
        return times(np.array([value]))[0]
    held = plain_value(value)
    if isinstance(held, str):
        return held
    if isinstance(held, bool | np.bool_):
        return bool(held)
    number = UNREADABLE_CELL if held is None else canonical_text(held)
    return None if number != number else number


def _time(value: Any) -> object:
    """Return a date as a NumPy time, with a zone a UTC datetime; `UNREADABLE_CELL` for a zone of others' class."""
    if not issubclass(type(value), dt.datetime):
        year, month, day = (getattr(dt.date, part).__get__(value) for part in ("year", "month", "day"))
        return np.datetime64(dt.date(year, month, day), "us")
    # by the base class's own descriptors, so that no code of a subclass runs
    parts = [getattr(dt.datetime, part).__get__(value) for part in _TIME_PARTS]
    zone = dt.datetime.tzinfo.__get__(value)
    naive = dt.datetime(*parts)  # noqa: DTZ001  the zone is looked at below
    if zone is None:
        return np.datetime64(naive, "us")
    try:
        standard = type(zone) is dt.timezone or type(zone) is zoneinfo.ZoneInfo
        offset = zone.utcoffset(naive) if standard else UNREADABLE_CELL
        return (naive - offset).replace(tzinfo=dt.UTC) if isinstance(offset, dt.timedelta) else UNREADABLE_CELL
    except (OverflowError, ValueError):
        return UNREADABLE_CELL


_TIME_PARTS = ("year", "month", "day", "hour", "minute", "second", "microsecond")


def time_of_text(text: str) -> np.datetime64 | dt.datetime | None:
    """Return the time of a text in ISO 8601: a datetime64, or with a zone a UTC datetime; None for any other."""
    match = TIME_PATTERN.fullmatch(text)
    if match is None:
        return None
    try:
        read = dt.datetime.fromisoformat(f"{match[1]} {match[2] or '00:00'}{match[3] or ''}")
        return np.datetime64(read, "us") if read.tzinfo is None else read.astimezone(dt.UTC)
    except (OverflowError, ValueError):
        return None


def times(array: NDArray[Any]) -> Cells:
    """numpy.datetime64s as times in microseconds, (m,): None for NaT, `UNREADABLE_CELL` beyond year 1 to 9999."""
    unit = np.datetime_data(array.dtype)
    return times_of_numbers(array.astype(np.int64), unit[0]) if unit[1] == 1 else _unreadable_cells(len(array))


def times_of_numbers(numbers: NDArray[np.int64], unit: str, zone: dt.tzinfo | None = None) -> Cells:
    """Return times (m,) from integers in `unit` since 1970; None for NaT, `UNREADABLE_CELL` if out of range."""
    missing = numbers == np.iinfo(np.int64).min
    if unit in ("ns", "ps", "fs", "as"):
        micros = numbers // {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}[unit]
        inside = np.ones(len(numbers), dtype=bool)
    elif unit in MICROSECONDS_PER_UNIT:
        ends = [
            ((end - _EPOCH) // _MICROSECOND) // MICROSECONDS_PER_UNIT[unit] for end in (_FIRST_TIME, _LAST_TIME)
        ]
        inside = (numbers >= ends[0]) & (numbers <= ends[1])
        micros = np.where(inside, numbers, 0) * MICROSECONDS_PER_UNIT[unit]
    else:
        return _unreadable_cells(len(numbers))
    moments: list[object] = list(micros.view("M8[us]"))
    if zone is not None:
        moments = [(_EPOCH + int(value) * _MICROSECOND).replace(tzinfo=zone) for value in micros]
    usable = zip(moments, missing, inside, strict=True)
    return as_cells(None if out else (value if ok else UNREADABLE_CELL) for value, out, ok in usable)


def _unreadable_cells(n: int) -> Cells:
    return as_cells([UNREADABLE_CELL] * n)


def cells_of(values: Sequence[object]) -> Cells:
    """Return values from memory or a typed file as None, plain Python values or times, (m,), each by `cell_of`."""
    return as_cells(cell_of(value) for value in values)


def micros(cell: object) -> int | None:
    """Return a time as microseconds since 1970, its zone dropped and not converted; None for what is no time."""
    if type(cell) is np.datetime64:
        return int(cell.astype(np.int64))
    if type(cell) is dt.datetime:
        return (cell.replace(tzinfo=None) - _EPOCH) // _MICROSECOND
    return None


def time_in_words(at: int, zone: dt.tzinfo | None) -> str:
    """Return a time in ISO 8601, to the second, of microseconds since 1970, with `zone` if there is one."""
    time = _EPOCH + dt.timedelta(seconds=at // 1_000_000)
    return time.replace(tzinfo=zone).isoformat()


def array_values(column: NDArray[Any]) -> Sequence[object] | Column:
    """Return the values of a NumPy array (m,); a masked one is None, or NaN among floats, and each time is None."""
    kind = column.dtype.kind
    if kind in "mM":  # a time is no number and no class, whatever its unit
        return [None] * len(column)
    masked = isinstance(column, np.ma.MaskedArray)
    hidden, column = np.ma.getmaskarray(column), np.ma.getdata(column)
    if kind == "c":  # one imaginary number makes all complex: the others are real, and it becomes a gap
        hidden, column, kind = hidden | (column.imag != 0.0), column.real, "f"
    if kind == "f" and hidden.any():  # in their own precision, which tells how large a whole number can be exact
        return np.where(hidden, np.asarray(np.nan, column.dtype), column)
    if masked:
        return [None if out else value for value, out in zip(column.tolist(), hidden, strict=True)]
    return column if kind in "fiub" else list(column.tolist())


def series_values(series: Any) -> Sequence[object] | Column:
    """Return the values of a narwhals series (m,); None for one that fails to convert, is a time or is nested."""
    kind = native_kind(series)
    if kind != "object" and (series.dtype.is_temporal() or series.dtype.is_nested()):
        return [None] * len(series)
    if kind.startswith("complex"):
        return array_values(series.to_numpy())
    short = SHORT_FLOAT_TYPES.get(kind)
    if short is not None:  # as they are: a Python float would not say in which precision they were written
        floats = attempted(lambda: np.asarray(series.to_numpy(), dtype=short), None)
        if floats is not None and floats.shape == (len(series),):
            return np.asarray(floats)
        return each(short, one_by_one(series), None)
    together: list[object] | None = attempted(series.to_list, None)
    return together if together is not None and len(together) == len(series) else one_by_one(series)


def series_cells(series: Any) -> Cells:
    """Return the values of a narwhals series, (m,), each by `cell_of`; times by their library's own integers."""
    kind = native_kind(series)
    if kind.startswith("complex"):  # one imaginary number made the others complex
        return cells_of(series.to_numpy().tolist())
    if kind != "object" and (series.dtype.is_temporal() or series.dtype.is_nested()):
        cells: Cells | None = (
            attempted(lambda: _time_cells(series.to_native()), None) if kind.startswith(TIME_TYPE_NAMES) else None
        )
        return _unreadable_cells(len(series)) if cells is None else cells
    return cells_of(list(series_values(series)))


def _time_cells(native: Any) -> Cells:
    """Return the times in a column of pandas, polars or Arrow, (m,), by its library's own integers."""
    import narwhals.stable.v2 as nw

    kind = native.dtype if hasattr(native, "dtype") else native.type
    arrow, polars = nw.dependencies.get_pyarrow(), nw.dependencies.get_polars()
    if polars is not None and isinstance(native, polars.Series):
        zone, unit = getattr(kind, "time_zone", None), getattr(kind, "time_unit", "D")
        numbers = native.to_physical().cast(polars.Int64).fill_null(np.iinfo(np.int64).min).to_numpy()
        return times_of_numbers(numbers, unit, None if zone is None else dt.UTC)
    if arrow is not None and isinstance(native, arrow.ChunkedArray | arrow.Array):
        return arrow_times(native)
    if getattr(kind, "pyarrow_dtype", None) is not None:  # pandas' own over Arrow
        return arrow_times(native.array.__arrow_array__())
    zone = getattr(kind, "tz", None)
    if zone is None:
        return times(native.to_numpy())
    return times_of_numbers(native.astype(np.int64).to_numpy(), kind.unit, dt.UTC)


def arrow_times(values: Any) -> Cells:
    """Return the times of an Arrow array by its integers, (m,); `UNREADABLE_CELL` for one beyond Python's range."""
    import pyarrow as pa

    kind = values.type
    day = pa.types.is_date32(kind)
    unit = "D" if day else "ms" if pa.types.is_date64(kind) else kind.unit
    numbers = values.cast(pa.int32()) if day else values
    numbers = numbers.cast(pa.int64()).fill_null(np.iinfo(np.int64).min).to_numpy()
    return times_of_numbers(numbers, unit, None if getattr(kind, "tz", None) is None else dt.UTC)


def one_by_one(values: Any) -> list[Any]:
    """Return `values[i]` for every i, None if reading it raises."""
    return each(values.__getitem__, range(len(values)), None)


def native_kind(series: Any) -> str:
    """Return the name of the column's type in its own library: public, as the column's name is."""
    # not narwhals' name: for a column of pandas objects it looks at the values
    native = series.to_native()
    kind = getattr(native, "dtype", getattr(native, "type", ""))
    kind = getattr(getattr(kind, "categories", None), "dtype", getattr(kind, "value_type", kind))  # of categories
    kind = getattr(kind, "subtype", kind)  # of a sparse column
    return str(kind).lower().partition("[")[0]
