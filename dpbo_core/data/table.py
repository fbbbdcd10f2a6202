"""A table as it was read, its fingerprint, and its encoded form for a model: records are replaced, never dropped.

| symbol | name here | meaning | shape |
|---|---|---|---|
| m | `n_records` | records, public | scalar |
| | `columns[name]` | float64, or objects that are float or str (`values.py`) | (m,) |
| | `cells[name]` | the raw cells (`raw_cells.py`), where they were asked for | (m,) objects |
| | `broken` | the record is no record of this table: wrong number of fields, bad bytes | (m,) |
| X | `Encoded.X` | features, C-contiguous float64; the zero row where `labels` is −1 | (m, d) |
| | `labels` | class index into `Preprocessing.classes`, −1 for a broken record or an unknown label | (m,) |
| y | `signs` | +1 for class 1 and for replaced records, −1 for class 0 | (m,) |

Where the estimator takes the table's own columns (`named_columns`), X holds objects, and `UNCONVERTIBLE` in
replaced rows.
"""

import hashlib
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.header import ReadMode
from dpbo_core.data.raw_cells import Cells, as_cells, cell_of
from dpbo_core.data.values import Column, is_mixed, public_column, value_column, written_column
from dpbo_core.errors import StudyInvalid


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """Read-only columns of one length. Its repr says the size and nothing else."""

    columns: Mapping[str, Column]  # by name, in the file's order
    broken: NDArray[np.bool_]  # (m,) records of which nothing may be used; their entries are NaN
    source: str = "the table"  # what messages call it
    cells: Mapping[str, Cells] = field(default_factory=dict)  # the raw cells by name; empty if not asked for
    csv: bool = False  # whether it was read from lines of text, so that a text is whatever it says
    positions: NDArray[np.intp] | None = None  # of a PUBLIC table's records in its file, if some were left out

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
        """The number m of records in the table."""
        return len(self.broken)

    def without(self, names: Collection[str]) -> "Table":
        """Return the table without the columns `names`; those it does not have are ignored."""
        columns = {name: column for name, column in self.columns.items() if name not in names}
        cells = {name: column for name, column in self.cells.items() if name not in names}
        return replace(self, columns=columns, cells=cells)

    def cells_of(self, name: str) -> Cells:
        """Return the values (m,) of a column as they were in the file, if kept; else as numbers or texts."""
        raw = self.cells.get(name)
        return as_cells(map(cell_of, self.columns[name].tolist())) if raw is None else raw

    def each_column(self) -> Iterator[tuple[str, "Table"]]:
        """Yield each column's name with a table that has at least this column: here the table itself."""
        for name in self.columns:
            yield name, self

    def parts(self) -> Iterator["Table"]:
        """Yield the tables that this one is stacked from, in order: itself alone."""
        yield self

    def with_broken(self, broken: NDArray[np.bool_]) -> "Table":
        """Return the same table with the records of the mask `broken` (m,) marked as unreadable too."""
        return replace(self, broken=self.broken | broken)

    def having(self, name: str) -> "Table":
        """Return the records with a value in column `name`, of a PUBLIC table; a sensitive one keeps all."""
        records = np.flatnonzero([value == value for value in self.columns[name].tolist()])
        columns = {own: column[records] for own, column in self.columns.items()}
        cells = {own: column[records] for own, column in self.cells.items()}
        return replace(self, columns=columns, broken=self.broken[records], cells=cells, positions=records)

    def place(self, record: int) -> str:
        """Return where `record` (from 0) is in its file, as text, for messages about PUBLIC tables."""
        record = record if self.positions is None else int(self.positions[record])
        return f"line {record + 2}" if self.csv else f"record {record + 1}"


def of_one_type(read: Callable[[ReadMode], Table], mode: ReadMode) -> Table:
    """Return the table that `read` reads by `mode`, with one type for each column.

    A column of a PUBLIC table in which one value is no number is read again as texts. A sensitive table has the
    types that `mode` states.
    """
    table = read(mode)
    mixed = (
        frozenset() if mode.sensitive else frozenset(n for n, values in table.columns.items() if is_mixed(values))
    )
    if not mixed:
        return table
    del table
    return read(replace(mode, texts=mode.texts | mixed))


def joined(tables: Sequence[Table]) -> Table:
    """Return tables stacked to one in the columns that all of them have; each column as wide a type as it needs."""
    first = tables[0]
    if len(tables) == 1:
        return first
    names = [name for name in first.columns if all(name in table.columns for table in tables)]
    return Table(
        {name: np.concatenate([table.columns[name] for table in tables]) for name in names},
        np.concatenate([table.broken for table in tables]),
        first.source,
        {name: np.concatenate([table.cells_of(name) for table in tables]) for name in names if name in first.cells},
        first.csv,
    )


