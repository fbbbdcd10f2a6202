"""One table as two by a public rule: the rows to validate on follow from their POSITION, not from their content.

Row i is validated on where u_i < share. u_i is the i-th number of one fixed public sequence, even in [0, 1), the
same for every table, seed, study and edition. So rows that are added at the end move no other row to the other
side. The ledger remembers a dataset's share and its number of rows: another share, or fewer rows, is refused, since
what was protected would be public. A table that was sorted otherwise is noticed by its rows (`row_marks`).
"""

import hashlib
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from dpbo_core.data.named_columns import CANNOT, in_csv, kind_of
from dpbo_core.data.raw_cells import as_cells, series_cells
from dpbo_core.data.values import canonical
from dpbo_core.errors import StudyInvalid

RULE = b"dpbo: rows that are validated on"
TWO_TO_64 = 2.0**64
WHOLE = 2.0**53


def sequence(n: int) -> NDArray[np.float64]:
    """Fixed public pseudo-random numbers u (n,) in [0, 1): SHAKE-256 of a fixed text, eight bytes a row."""
    drawn = np.frombuffer(hashlib.shake_256(RULE).digest(8 * n), dtype="<u8")
    return np.asarray(drawn / TWO_TO_64, dtype=np.float64)


def validated_on(n: int, share: float) -> NDArray[np.bool_]:
    """The fixed public mask (n,) of the rows for the sensitive half, about a `share` of them, in (0, 1).

    Raises:
        StudyInvalid: the share is none, or a half has no row.
    """
    if isinstance(share, bool) or not isinstance(share, int | float | np.number) or not 0.0 < share < 1.0:
        raise StudyInvalid(
            f"validation_size = {share!r}",
            cause="it is the share of the rows that are validated on, and no number of rows",
            remedy="give a share between 0 and 1, 0.3 say",
        )
    chosen = sequence(n) < float(share)
    if not chosen.any() or chosen.all():
        raise StudyInvalid(
            f"validation_size = {float(share):g} of {n} rows leaves one half empty", remedy="give more rows"
        )
    return chosen


def halves(X: Any, y: Any, share: float) -> tuple[Any, Any, Any, Any, NDArray[np.int64]]:
    """X and y of the public half (types by its own rows), X and y of the sensitive half, and its rows' positions.

    Raises:
        StudyInvalid: as `validated_on`, or X and y differ in length.
    """
    n = _num_samples(X)
    if _num_samples(y) != n:
        raise StudyInvalid(f"X has {n} rows, y has {_num_samples(y)}", remedy="give one y for every row of X")
    chosen = validated_on(n, share)
    rest, taken = np.flatnonzero(~chosen), np.flatnonzero(chosen)
    X_rest, y_rest, X_taken, y_taken = (_safe_indexing(table, rows) for rows in (rest, taken) for table in (X, y))
    return _of_own_types(X_rest), _of_own_type(y_rest), X_taken, y_taken, taken


def _of_own_types(X: Any) -> Any:
    """A data frame of public rows with the types that these alone would have; anything else as it is.

    A category that no public row has is none. A column of texts is one of numbers, truth values or ISO times where
    all of its public rows are: one text among the sensitive rows made it one of texts. Times are in microseconds.
    """
    X = X.infer_objects() if isinstance(X, pd.DataFrame) else X
    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except Exception:  # noqa: BLE001  whoever reads it says what is wrong with it
        return X
    if not isinstance(frame, nw.DataFrame):
        return X
    own = {place: _own_values(frame[:, place]) for place in range(len(frame.columns))}
    if isinstance(X, pd.DataFrame):
        for place, values in own.items():
            if values is not None:
                X.isetitem(place, values.set_axis(X.index))
        return X
    new = [
        nw.new_series(
            frame.columns[place], [None if pd.isna(one) else one for one in values], backend=frame.implementation
        )
        for place, values in own.items()
        if values is not None
    ]
    return frame.with_columns(*new).to_native()


def _own_values(series: Any) -> Any:
    """A pandas column of a series (n,) of PUBLIC rows in the type of its values; None where nothing changes."""
    native = series.to_native()
    if isinstance(getattr(native, "dtype", None), pd.CategoricalDtype):
        there = native.cat.remove_unused_categories()
        return (
            there if there.cat.ordered else there.cat.reorder_categories(sorted(there.cat.categories, key=_order))
        )
    if not (series.dtype.is_temporal() or series.dtype in (nw.String, nw.Object)):
        return None
    cells = series_cells(series)
    column = kind_of(series.name, in_csv(cells))
    held = as_cells(column.cell(cell) for cell in cells)
    if column.kind == "text" or any(cell is CANNOT for cell in held):
        return None
    return pd.Series(column.held(held))


def _order(category: object) -> tuple[bool, float, str]:
    """A sorting key for a column's categories: numbers in their order before texts in theirs."""
    meant = canonical(category)
    return (True, 0.0, meant) if isinstance(meant, str) else (False, meant, repr(category))


def _of_own_type(y: Any) -> NDArray[Any]:
    """Public classes or targets (n,) in the type these alone would have: texts of numbers as numbers, say."""
    listed = np.asarray(y).tolist()
    meant = [canonical(value) for value in listed]
    if all(type(value) is str for value in listed) and not any(isinstance(value, str) for value in meant):
        truth = all(value.strip().lower() in ("true", "false") for value in listed)
        listed = [bool(value) for value in meant] if truth else meant
    values = np.asarray(listed)
    if values.dtype.kind == "f" and np.isfinite(values).all() and (np.abs(values) < WHOLE).all():
        whole = values.astype(np.int64)
        return whole if bool((whole == values).all()) else values
    return values
