"""A public table's fingerprint: equal exactly when the names, their order and all values are equal."""

import hashlib
import struct

import numpy as np

from dpbo_core.data.table import Table


def fingerprint(table: Table) -> str:
    """sha256 (64 hex digits) of a canonical byte form, the same on every machine and from CSV or Parquet.

    For PUBLIC tables only: a hash of a sensitive table would tell whether a guess of it is right. Integers
    are big-endian 8 bytes, numbers little-endian IEEE doubles (one NaN, one zero), texts length and UTF-8.
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
    return digest.hexdigest()


def _add_text(digest: "hashlib._Hash", text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    digest.update(struct.pack(">Q", len(data)) + data)


def _doubles(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bytes:
    return np.where(np.isnan(values), np.nan, values + 0.0).astype("<f8").tobytes()
