"""Reading Parquet so that no record makes it fail: the footer alone determines the number of records.

If the pages of a row group cannot be decoded, all of its records are marked as unusable ("broken"). Numbers, truth
values and texts are read; values of all other types become gaps (NaN).

Columns have the types that Parquet itself gives them. The Arrow schema that some writers add to the footer is
ignored: where it says dictionary, Arrow checks the texts while it decodes, and ONE text that is not UTF-8 fails
its whole row group.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpbo_core.data.addresses import RowGroup
from dpbo_core.data.fetched import CheckedFile, FileContents, StoredObject
from dpbo_core.data.header import Header, ReadMode, column_names
from dpbo_core.data.raw_cells import UNREADABLE_CELL, Cells, arrow_times, as_cells, cells_of
from dpbo_core.data.table import Table
from dpbo_core.data.values import Column, Value, canonical_text, joined, value_column, written_column, written_text
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.privacy.sensitive import attempted

_PANDAS_INDEX = "__index_level_"
_MAGIC = b"PAR1"
CELLS_TOGETHER = 2**21  # of a row group that are read at once
BLOCK_CELLS = 2**21  # of a block that is decoded and scored before the next one
COLUMN_BUFFER_BYTES = 2**18  # of each column that are read ahead of a block


@dataclass(frozen=True)
class _Footer:
    """What the file says of itself: every field's name and type; each row group's number, and its records."""

    names: tuple[str, ...]
    types: tuple[Any, ...]
    groups: Mapping[int, int]


def parquet_header(path: FileContents, *, mode: ReadMode, display_name: str) -> Header:
    """Return a Parquet footer's column names and number of records; refuse a sensitive file's decimals as bytes."""
    file, footer = _open_parquet(path, display_name=display_name)
    leaves = (file.schema.column(i) for i in range(len(file.schema)))
    if mode.sensitive and any(
        leaf.physical_type == "BYTE_ARRAY" and leaf.logical_type.type == "DECIMAL" for leaf in leaves
    ):
        raise StudyInvalid(
            f"{display_name} keeps decimals in byte arrays of any length",
            cause="its writer's choice; ONE of another length than the type allows fails all records of its group",
            remedy="write the column as doubles, or as decimals of a fixed length, as pyarrow does",
        )
    names = column_names([footer.names[i] for i in _column_positions(footer)], mode=mode, display_name=display_name)
    return Header(names, sum(footer.groups.values()))


def read_parquet(
    path: FileContents, *, mode: ReadMode, display_name: str, only: Sequence[str] | None = None
) -> Table:
    """Return all records of a Parquet file, as many as its footer says; unreadable ones raise only if PUBLIC.

    Of a sensitive file nothing but the footer can raise. `only` names the columns to read, in order.
    """
    file, footer = _open_parquet(path, display_name=display_name)
    fields = _column_positions(footer)
    names = column_names([footer.names[i] for i in fields], mode=mode, display_name=display_name)
    if only is not None:
        fields, names = [fields[names.index(name)] for name in only], tuple(only)
    if not mode.sensitive:
        _refuse_types(names, [footer.types[i] for i in fields], display_name=display_name, mode=mode)
    readers = _readers(names, mode)
    parts: list[list[list[Column]]] = [[[] for _ in names] for _ in readers]
    broken = np.zeros(sum(footer.groups.values()), dtype=np.bool_)
    start = 0
    for group, size in footer.groups.items():
        read = _group(file, group, size, [footer.names[i] for i in fields], readers)
        if read is None:
            if not mode.sensitive:
                raise StudyInvalid(
                    f"records {start + 1} to {start + size} of {display_name} cannot be decoded",
                    cause="the file was damaged or cut short",
                    remedy="write it again",
                )
            broken[start : start + size] = True
            read = [[np.full(size, np.nan)] * len(names), [as_cells([None] * size)] * len(names)]
        for part, columns in zip(parts, read, strict=False):
            for pieces, column in zip(part, columns, strict=True):
                pieces.append(column)
        start += size
    values = {name: joined(pieces) for name, pieces in zip(names, parts[0], strict=True)}
    raw = zip(names, parts[1], strict=True) if mode.keeps_cells else ()
    return Table(
        values, broken, display_name, {name: np.concatenate([as_cells([]), *pieces]) for name, pieces in raw}
    )


def parquet_blocks(path: FileContents, *, mode: ReadMode, display_name: str, rows_multiple: int) -> Iterator[Table]:
    """Yield a SENSITIVE Parquet file's records in blocks of a few million cells, each decoded when it is asked for.

    Blocks are cut by position alone: all but a row group's last have a multiple of `rows_multiple` records. A row
    group that cannot be decoded raises after its first blocks: drop them, and call `read_parquet`, which marks its
    records as broken.
    """
    import pyarrow as pa

    file, footer = _open_parquet(path, display_name=display_name)
    written = [footer.names[i] for i in _column_positions(footer)]
    names = column_names(written, mode=mode, display_name=display_name)
    readers = _readers(names, mode)
    rows = rows_multiple * max(1, BLOCK_CELLS // (rows_multiple * max(1, len(names))))
    for group, size in footer.groups.items():
        n_read = 0
        for batch in file.iter_batches(rows, row_groups=[group], columns=written, use_threads=False):
            columns = [pa.chunked_array([batch.column(batch.schema.names.index(name))]) for name in written]
            read = [
                {name: reader(column) for name, reader, column in zip(names, one, columns, strict=True)}
                for one in readers
            ]
            n_read += batch.num_rows
            cells = read[1] if mode.keeps_cells else {}
            yield Table(read[0], np.zeros(batch.num_rows, dtype=np.bool_), display_name, cells)
        if n_read != size:
            raise Sealed


def text_names(path: FileContents, *, display_name: str) -> frozenset[str]:
    """Return the names of a Parquet file's columns of texts, by its footer."""
    footer = _open_parquet(path, display_name=display_name)[1]
    kinds = zip(footer.names, footer.types, strict=True)
    return frozenset(name.strip() for name, kind in kinds if _type_in_words(kind) == "text")


