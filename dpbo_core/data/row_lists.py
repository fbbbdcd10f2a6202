"""A list of rows, of which the number is public and nothing else is looked at before it is paid for.

A row is a list, a tuple or a one-dimensional array, read by the built-in type's own functions: no code of a row's
own class runs. A row of another kind or another length is no record of this table; no row says what another means.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np


class RowList:
    """Rows (m, width) of anything.

    Attributes:
        rows: as they were given, (m,).
        width: the public number of columns.
    """

    def __init__(self, rows: Sequence[Any], width: int) -> None:
        self.rows, self.width = rows, width

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"<RowList: {self.width} columns, {len(self)} records>"

    def column(self, place: int) -> list[object]:
        """One value a record, (m,); None where a row is no record."""
        return [row[place] for row in self._cells]

    @cached_property
    def _cells(self) -> list[list[object]]:
        nothing: list[object] = [None] * self.width
        cells = (cells_of(row) for row in self.rows)
        return [nothing if row is None or len(row) != self.width else row for row in cells]


def cells_of(row: Any) -> list[object] | None:
    """The cells of one row (d,), or None where it is no row. Never raises."""
    kind = type(row)
    if issubclass(kind, list):
        return list.__getitem__(row, slice(None))
    if issubclass(kind, tuple):
        return list(tuple.__getitem__(row, slice(None)))
    if kind is np.ndarray:
        return list(row) if row.ndim == 1 else None
    return None


def public_width(rows: Iterable[Any]) -> int | None:
    """The one length d of all rows of a PUBLIC table; None where they have several, or one is no row."""
    cells = [cells_of(row) for row in rows]
    lengths = {None if row is None else len(row) for row in cells}
    return lengths.pop() if len(lengths) == 1 else None
