"""Tables in memory: pandas, polars, Arrow, whatever else narwhals knows, and arrays. Reading them never raises.

The number of records and the names of the columns are public, and only they can be refused. What a value means
depends on that value alone, not on its library or on other values. A value that cannot be converted becomes NaN and
affects its own record only. A list of rows is refused: NumPy would guess one type for all records from the content
of each.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from dpbo_core.data.raw_cells import array_values, is_sequence, row_cells, series_cells, series_values
from dpbo_core.data.table import Table, table_of
from dpbo_core.data.values import Column
from dpbo_core.errors import StudyInvalid


@dataclass(frozen=True, eq=False, repr=False)
class Frame:
    """Features and target as they were passed. Only their shape and column names were examined, and no value."""

    names: tuple[str, ...]  # of the feature columns, in order
    n_records: int
    native: Any  # the table itself, or its narwhals frame
    target: Any  # one value a record; None for a table to be predicted

    def values(self, name: str) -> Sequence[object] | Column:
        """Return one feature column's values as Python or NumPy has them."""
        place = self.names.index(name)
        if is_ragged(self.native):  # all cells of a row are missing if its length is not the public one
            rows = map(row_cells, self.native)
            return [None if row is None or len(row) != len(self.names) else row[place] for row in rows]
        if isinstance(self.native, np.ndarray):
            return array_values(self.native[:, place])
        # by its own name: pandas has names that are no text
        return series_values(self.native.get_column(self.native.columns[place]))

    @property
    def named(self) -> bool:
        """Whether the table in memory is a data frame, whose columns have names of their own."""
        return hasattr(self.native, "get_column")

    def hints(self) -> dict[str, Any]:
        """Return the library's type of each column of a data frame, by name (public); empty for an array."""
        if not self.named:
            return {}
        columns = zip(self.names, self.native.columns, strict=True)
        return {name: getattr(self.native.get_column(own).to_native(), "dtype", None) for name, own in columns}

    def table(self, *, target_name: str, source: str, texts: Collection[str] | None = ()) -> Table:
        """Return the records as a table, with the target if there is one; nothing that a record holds raises.

        `texts` are its columns of texts; None if the records are PUBLIC and their values say it themselves.
        """
        columns = {name: self.values(name) for name in self.names}
        if self.target is not None:
            columns[target_name] = _target_values(self.target)
        return table_of(columns, source=source, texts=texts)

    def table_with_cells(self, *, target_name: str, source: str, texts: Collection[str] | None = ()) -> Table:
        """Return the records as by `table`, with a data frame's values as they were passed beside them."""
        table = self.table(target_name=target_name, source=source, texts=texts)
        if not self.named:
            return table
        own_names = zip(self.names, self.native.columns, strict=True)
        return replace(table, cells={name: series_cells(self.native.get_column(own)) for name, own in own_names})

    def check_target(self, *, display_name: str) -> None:
        """Refuse a target of more than one column, by its shape alone."""
        _check_one_target(self.target, display_name)


def frame_of(X: Any, y: Any, *, display_name: str, width: int | None = None, private_count: bool = False) -> Frame:
    """Return X and y as one frame, checked by shape, names and number of records alone, and not by any value.

    Args:
        X: a data frame, an Arrow table, or an array (n, d); the columns of an array get the names x0, x1, …
        y: (n,) of anything, or None.
        display_name: what messages call it.
        width: for a SENSITIVE array of rows, its public number of columns: a row of another length is no record.
        private_count: whether the number of records is private. Then a table may be empty, and its columns be
            missing too, and no message has the number.
    """
    try:
        native = nw.from_native(X, eager_only=True, pass_through=True)
    except Exception:  # noqa: BLE001  a name twice, or a table of a kind that must be collected first
        native = None
    if native is None:
        raise _repeated_names_error(display_name)
    if isinstance(native, nw.DataFrame):
        names, n_records = tuple(str(name) for name in native.columns), len(native)
    else:
        native = _array(X, display_name, width, private_count=private_count)
        d = (width or 0) if native.ndim == 1 else native.shape[1]
        names, n_records = tuple(f"x{j}" for j in range(d)), len(native)
    if len(set(names)) < len(names) or not all(names):
        raise _repeated_names_error(display_name)
    if (not names or not n_records) and (not private_count or n_records):
        raise StudyInvalid(
            f"{display_name}: Found array with 0 {'sample(s)' if names else 'feature(s)'} "
            f"(shape=({n_records}, {len(names)})) while a minimum of 1 is required",
            remedy="give at least one record and one column",
        )
    target = None if y is None else _target(y, display_name)
    if target is not None and len(target) != n_records:
        raise StudyInvalid(
            f"{display_name} and its target have different numbers of records"
            if private_count
            else f"{display_name} has {n_records} records and its target {len(target)}",
            remedy="give one target for each record",
        )
    return Frame(names, n_records, native, target)