def row_groups(path: Path) -> tuple[Path | RowGroup, ...]:
    """Return each row group of a Parquet file as a part; the file itself if it has one, or cannot be read."""
    n = attempted(lambda: len(_open_parquet(path, display_name=path.name)[1].groups), 1)
    return tuple(RowGroup(path, index) for index in range(n)) if n > 1 else (path,)


def parquet_values(path: FileContents, column: str, *, display_name: str) -> list[object]:
    """Return a column's values, as many as the footer says; None for each that cannot be decoded."""
    file, footer = _open_parquet(path, display_name=display_name)
    name = footer.names[[name.strip() for name in footer.names].index(column)]  # as the header's check saw it
    values: list[object] = []
    for group, size in footer.groups.items():
        read = _group(file, group, size, [name], [[_values_one_by_one]])
        values += [None] * size if read is None else read[0][0]
    return values


def _values_one_by_one(column: Any) -> list[object]:
    import pyarrow as pa

    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())  # as bytes: a text that is not UTF-8 costs its own record
    short = pa.types.is_float16(column.type) or pa.types.is_float32(column.type)
    return list(column.to_numpy()) if short else list(column.to_pylist())  # a short float keeps its precision


def _readers(names: Sequence[str], mode: ReadMode) -> list[list[Callable[[Any], Any]]]:
    """Return what decodes each column to its values and, if `mode` keeps them, what decodes it to raw cells."""
    readers: list[list[Callable[[Any], Any]]] = [
        [_written_column if name in mode.texts else _decoded_column for name in names]
    ]
    return readers + ([[_cells] * len(names)] if mode.keeps_cells else [])


def _open_parquet(path: FileContents, *, display_name: str) -> tuple[Any, _Footer]:
    """Return the open Parquet file and its footer; refused if unreadable, or its record counts disagree."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    own = _footer_bytes(path)
    # The message is raised after the except block, so that no cause or context travels with it.
    try:
        name = path.path if isinstance(path, RowGroup) else path
        source = (
            pa.BufferReader(name.content)
            if isinstance(name, StoredObject)
            else pa.PythonFile(name.open(), mode="r")  # opened by us, and checked, once more
            if isinstance(name, CheckedFile)
            else pa.OSFile(str(name))
        )
        metadata = pq.read_metadata(pa.BufferReader(own))
        # as it comes, Arrow reads all of a row group's columns before it decodes one
        file = pq.ParquetFile(source, metadata=metadata, buffer_size=COLUMN_BUFFER_BYTES, pre_buffer=False)
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        consistent = file.metadata.num_rows == sum(sizes) and min(sizes, default=0) >= 0
        groups = {path.index: sizes[path.index]} if isinstance(path, RowGroup) else dict(enumerate(sizes))
        footer = _Footer(tuple(file.schema_arrow.names), tuple(file.schema_arrow.types), groups)
    except Exception:  # noqa: BLE001  a damaged footer fails in many ways
        consistent = False
    if not consistent:
        raise StudyInvalid(
            f"{display_name} is not a readable Parquet file",
            cause="it is encrypted, cut short, or of another format",
            remedy="write it again as plain Parquet",
        )
    return file, footer


def _footer_bytes(path: FileContents) -> bytes:
    """Return the footer as the bytes of a Parquet file of its own, without Arrow schema; empty if there is none."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        end = file.read(8)
        if len(end) < 8 or not end.endswith(_MAGIC):
            return b""
        (length,) = struct.unpack("<I", end[:4])
        file.seek(max(0, size - 8 - length))
        # Arrow looks for its schema under the first name: renamed, to the same length, it is ignored
        return _MAGIC + file.read(length).replace(b"ARROW:schema", b"arrow.schema") + end


