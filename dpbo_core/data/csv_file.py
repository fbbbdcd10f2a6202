"""CSV, read totally: a record is one physical line, and each line is read alone.

Lines end at the newline byte only (a carriage return before it is dropped); the last one may lack it. The
first line is the header. A line that is not UTF-8, is blank, has another number of fields, an overlong field
or a stray quote is a broken record; it cannot swallow its neighbours, whatever quotes it holds.

Fields are separated by the sign that splits the header line, which is public, into most fields: comma, tab or
semicolon. A comma before a space counts only where there is no other sign. Behind semicolons "29,4" is the number
29.4, as spreadsheets of many countries write it.
"""

import csv
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import BinaryIO

import numpy as np

from dpbo_core.data.fetched import FileContents
from dpbo_core.data.header import SENSITIVE_FILE, Header, ReadMode, column_names
from dpbo_core.data.raw_cells import FIELD_LIMIT, as_cells, text_cell
from dpbo_core.data.table import Table
from dpbo_core.data.values import Column, joined, text_column
from dpbo_core.errors import StudyInvalid

TRUTH_VALUES = ("true", "false")
SEPARATORS = {"\t": "tab", ";": "semicolon", ",": "comma"}
_DECIMAL = re.compile(r"^\s*([+-]?\d+),(\d+)\s*$", re.ASCII)
_BOM = b"\xef\xbb\xbf"
N_LINES_PER_BLOCK = 8192  # bounds the memory that the fields of a large file take as Python strings
_BYTES_PER_READ = 1 << 20


def split_csv_line(line: bytes, separator: str = ",", *, decimal_commas: bool = True) -> list[str] | None:
    """Return the fields of one line; None if it is no CSV record.

    Between semicolons a decimal comma becomes a point (1,5 is 1.5), unless `decimal_commas` is False.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text:
        return None
    if '"' not in text and "\r" not in text and len(text) <= FIELD_LIMIT:
        fields = text.split(separator)  # nothing here that the csv module would treat otherwise
    else:
        try:
            rows = list(csv.reader([text], delimiter=separator, strict=True))
        except csv.Error:
            return None
        if len(rows) != 1 or max(map(len, rows[0]), default=0) > FIELD_LIMIT:
            return None
        fields = rows[0]
    return fields if separator != ";" or not decimal_commas else [_DECIMAL.sub(r"\1.\2", field) for field in fields]


def detect_separator(header: bytes) -> str:
    """Return the separator of a CSV file: the most frequent in its header line, outside quotes; else a comma."""
    names = re.sub(r'"[^"]*"|, ', "", header.decode(errors="replace"))
    sign = max(SEPARATORS, key=names.count)
    return sign if sign in names else ","


def csv_names(file: BinaryIO, *, mode: ReadMode, display_name: str) -> tuple[str, tuple[str, ...]]:
    """Read a CSV file's header line: the separator and the columns' names; raises if it is not one."""
    line = file.readline().removeprefix(_BOM)
    separator = detect_separator(line)
    fields = split_csv_line(line, separator)
    if not mode.sensitive:
        _refuse_first_line(line, fields, display_name=display_name)
    if fields is None:
        raise StudyInvalid(
            f"{display_name} is not a CSV file with a header line",
            cause="it is empty, encrypted, compressed, or not UTF-8 text",
            remedy="export it as comma-separated UTF-8 with the column names in the first line",
        )
    return separator, column_names(fields, mode=mode, display_name=display_name)


def _refuse_first_line(line: bytes, fields: list[str] | None, *, display_name: str) -> None:
    """Refuse a PUBLIC first line that is no header but a remark, or ends where none should."""
    what, remedy = "", "remove that line from both files"
    if line.lower().startswith(b"sep="):
        what = "says what separates the fields, as Excel has it"
    elif line.startswith(b"#") and (fields is None or len(fields) == 1 or line[1:2] == b" "):
        what = "is a remark"
    elif b"\r" in line.removesuffix(b"\n").removesuffix(b"\r"):
        what, remedy = "ends in a carriage return alone, as all others do", "write line feeds in both files"
    elif fields is not None and len(fields) > 1 and not fields[-1].strip() and fields[-2].strip():
        what, remedy = "ends in a separator", "remove it from each line of both files, or name the last column"
    if what:
        raise StudyInvalid(
            f"the first line of {display_name} {what}", cause="the program that wrote it", remedy=remedy
        )


def csv_header(contents: FileContents, *, mode: ReadMode, display_name: str) -> Header:
    """Return a CSV header's column names and the number of lines after it, none parsed; raises if it is not one."""
    with contents.open("rb") as file:
        _, names = csv_names(file, mode=mode, display_name=display_name)
        count, last = 0, b"\n"
        while block := file.read(_BYTES_PER_READ):
            count += block.count(b"\n")
            last = block[-1:]
    return Header(names, count + (last != b"\n"))


