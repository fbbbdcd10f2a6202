"""Tables in memory, read as totally as files: pandas, polars, Arrow and whatever else narwhals knows, and arrays.

The number of records and the names of the columns are public, and all that can be refused. What a value means
depends on that value alone, whatever library holds it and whatever stands beside it; a value that cannot be taken
out means nothing (NaN) and costs its own record only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.table import Table, table_of
from dpbo_core.data.values import Column
from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.sealing import attempted, each

SHORT_FLOATS = {"float16": np.float16, "halffloat": np.float16, "float32": np.float32, "float": np.float32}


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """Features and target as they were given, of which only the outside has been looked at.

    Attributes:
        names: of the feature columns, in order.
        n_records: of the table.
        given: the table itself.
        target: its target, one value a record; None for a table to be predicted.
    """

    names: tuple[str, ...]
    n_records: int
    given: Any
    target: Any

    def __repr__(self) -> str:
        return f"<Frame: {len(self.names)} columns, {self.n_records} records>"

    def values(self, name: str) -> Sequence[object] | Column:
        """One feature column's values as Python or NumPy has them."""
        place = self.names.index(name)
        if isinstance(self.given, np.ndarray):
            return _of_array(self.given[:, place])
        return _of_series(self.given.get_column(self.given.columns[place]))  # pandas has names that are no text

    def table(self, *, target_name: str, source: str) -> Table:
        """The whole as a table; nothing a record holds raises."""
        columns = {name: self.values(name) for name in self.names}
        if self.target is not None:
            columns[target_name] = _target_values(self.target)
        return table_of(columns, source=source)


def frame_of(X: Any, y: Any, *, shown_as: str, width: int | None = None) -> Frame:
    """Look at the outside of a table: its columns' names and its number of records.

    Args:
        X: a data frame, an Arrow table, or an array (n, d) or list of rows; arrays get the names x0, x1, …
        y: (n,) of anything, or None.
        shown_as: what letters call it, "X_validation" say.
        width: for a SENSITIVE list of rows, its public number of columns: a row of another length is no record.

    Raises:
        StudyInvalid: it is no such table, or y has another number of records.
    """
    import narwhals.stable.v2 as nw

    try:
        given = nw.from_native(X, eager_only=True, pass_through=True)
    except Exception:  # noqa: BLE001  a name twice, or a table of a kind that must be collected first
        given = None
    if given is None:
        raise _bad_names(shown_as)
    if isinstance(given, nw.DataFrame):
        names, n_records = tuple(str(name) for name in given.columns), len(given)
    else:
        given = _array(X, shown_as, width)
        names, n_records = tuple(f"x{j}" for j in range(given.shape[1])), len(given)
    if len(set(names)) < len(names) or not all(names):
        raise _bad_names(shown_as)
    if not names or not n_records:
        raise StudyInvalid(
            f"{shown_as}: Found array with 0 {'sample(s)' if names else 'feature(s)'} "
            f"(shape=({n_records}, {len(names)})) while a minimum of 1 is required",
            remedy="give at least one record and one column",
        )
    if y is not None and _length(y, shown_as) != n_records:
        raise StudyInvalid(
            f"{shown_as} has {n_records} records and its target {_length(y, shown_as)}",
            remedy="give one target for each record",
        )
    return Frame(names, n_records, given, y)


def _bad_names(shown_as: str) -> StudyInvalid:
    return StudyInvalid(
        f"two columns of {shown_as} share one name, or one has none",
        cause="a join kept both",
        remedy="rename or drop one of them",
    )


def _array(X: Any, shown_as: str, width: int | None) -> Any:
    """X as a two-dimensional array; a list of rows becomes objects, so that no row says what another means."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise StudyInvalid(
            f"{shown_as} is a sparse matrix",
            cause="every record is read value by value",
            remedy="pass X.toarray(), or select fewer columns",
        )
    array = _of_rows(X, width) if isinstance(X, Sequence) else np.asarray(X)
    if array.ndim != 2 or array.dtype.kind == "c":
        raise StudyInvalid(
            f"{shown_as} is not a table of records and columns",
            cause="Expected 2D array, got something else; one column or one record must still have two dimensions",
            remedy="Reshape your data with X.reshape(-1, 1) for one column or X.reshape(1, -1) for one record",
        )
    return array


def _of_rows(rows: Sequence[Any], width: int | None) -> NDArray[Any]:
    """(m, width) objects; without a width, that of the PUBLIC first row, and empty where a row has another."""
    read = [_row(row) for row in rows]
    if width is None:
        lengths = {None if row is None else len(row) for row in read}
        if len(lengths) != 1 or None in lengths:
            return np.empty(0)
        (width,) = (length for length in lengths if length is not None)
    array = np.empty((len(read), width), dtype=object)
    for i, row in enumerate(read):
        if row is not None and len(row) == width:
            for j, value in enumerate(row):
                array[i, j] = value
    return array


def _row(row: Any) -> list[Any] | None:
    try:
        return list(row) if isinstance(row, list | tuple) or np.ndim(row) == 1 else None
    except Exception:  # noqa: BLE001  a sequence of its own kind, say, with cells of several lengths
        return None


def _length(y: Any, shown_as: str) -> int:
    shape = (len(y),) if hasattr(y, "__len__") else np.asarray(y).shape
    if not shape:
        raise StudyInvalid(f"the target of {shown_as} is not a column", remedy="give one value a record")
    return int(shape[0])


def _target_values(y: Any) -> Sequence[object] | Column:
    import narwhals.stable.v2 as nw

    given = nw.from_native(y, allow_series=True, eager_only=True, pass_through=True)
    if isinstance(given, nw.DataFrame):
        given = given.get_column(given.columns[0])
    if isinstance(given, nw.Series):
        return _of_series(given)
    array = np.array([*y, None], dtype=object)[:-1] if isinstance(y, list | tuple) else np.asarray(y)
    return _of_array(array.reshape(len(array), -1)[:, 0] if array.ndim > 1 and array.size else array)


def _of_array(column: Any) -> Sequence[object] | Column:
    values: Sequence[object] | Column = column if column.dtype.kind in "fiub" else column.tolist()
    return values


def _of_series(series: Any) -> Sequence[object] | Column:
    """The values of a narwhals series; one by one where they cannot be had together."""
    if series.dtype.is_temporal():  # no number and no class; polars panics, past every seal, at a day out of range
        return [None] * len(series)

    def together() -> Sequence[object] | Column:
        short = SHORT_FLOATS.get(_kind(series))
        if short is not None:  # as they are: a Python float would not say in which precision they were written
            return np.asarray(series.to_numpy(), dtype=short)
        values: Sequence[object] = series.to_list()
        return values

    found = attempted(together, None)  # a text that is not UTF-8, say: it costs its own record
    return each(series.__getitem__, range(len(series)), None) if found is None else found


def _kind(series: Any) -> str:
    """The name of the type that the library itself gives the column: public, as its name is."""
    native = series.to_native()
    kind = getattr(native, "dtype", getattr(native, "type", ""))
    kind = getattr(getattr(kind, "categories", None), "dtype", getattr(kind, "value_type", kind))  # of categories
    return str(kind).lower().partition("[")[0]