def _column_positions(footer: _Footer) -> list[int]:
    """Return the positions of the file's columns, without the row index that pandas may add as a column."""
    return [i for i, name in enumerate(footer.names) if not name.startswith(_PANDAS_INDEX)]


def _group(
    file: Any, group: int, size: int, names: list[str], readers: Sequence[Sequence[Callable[[Any], Any]]]
) -> list[list[Any]] | None:
    """Return one row group's columns as each list of readers (one a column) decodes them; None if a page fails."""
    together = max(
        1, CELLS_TOGETHER // max(1, size)
    )  # columns: beside them lie their pages as they are in the file
    try:
        columns = []
        for start in range(0, len(names), together):
            some = names[start : start + together]
            table = file.read_row_group(group, columns=some)  # and what lies under one, were it a column of columns
            columns += [table.column(table.schema.names.index(name)) for name in some]
        read = [[reader(column) for reader, column in zip(one, columns, strict=True)] for one in readers]
        return read if all(len(column) == size for columns in read for column in columns) else None
    except Exception:  # noqa: BLE001  whatever the pages hold, their records are broken and nothing is raised
        return None


def _written_column(values: Any) -> Column:
    """Return an Arrow column as texts as they were written; all NaN if it has neither numbers nor texts."""
    number = _type_in_words(values.type) in ("number", "decimal")
    return written_column(values.to_pylist()) if number else _decoded_column(values, written_text)


def _decoded_column(values: Any, meaning_of: Callable[[object], Value] = canonical_text) -> Column:
    """Return an Arrow column's values, of texts by `meaning_of`; all NaN if it is of another type."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    meaning = _type_in_words(values.type)
    if meaning == "number":
        doubles = values.cast(pa.float64(), safe=False)
        if doubles.num_chunks == 1:  # as it was decoded, not copied
            return np.asarray(doubles.chunk(0).to_numpy(zero_copy_only=False), dtype=np.float64)
        return np.asarray(doubles.to_numpy(), dtype=np.float64)
    if meaning == "decimal":
        return value_column(values.to_pylist())
    if meaning == "text":
        # As bytes: a text that is not UTF-8 must cost its own record only. Each distinct one is read once.
        encoded = pa.concat_arrays(values.cast(pa.large_binary()).chunks or [pa.array([], pa.large_binary())])
        encoded = encoded.dictionary_encode()
        texts = [*map(meaning_of, encoded.dictionary.to_pylist())]
        distinct = np.empty(len(texts) + 1, dtype=object)
        distinct[:] = [*texts, float("nan")]
        column = distinct[encoded.indices.fill_null(-1).to_numpy()]
        if any(isinstance(value, str) for value in texts):
            return np.asarray(column, dtype=object)
        return np.asarray(column, dtype=np.float64)
    return np.full(len(values), np.nan)


def _cells(values: Any) -> Cells:
    """Return an Arrow column's raw cells, `UNREADABLE_CELL` for a value that cannot be read."""
    import pyarrow as pa

    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_timestamp(values.type) or pa.types.is_date(values.type):
        return arrow_times(values)
    meaning = _type_in_words(values.type)
    if meaning == "number" and not pa.types.is_boolean(values.type):
        return cells_of(_decoded_column(values).tolist())
    if meaning == "text":
        return cells_of(values.cast(pa.large_binary()).to_pylist())
    if meaning in ("number", "decimal"):
        return cells_of(values.to_pylist())
    return as_cells([UNREADABLE_CELL] * len(values))


def _type_in_words(kind: Any) -> str:
    """Return what a column of an Arrow type holds: "number", "decimal", "text", or "nothing" that is read."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(kind):
        return _type_in_words(kind.value_type)
    if is_.is_boolean(kind) or is_.is_integer(kind) or is_.is_floating(kind) or is_.is_null(kind):
        return "number"
    if is_.is_decimal(kind):
        return "decimal"
    texts = (is_.is_string, is_.is_large_string, is_.is_binary, is_.is_large_binary, is_.is_fixed_size_binary)
    return "text" if any(test(kind) for test in (*texts, is_.is_string_view, is_.is_binary_view)) else "nothing"


def _refuse_types(names: tuple[str, ...], kinds: list[Any], *, display_name: str, mode: ReadMode) -> None:
    """Refuse a PUBLIC file with a column of neither numbers, truth values, texts nor, where kept, times."""
    import pyarrow as pa

    for name, kind in zip(names, kinds, strict=True):
        if mode.keeps_cells and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
            continue
        if _type_in_words(kind) == "nothing":
            raise StudyInvalid(
                f"column {name!r} of {display_name} is of type {kind}",
                cause="columns hold numbers, truth values or texts",
                remedy="convert the column (a date to a number of days, say) or drop it from both files",
            )