def table_of(
    columns: Mapping[str, Sequence[object] | NDArray[Any]],
    *,
    source: str = "the table",
    texts: Collection[str] | None = (),
) -> Table:
    """Return a table of columns in memory, each a sequence or array (m,) of anything; no record is unusable.

    `texts` are the columns of texts, by public facts; None if the values are PUBLIC and say it themselves.
    """
    read = {
        name: _as_column(
            values, public_column if texts is None else written_column if name in texts else value_column
        )
        for name, values in columns.items()
    }
    if not read:
        raise ValueError("a table has at least one column")
    n_records = len(next(iter(read.values())))
    return Table(read, np.zeros(n_records, dtype=np.bool_), source)


def _as_column(values: Sequence[object] | NDArray[Any], read: Callable[[Sequence[object]], Column]) -> Column:
    """Return a sequence or array (m,) of anything as a table's column: numbers as they are, all else by `read`."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub" and read is not written_column:
        with np.errstate(all="ignore"):  # a longer float may overflow to infinity, which is a value like others
            return values.astype(np.float64)
    return read(list(values))


@dataclass(frozen=True, eq=False, repr=False)
class Encoded:
    """The encoded records of a table, each with a score whatever it holds. Its repr says the size alone."""

    X: NDArray[np.float64]  # (m, d) float64, or objects
    labels: NDArray[np.int64]  # (m,); −1 wherever the record is replaced, so that no prediction equals it
    broken: NDArray[np.bool_]  # (m,) the features could not be used
    n_classes: int  # of the training table; 0 for a regression, whose `labels` are 0 if the target is usable
    targets: NDArray[np.float64] | None = None  # (m,) of a regression, 0 if the record is replaced

    def __post_init__(self) -> None:
        for array in (self.X, self.labels, self.broken, *(() if self.targets is None else (self.targets,))):
            array.setflags(write=False)

    def __repr__(self) -> str:
        return f"<Encoded: {self.X.shape[0]} records, {self.X.shape[1]} features>"

    @property
    def n_records(self) -> int:
        """The number m of records in the table."""
        return len(self.labels)

    def part(self, records: slice | NDArray[np.intp]) -> "Encoded":
        """Return the encoded records that a slice (not copied) or indices choose."""
        targets = None if self.targets is None else self.targets[records]
        return Encoded(self.X[records], self.labels[records], self.broken[records], self.n_classes, targets)

    @property
    def truth(self) -> NDArray[np.int64] | NDArray[np.float64]:
        """What predictions are compared with, (m,): class indices, or a regression's targets."""
        return self.labels if self.targets is None else self.targets

    @property
    def signs(self) -> NDArray[np.float64]:
        """The labels Y (m,) in {−1, +1}, a replaced record's +1 beside x = 0; refused but for two classes."""
        if self.n_classes != 2:
            raise StudyInvalid(
                f"the target has {self.n_classes} classes, a margin needs two",
                cause="the linear models and the scores of their margin are binary",
                remedy="use a scikit-learn estimator with a score of classes, or two classes",
            )
        # By arithmetic: the duration of a masked copy depends on the mask, and is five times as long.
        signs: NDArray[np.float64] = (self.labels != 0).astype(np.float64)
        signs *= 2.0
        signs -= 1.0
        return signs


def fingerprint(table: Table) -> str:
    """Return the SHA-256 in hex of a PUBLIC table's values, the same on every machine and from CSV or Parquet.

    For PUBLIC tables only: a hash of a sensitive table would tell whether a guess of it is right. Integers
    are big-endian 8 bytes, numbers little-endian IEEE doubles (one NaN, one zero), texts length and UTF-8. Where
    raw cells are kept, those that say more than the values (a time, a text that reads as a number) are hashed too.
    """
    digest = hashlib.sha256(b"dpbo table 1\0")
    digest.update(struct.pack(">QQ", len(table.columns), table.n_records))
    for name, column in table.columns.items():
        _hash_text(digest, name)
        if column.dtype == object:
            digest.update(b"O")
            for value in column:
                if isinstance(value, str):
                    digest.update(b"s")
                    _hash_text(digest, value)
                else:
                    digest.update(b"n" + _canonical_bytes(np.array([value], dtype=np.float64)))
        else:
            digest.update(b"N" + _canonical_bytes(column))
    for name, cells in table.cells.items():
        if not all(map(_agrees, cells, table.columns[name])):
            _hash_text(digest, f"cells {name}")
            for cell in cells:
                _hash_text(digest, f"{type(cell).__name__} {cell!r}")
    return digest.hexdigest()


def _agrees(cell: object, value: object) -> bool:
    """Return whether a file's own value says what the number or text read from it says."""
    if cell is None:
        return value != value
    return isinstance(cell, str | float | bool) and cell == value


def _hash_text(digest: "hashlib._Hash", text: str) -> None:
    """Add a text to the digest, its length before it."""
    data = text.encode("utf-8", "surrogatepass")
    digest.update(struct.pack(">Q", len(data)) + data)


def _canonical_bytes(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bytes:
    """Return the bytes of doubles, little-endian, with one NaN and one zero."""
    return np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8").tobytes()
