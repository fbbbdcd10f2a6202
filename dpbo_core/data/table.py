"""A table as it was read: columns of canonical values and, for each record, whether it could be read at all.

| symbol | name here | meaning | shape |
|---|---|---|---|
| m | `n_records` | records, public | scalar |
| | `columns[name]` | float64, or objects that are float or str (`values.py`) | (m,) |
| | `cells[name]` | the raw cells (`cells.py`), where they were asked for | (m,) objects |
| | `broken` | the record is no record of this table: wrong number of fields, bad bytes | (m,) |
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.cells import Cells, as_cells, cell_of
from dpbo_core.data.values import Column, value_column


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Read-only columns of one length. Its repr says the size and nothing else.

    Attributes:
        columns: by name, in the file's order.
        broken: (m,) records of which nothing may be used; their entries are NaN.
        source: what messages call it, "train.csv" say.
        cells: the raw cells by name; empty where nobody asked for them.
    """

    columns: Mapping[str, Column]
    broken: NDArray[np.bool_]
    source: str = "the table"
    cells: Mapping[str, Cells] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any(len(column) != len(self.broken) for column in self.columns.values()):
            raise ValueError("the columns of a table have one length")
        for array in (*self.columns.values(), *self.cells.values(), self.broken):
            array.setflags(write=False)
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))

    def __repr__(self) -> str:
        return f"<Table: {len(self.columns)} columns, {self.n_records} records>"

    @property
    def n_records(self) -> int:
        """m: how many records the table holds."""
        return len(self.broken)

    def without(self, names: Collection[str]) -> "Table":
        """The table without the columns `names`; those it does not have are ignored."""
        kept = {name: column for name, column in self.columns.items() if name not in names}
        cells = {name: column for name, column in self.cells.items() if name not in names}
        return Table(kept, self.broken, self.source, cells)

    def cells_of(self, name: str) -> Cells:
        """The raw cells (m,) of a column; what the canonical values say where the raw ones were not kept."""
        found = self.cells.get(name)
        return as_cells(map(cell_of, self.columns[name].tolist())) if found is None else found

    def each_column(self) -> Iterator[tuple[str, "Table"]]:
        """Names, and for each a table that has this column: the table itself."""
        for name in self.columns:
            yield name, self

    def parts(self) -> Iterator["Table"]:
        """Its parts, one after the other: itself."""
        yield self

    def but(self, broken: NDArray[np.bool_]) -> "Table":
        """The table with the records `broken` (m,) broken too."""
        return Table(self.columns, self.broken | broken, self.source, self.cells)

    def place(self, record: int) -> str:
        """Where `record` (from 0) stands in its file, for messages about PUBLIC tables."""
        return f"line {record + 2}" if self.source.lower().endswith(".csv") else f"record {record + 1}"


def table_of(columns: Mapping[str, Sequence[object] | NDArray[Any]], *, source: str = "the table") -> Table:
    """A table of in-memory columns, each a sequence or array (m,) of anything; no record of it is broken.

    Raises:
        ValueError: if the columns differ in length, or there are none.
    """
    read = {name: _column(values) for name, values in columns.items()}
    if not read:
        raise ValueError("a table has at least one column")
    n_records = len(next(iter(read.values())))
    return Table(read, np.zeros(n_records, dtype=np.bool_), source)


def _column(values: Sequence[object] | NDArray[Any]) -> Column:
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        with np.errstate(all="ignore"):  # a longer float may overflow to infinity, which is a value like others
            return values.astype(np.float64)
    return value_column(list(values))