def _repeated_names_error(display_name: str) -> StudyInvalid:
    return StudyInvalid(
        f"two columns of {display_name} share one name, or one has none",
        cause="a join kept both",
        remedy="rename or drop one of them",
    )


def _array(X: Any, display_name: str, width: int | None, *, private_count: bool) -> Any:
    """Return X as an array (m, d), masked or not, or a SENSITIVE one with uneven rows as an array (m,) of rows."""
    if hasattr(X, "toarray") and hasattr(X, "nnz"):
        raise StudyInvalid(
            f"{display_name} is a sparse matrix",
            cause="every record is read value by value",
            remedy="pass X.toarray(), or select fewer columns",
        )
    if is_sequence(X):
        raise StudyInvalid(
            f"{display_name} is a list of rows, and a table is an array, a data frame or an Arrow table",
            remedy=f"pass numpy.array({display_name}), or a data frame of pandas or polars",
        )
    array = np.ma.asarray(X) if isinstance(X, np.ma.MaskedArray) else np.asarray(X)
    if private_count and array.ndim == 1 and not array.size:  # what NumPy makes of a list without a row
        return np.empty((0, width or 0), dtype=object)
    if width is not None and is_ragged(array):  # not refused: one SENSITIVE record of another length makes it so
        return array
    if array.ndim != 2 or (width is None and array.dtype.kind == "c"):  # one SENSITIVE value makes all complex
        raise StudyInvalid(
            f"{display_name} is not a table of records and columns",
            cause="Expected 2D array, got something else; one column or one record must still have two dimensions",
            remedy="Reshape your data with X.reshape(-1, 1) for one column or X.reshape(1, -1) for one record",
        )
    return array


def is_ragged(X: Any) -> bool:
    """Return whether X is what NumPy makes of rows of which one is too short or too long: an array (m,) of rows."""
    return type(X) is np.ndarray and X.ndim == 1 and X.dtype == object


def _target(y: Any, display_name: str) -> Any:
    """Return y as a narwhals series or frame, an array, or a list; no value of it is examined."""
    try:
        native = nw.from_native(_in_series(y), allow_series=True, eager_only=True, pass_through=True)
    except Exception:  # noqa: BLE001  a frame with a name twice, or one that must be collected first
        native = None
    if isinstance(native, nw.DataFrame | nw.Series):
        return native
    if native is not None and is_sequence(y):
        return list(y)
    array = np.ma.asarray(y) if isinstance(y, np.ma.MaskedArray) else np.asarray(native)
    if not array.ndim:
        raise StudyInvalid(f"the target of {display_name} is not a column", remedy="give one value a record")
    return array


def _in_series(y: Any) -> Any:
    """Return a bare pandas or Arrow array in a series, which is readable value by value; all else unchanged."""
    pandas, arrow = nw.dependencies.get_pandas(), nw.dependencies.get_pyarrow()
    if pandas is not None and isinstance(y, pandas.Index | pandas.api.extensions.ExtensionArray):
        return pandas.Series(y)
    return arrow.chunked_array([y]) if arrow is not None and isinstance(y, arrow.Array) else y


def _check_one_target(target: Any, display_name: str, width: int | None = None) -> None:
    """Refuse a target of other than one column, by the `width` of its rows or else by its shape."""
    width = int(np.prod(getattr(target, "shape", ())[1:])) if width is None else width
    if width != 1:
        raise StudyInvalid(
            f"the target of {display_name} has {width} columns",
            cause="the classes were one-hot encoded, or the table was passed with its target",
            remedy="give one class or number a record",
        )


def target_values(y: Any, *, display_name: str, public: Iterable[int]) -> list[object]:
    """Return the values (m,) of a target, each by itself; refused by its shape and its `public` rows alone."""
    target = _target(y, display_name)
    _check_one_target(target, display_name)
    values = list(_target_values(target))
    widths = {None if row is None else len(row) for row in (row_cells(values[i]) for i in public)}
    if len(widths) > 1 or None in widths:
        return values
    _check_one_target(None, display_name, widths.pop())
    rows = map(row_cells, values)  # every public label is in a row of its own
    return [row[0] if row is not None and len(row) == 1 else None for row in rows]


def _target_values(target: Any) -> Sequence[object] | Column:
    if isinstance(target, list):
        return target
    if isinstance(target, np.ndarray):
        return array_values(target.reshape(len(target), -1)[:, 0] if target.ndim > 1 and target.size else target)
    return series_values(target.get_column(target.columns[0]) if hasattr(target, "columns") else target)


def public_width(rows: Iterable[Any]) -> int | None:
    """Return the one length d of all rows of a PUBLIC table; None if they have several, or one is no row."""
    cells = [row_cells(row) for row in rows]
    lengths = {None if row is None else len(row) for row in cells}
    return lengths.pop() if len(lengths) == 1 else None