def table_in(contents: FileContents, *, mode: ReadMode, display_name: str) -> Table:
    """Return the records of a CSV file, by `read_csv`."""
    with contents.open("rb") as file:
        return read_csv(file, mode=mode, display_name=display_name)


def csv_values(contents: FileContents, column: str, *, display_name: str) -> Iterable[object]:
    """Return a column's fields in a SENSITIVE file whose header was checked; None for a line that is no record."""
    with contents.open("rb") as file:
        table = read_csv(file, mode=SENSITIVE_FILE.with_cells(), display_name=display_name, only=(column,))
    return table.cells[column]


def read_csv(file: BinaryIO, *, mode: ReadMode, display_name: str, only: Sequence[str] | None = None) -> Table:
    """Return all records of a CSV file as a table, one a line after the header; a broken one raises only if PUBLIC.

    Of a sensitive file nothing but the header can raise. `only` names the columns to read, which it has.
    """
    file.seek(0)
    separator, header = csv_names(file, mode=mode, display_name=display_name)
    names = header if only is None else only
    parts: dict[str, list[Column]] = {name: [] for name in names}
    raw: dict[str, list[object]] = {name: [] for name in names} if mode.keeps_cells else {}
    truths = {*(() if mode.sensitive else names)}  # columns of true and false alone, which are numbers too
    broken: list[bool] = []
    unread = ["nan"] * len(header)  # the fields of a line that is no record: all missing
    while lines := list(islice(file, N_LINES_PER_BLOCK)):
        rows = [split_csv_line(line, separator) for line in lines]
        if not mode.sensitive:
            _refuse_broken_rows(rows, len(header), separator, first_line=len(broken) + 2, display_name=display_name)
        whole = [fields if fields is not None and len(fields) == len(header) else unread for fields in rows]
        broken.extend(fields is unread for fields in whole)
        for name, texts in zip(header, zip(*whole, strict=True), strict=True):
            if name not in parts:
                continue
            parts[name].append(text_column(texts, as_written=name in mode.texts))
            if name in truths and not all(text.strip().lower() in TRUTH_VALUES for text in texts):
                truths.discard(name)
            if mode.keeps_cells:
                raw[name] += map(text_cell, texts)
    columns = {name: joined(part) for name, part in parts.items()}
    raw_cells = {name: as_cells(column) for name, column in raw.items()}
    if not mode.keeps_cells:
        raw_cells = {name: as_cells((columns[name] == 1.0).tolist()) for name in truths}
    return Table(columns, np.array(broken, dtype=np.bool_), display_name, raw_cells, csv=True)


def _refuse_broken_rows(
    rows: Sequence[list[str] | None], width: int, separator: str, *, first_line: int, display_name: str
) -> None:
    """Refuse a PUBLIC CSV file with a line that is no record, or has another number of fields than `width`."""
    for line, fields in enumerate(rows, start=first_line):
        if fields is None:
            raise StudyInvalid(
                f"line {line} of {display_name} is not a CSV record",
                cause="a letter that is not UTF-8, a blank line, a stray quote, or a line break inside a field",
                remedy="export it again as CSV UTF-8, with every record on one line",
            )
        if len(fields) == width + 1 and all(one is None or len(one) == width + 1 for one in rows):
            raise StudyInvalid(
                f"the header of {display_name} has {width} names, its lines have {width + 1} fields",
                cause="each line ends in a separator"
                if not fields[-1].strip()
                else "the row names or numbers in front of each line have no name",
                remedy="remove them from both files, or write a name for each column in the header",
            )
        if len(fields) != width:
            raise StudyInvalid(
                f"line {line} of {display_name} has {len(fields)} fields, its header has {width}",
                cause=f"a {SEPARATORS[separator]} inside a field, or a name of the header, that is not quoted",
                remedy="correct the line, or export the file again",
            )
