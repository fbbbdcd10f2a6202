"""A PUBLIC table in many Parquet files, of which a few columns, or one file, are in memory at a time.

| symbol | name here | meaning | shape |
|---|---|---|---|
| p | `len(files)` | files, in the order of their names | scalar ≥ 1 |
| n | `n_records` | records of all files together, the first file's first | scalar |
"""

import hashlib
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from dpbo_core.data.files import read_header, read_table
from dpbo_core.data.header import PUBLIC_FILE, check_columns, check_target
from dpbo_core.data.parquet_file import read_parquet, text_names
from dpbo_core.data.table import Table, fingerprint
from dpbo_core.data.values import Column, is_mixed, joined
from dpbo_core.errors import StudyInvalid

MAX_VALUES_PER_READ = 2**24  # of columns that are read together: 128 MB
_State = tuple[int, int, int]  # which file it is, when it was written, how long it is


@dataclass(frozen=True)
class _File:
    path: Path
    display_name: str
    state: _State
    n_records: int


@dataclass(frozen=True, eq=False, repr=False)
class _ColumnsOfParts(Table):
    """Some columns of all files, which know where a record stands."""

    files: tuple[_File, ...] = ()

    def place(self, record: int) -> str:
        """Return where `record` (from 0) of all files is, as text: its number in which file."""
        for file in self.files:
            if record < file.n_records:
                return f"record {record + 1} of {file.path.name}"
            record -= file.n_records
        raise IndexError(record)


@dataclass(frozen=True, eq=False, repr=False)
class TableParts:
    """The files as they were found, their content unread. They must stay as they are while they are used."""

    files: tuple[_File, ...]  # in the order of their names
    columns: tuple[str, ...]  # names of the first file, less what was left out
    source: str  # what messages call the folder

    @classmethod
    def of(cls, paths: Sequence[Path], target: str, *, display_name: str) -> Self:
        """Return a table over one or more files, from their headers alone; refused if the columns differ."""
        files, columns = [], None
        for path in paths:
            name = f"{display_name}/{path.name}"
            state = _file_state(path, name)
            header = read_header(path, mode=PUBLIC_FILE, display_name=name)
            columns = columns or header.columns
            check_target(columns, target, mode=PUBLIC_FILE)
            check_columns(columns, header.columns, display_name=name)
            files.append(_File(path, name, state, header.n_records))
        return cls(tuple(files), columns or (), display_name)

    @property
    def n_records(self) -> int:
        """The number n of records in the files."""
        return sum(file.n_records for file in self.files)

    def without(self, names: Collection[str]) -> "TableParts":
        """Return the table without the columns `names`; those it does not have are ignored."""
        return TableParts(self.files, tuple(name for name in self.columns if name not in names), self.source)

    @cached_property
    def texts(self) -> frozenset[str]:
        """The columns of texts: in one of the files one value is no number."""
        in_files: set[str] = set()
        for file in self.files:
            _check_unchanged(file)
            in_files |= text_names(file.path, display_name=file.display_name)
        names = (name for name in self.columns if name in in_files)
        return frozenset(name for name in names if is_mixed(self._columns((name,), frozenset())[name]))

    def _columns(self, names: Sequence[str], texts: frozenset[str]) -> dict[str, Column]:
        """Return some columns of all files' records, some of them as texts."""
        parts = []
        for file in self.files:
            _check_unchanged(file)
            mode = replace(PUBLIC_FILE, texts=texts)
            parts.append(read_parquet(file.path, mode=mode, display_name=file.display_name, only=names).columns)
        return {name: joined([part[name] for part in parts]) for name in names}

    def only(self, *names: str) -> Table:
        """Return a table in memory of some columns of all files' records; refused if a file changed since `of`."""
        columns = self._columns(names, self.texts)
        return _ColumnsOfParts(columns, np.zeros(self.n_records, np.bool_), self.source, files=self.files)

    def each_column(self) -> Iterator[tuple[str, Table]]:
        """Each column's name with a table of all records that has it; as many columns are read at once as fit."""
        at_once = max(1, MAX_VALUES_PER_READ // max(1, self.n_records))
        for start in range(0, len(self.columns), at_once):
            names = self.columns[start : start + at_once]
            table = self.only(*names)
            for name in names:
                yield name, table

    def parts(self) -> Iterator[Table]:
        """Yield the table of each file, one after another; refused if a file changed since `of`."""
        for file in self.files:
            _check_unchanged(file)
            mode = replace(PUBLIC_FILE, texts=self.texts)
            table = read_table(file.path, mode=mode, display_name=file.display_name)
            yield Table({name: table.columns[name] for name in self.columns}, table.broken, table.source)


class PartsFingerprint:
    """A fingerprint made while PUBLIC files are read: of their content in their order, and of where each ends."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256(b"dpbo table parts 1\0")

    def add(self, part: Table) -> None:
        """Update the fingerprint with the next file's records."""
        self._digest.update(struct.pack(">Q", part.n_records) + bytes.fromhex(fingerprint(part)))

    def hexdigest(self) -> str:
        """Return the fingerprint of the files added so far, 64 hex digits."""
        return self._digest.hexdigest()


def parts_fingerprint(table: TableParts) -> str:
    """Return the fingerprint (64 hex digits) of all files of a PUBLIC table, read one after another."""
    digest = PartsFingerprint()
    for part in table.parts():
        digest.add(part)
    return digest.hexdigest()


def _check_unchanged(file: _File) -> None:
    if _file_state(file.path, file.display_name) != file.state:
        raise StudyInvalid(
            f"{file.display_name} was written again while the study read it",
            cause="another program writes to the folder",
            remedy="run again when it has ended",
        )


def _file_state(path: Path, display_name: str) -> _State:
    """Return what changes when a file does: its inode, time and size; refused if it is gone."""
    try:
        status = path.stat()
    except OSError:
        raise StudyInvalid(
            f"{display_name} no longer exists, or cannot be read",
            cause="another program removed it, or its permissions",
            remedy="put it back, or run again with the files that are there: another study",
        ) from None
    return status.st_ino, status.st_mtime_ns, status.st_size
