"""Division of one table into two by a public rule: a row's POSITION, not its content, decides where it goes.

Row i is validated on where u_i < share. u_i is the i-th number of one fixed public sequence, even in [0, 1), the
same for every table, seed, study and edition. So rows that are added at the end move no other row to the other
side. The ledger remembers a dataset's share and its number of rows: another share, or fewer rows, is refused, since
what was protected would be public. A table that was sorted otherwise is noticed by its rows (`row_marks`).

Whoever made the table gave each column one type for all of its rows. One sensitive cell decides that type, so it
says nothing here: both halves are made anew of their own cells, each read by itself, and the public cells alone say
what a public column is. A container may have changed public cells too, to fit a sensitive one beside them. So what
it may change is the same thing here:

| a container may hold | as | which is here |
|---|---|---|
| a number | 3.0, 3+0j, "3", Decimal(3) | the number |
| a truth value | 1, 1.0, "True" | 1 or 0, or a text in a column of texts |
| a gap | None, NaN, NaT, "nan" | a gap |
| a time | in any unit, a text in ISO 8601 | a time in microseconds |
| a text | bytes, with zeros cut off its end | the text |
"""

import hashlib
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from dpbo_core.data.frames import Frame, frame_of, is_ragged, public_width, target_values
from dpbo_core.data.named_columns import UNCONVERTIBLE, column_type, parse_csv_texts
from dpbo_core.data.raw_cells import UNREADABLE_CELL, Cells, as_cells, cell_of
from dpbo_core.data.values import canonical_text, shown
from dpbo_core.errors import StudyInvalid

SPLIT_RULE = b"dpbo: rows that are validated on"
TWO_TO_64 = 2.0**64
MAX_EXACT_INTEGER = 2.0**53
INTEGER_PATTERN = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)


def sequence(n: int) -> NDArray[np.float64]:
    """Return fixed public pseudo-random numbers u (n,) in [0, 1): SHAKE-256 of a fixed text, eight bytes a row."""
    drawn = np.frombuffer(hashlib.shake_256(SPLIT_RULE).digest(8 * n), dtype="<u8")
    return np.asarray(drawn / TWO_TO_64, dtype=np.float64)


def validated_on(n: int, share: float) -> NDArray[np.bool_]:
    """Return the fixed public mask (n,) of the rows for the sensitive half, about a `share` of them, in (0, 1)."""
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
    """Return X and y of the public half, X and y of the sensitive half, and the sensitive rows' positions.

    Each X is a pandas data frame if X is a table with names, else an array (rows, d). The public columns get the
    types that their own cells imply. The sensitive half has its cells as they were read, and y as a list. All cells
    of a row are missing if its length is not that of the public rows.
    """
    n = _num_samples(X)
    if _num_samples(y) != n:
        raise StudyInvalid(f"X has {n} rows, y has {_num_samples(y)}", remedy="give one y for every row of X")
    chosen = validated_on(n, share)
    rest, taken = np.flatnonzero(~chosen), np.flatnonzero(chosen)
    width = public_width(X[rest]) if is_ragged(X) else 0
    frame = frame_of(X, None, display_name="X", width=width)
    labels = target_values(y, display_name="X", public=rest)
    table = frame.table_with_cells(target_name="", source="X")
    columns = {name: _unprinted(table.cells[name]) if frame.named else table.columns[name] for name in frame.names}
    typed = {name: cells[rest] for name, cells in columns.items()}
    for name, hint in frame.hints().items():
        typed[name] = _own_column(name, typed[name], hint)
    X_rest, X_taken = _table(frame, typed.values()), _table(frame, [cells[taken] for cells in columns.values()])
    y_rest = _own_target([labels[i] for i in rest])
    y_taken = _unprinted(cell_of(labels[i]) for i in taken).tolist()
    return X_rest, y_rest, X_taken, y_taken, taken


def _unprinted(cells: Iterable[object]) -> Cells:
    """Return raw cells (n,), with texts that are printed numbers turned back: "5.0" and "True" are 5 and true.

    A library writes numbers as texts if one other cell of their column is a text, and that may be a sensitive one.
    """
    return as_cells(_value_of_print(cell) if type(cell) is str else cell for cell in cells)


