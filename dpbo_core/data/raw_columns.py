"""One raw column of a table in memory as a sequence of values, each what it is whatever stands beside it.

What a column can hold is asked of its TYPE, which is public. Columns of numbers, truth values, texts and objects
are taken out together, and one by one where that fails: a value that cannot be taken out costs its own record.
Whatever is temporal or nested means nothing and is not touched: polars panics at a day out of range, past every
`except Exception`, and writes to the standard error while it does.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.cells import UNREADABLE, Cells, as_cells, cells_of, times, times_of_numbers
from dpbo_core.data.values import Column
from dpbo_core.privacy.sealing import attempted, each

SHORT_FLOATS = {"float16": np.float16, "halffloat": np.float16, "float32": np.float32, "float": np.float32}


def array_values(column: NDArray[Any]) -> Sequence[object] | Column:
    """The values of an array (m,); a masked cell is None, or NaN among floats."""
    kind = column.dtype.kind
    if kind in "mM":  # a time is no number and no class, whatever its unit
        return [None] * len(column)
    masked = isinstance(column, np.ma.MaskedArray)
    hidden, column = np.ma.getmaskarray(column), np.ma.getdata(column)
    if kind == "c":  # one imaginary number made the others complex: they are what they were
        hidden, column, kind = hidden | (column.imag != 0.0), column.real, "f"
    if kind == "f" and hidden.any():  # in their own precision, which tells how large a whole number can be exact
        return np.where(hidden, np.asarray(np.nan, column.dtype), column)
    if masked:
        return [None if out else value for value, out in zip(column.tolist(), hidden, strict=True)]
    return column if kind in "fiub" else list(column.tolist())


def series_values(series: Any) -> Sequence[object] | Column:
    """The values of a narwhals series (m,)."""
    kind = native_kind(series)
    if kind != "object" and (series.dtype.is_temporal() or series.dtype.is_nested()):
        return [None] * len(series)
    if kind.startswith("complex"):
        return array_values(series.to_numpy())
    short = SHORT_FLOATS.get(kind)
    if short is not None:  # as they are: a Python float would not say in which precision they were written
        floats = attempted(lambda: np.asarray(series.to_numpy(), dtype=short), None)
        if floats is not None and floats.shape == (len(series),):
            return np.asarray(floats)
        return each(short, one_by_one(series), None)
    together: list[object] | None = attempted(series.to_list, None)
    return together if together is not None and len(together) == len(series) else one_by_one(series)


def series_cells(series: Any) -> Cells:
    """The raw cells of a narwhals series (m,), times by the numbers that its library keeps."""
    kind = native_kind(series)
    if kind.startswith("complex"):
        return as_cells([UNREADABLE] * len(series))
    if kind != "object" and (series.dtype.is_temporal() or series.dtype.is_nested()):
        found: Cells | None = (
            attempted(lambda: _times(series.to_native()), None) if kind.startswith(TIMES) else None
        )
        return as_cells([UNREADABLE] * len(series)) if found is None else found
    return cells_of(list(series_values(series)))


TIMES = ("datetime64", "datetime", "date", "timestamp")


def _times(native: Any) -> Cells:
    import narwhals.stable.v2 as nw

    kind = native.dtype if hasattr(native, "dtype") else native.type
    arrow, polars = nw.dependencies.get_pyarrow(), nw.dependencies.get_polars()
    if polars is not None and isinstance(native, polars.Series):
        zone, unit = getattr(kind, "time_zone", None), getattr(kind, "time_unit", "D")
        numbers = native.to_physical().cast(polars.Int64).fill_null(np.iinfo(np.int64).min).to_numpy()
        return times_of_numbers(numbers, unit, zone=zone is not None)
    if arrow is not None and isinstance(native, arrow.ChunkedArray | arrow.Array):
        return arrow_times(native)
    if getattr(kind, "pyarrow_dtype", None) is not None:  # pandas' own over Arrow
        return arrow_times(native.array.__arrow_array__())
    zone = getattr(kind, "tz", None)
    if zone is None:
        return times(native.to_numpy())
    return times_of_numbers(native.astype(np.int64).to_numpy(), kind.unit, zone=True)


def arrow_times(values: Any) -> Cells:
    """Cells of an Arrow array of dates or times, by its numbers: a time beyond Python's costs its own record."""
    import pyarrow as pa

    kind = values.type
    day = pa.types.is_date32(kind)
    unit = "D" if day else "ms" if pa.types.is_date64(kind) else kind.unit
    numbers = values.cast(pa.int32()) if day else values
    numbers = numbers.cast(pa.int64()).fill_null(np.iinfo(np.int64).min).to_numpy()
    return times_of_numbers(numbers, unit, zone=getattr(kind, "tz", None) is not None)


def one_by_one(values: Any) -> list[Any]:
    """`values[i]` for every i, None where it cannot be had."""
    return each(values.__getitem__, range(len(values)), None)


def native_kind(series: Any) -> str:
    """The name of the type that the library itself gives the column: public, as its name is.

    Not narwhals' name: for a column of pandas objects it looks at the values.
    """
    native = series.to_native()
    kind = getattr(native, "dtype", getattr(native, "type", ""))
    kind = getattr(getattr(kind, "categories", None), "dtype", getattr(kind, "value_type", kind))  # of categories
    kind = getattr(kind, "subtype", kind)  # of a sparse column
    return str(kind).lower().partition("[")[0]
