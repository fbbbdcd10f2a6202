"""A public table's fingerprint: equal exactly when the names, their order and all values are equal."""

import hashlib
import struct

import numpy as np

from dpbo_core.data.cells import Cells
from dpbo_core.data.table import Table


def fingerprint(table: Table) -> str:
    """sha256 (64 hex digits) of a canonical byte form, the same on every machine and from CSV or Parquet.

    For PUBLIC tables only: a hash of a sensitive table would tell whether a guess of it is right. Integers
    are big-endian 8 bytes, numbers little-endian IEEE doubles (one NaN, one zero), texts length and UTF-8. Where
    raw cells are kept, those that say more than the values (a time, a text that reads as a number) are hashed too.
    """
    digest = hashlib.sha256(b"dpbo table 1\0")
    digest.update(struct.pack(">QQ", len(table.columns), table.n_records))
    for name, column in table.columns.items():
        _add_text(digest, name)
        if column.dtype == object:
            digest.update(b"O")
            for value in column:
                if isinstance(value, str):
                    digest.update(b"s")
                    _add_text(digest, value)
                else:
                    digest.update(b"n" + _doubles(np.array([value], dtype=np.float64)))
        else:
            digest.update(b"N" + _doubles(column))
    for name, cells in table.cells.items():
        if not all(map(_same, cells, table.columns[name])):
            _add_text(digest, f"cells {name}")
            _add_cells(digest, cells)
    return digest.hexdigest()


def _same(cell: object, value: object) -> bool:
    """Whether a raw cell says what its canonical value says."""
    if cell is None:
        return value != value
    return isinstance(cell, str | float | bool) and cell == value


def _add_cells(digest: "hashlib._Hash", cells: Cells) -> None:
    for cell in cells:
        _add_text(digest, f"{type(cell).__name__} {cell!r}")


def _add_text(digest: "hashlib._Hash", text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    digest.update(struct.pack(">Q", len(data)) + data)


def _doubles(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bytes:
    return np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8").tobytes()