def _value_of_print(text: str) -> object:
    """Return the number, truth value or gap (None) that a library prints as this text; else the text.

    NumPy's fixed-width texts cannot end in zero bytes, so those are removed.
    """
    text = text.rstrip("\0")
    if text in ("True", "False", "true", "false"):  # polars writes them small
        return text in ("True", "true")
    if text == "nan":
        return None
    number = canonical_text(text)
    if not isinstance(number, float):
        return text
    return (
        number
        if repr(number) == text or (INTEGER_PATTERN.fullmatch(text) and abs(number) < MAX_EXACT_INTEGER)
        else text
    )


def _table(frame: Frame, columns: Iterable[Any]) -> Any:
    if not frame.named:
        return np.column_stack(list(columns))
    native = frame.native.to_native()
    made = pd.DataFrame({j: _compact(column) for j, column in enumerate(columns)})
    made.columns = native.columns if isinstance(native, pd.DataFrame) else list(frame.names)
    return made


def _compact(column: Any) -> Any:
    """Return raw cells (n,) as floats if all are numbers or gaps, else as objects; a typed column unchanged."""
    if not (isinstance(column, np.ndarray) and column.dtype == object):
        return column
    if all(cell is None or type(cell) is float for cell in column):
        return column.astype(np.float64)
    return pd.Series(column, dtype=object)


def _own_column(name: str, cells: Cells, hint: Any) -> Any:
    """Return a named column of the PUBLIC rows, in the type that follows from their own cells (n,) alone.

    `hint` is the library's type of the undivided column; it is used only if it is a pandas category. Texts become
    numbers or times if all of them are. Truth values become numbers, because a library turns them into 0 and 1 if
    another cell, perhaps a sensitive one, is a number. Categories that no public row has are dropped.
    """
    values = [canonical_text(cell) for cell in cells]
    if isinstance(hint, pd.CategoricalDtype) and all(
        value == value and value != UNREADABLE_CELL
        for value, cell in zip(values, cells, strict=True)
        if cell is not None
    ):
        return _own_categories(values, hint)
    meant = as_cells(
        float(cell) if isinstance(cell, bool) else None if cell != cell else cell for cell in parse_csv_texts(cells)
    )
    column = column_type(name, meant)
    held = as_cells(column.cell(cell) for cell in (cells if column.kind == "text" else meant))
    return cells if any(cell is UNCONVERTIBLE for cell in held) else column.held(held)


def _own_categories(values: list[float | str], hint: pd.CategoricalDtype) -> Any:
    """Return PUBLIC values (n,) as a pandas category of those that occur, in the column's own order or sorted."""
    there = {value for value in values if value == value}
    ordered = bool(hint.ordered)
    order = (
        dict.fromkeys(map(canonical_text, hint.categories.tolist()))
        if ordered
        else sorted(there, key=lambda it: (isinstance(it, str), it))
    )
    return pd.Categorical(values, categories=[value for value in order if value in there], ordered=ordered)


def _own_target(labels: list[object]) -> NDArray[Any]:
    """Return the PUBLIC classes or targets (n,) as integers if all are whole numbers, else as floats, or as texts.

    Truth values become 0 and 1. Texts that are numbers become numbers if all of them are. A gap is NaN, or None if
    there are texts.
    """
    meant = [canonical_text(label) for label in labels]
    if any(isinstance(value, str) for value in meant):
        cells = _unprinted(map(cell_of, labels))
        texts = [
            None if value != value else shown(cell) if isinstance(cell, float) else str(cell)
            for cell, value in zip(cells, meant, strict=True)
        ]
        return as_cells(texts) if None in texts else np.array(texts)
    values = np.array(meant, dtype=np.float64)
    if np.isfinite(values).all() and (np.abs(values) < MAX_EXACT_INTEGER).all():
        whole = values.astype(np.int64)
        return whole if bool((whole == values).all()) else values
    return values
