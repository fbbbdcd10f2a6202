"""The formats of data files: one row a format. Whoever reads a file, or asks whether a name is one, asks here.

None of them can run code when it is read. A reader has three functions of the same form, imported when first used.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from dpbo_core.privacy.named_parts import load

if TYPE_CHECKING:
    from dpbo_core.data.header import Header
    from dpbo_core.data.table import Table


@dataclass(frozen=True)
class FileFormat:
    """One format, by the homes of its readers, "module:function" inside `dpbo_core.data`.

    Attributes:
        header: its column names and number of records: (contents, mode=, shown_as=).
        table: its records: (contents, mode=, shown_as=).
        values: one column of a SENSITIVE file, a value a record, None if it cannot be read: (contents, column,
            shown_as=).
    """

    header: str
    table: str
    values: str

    def read_header(self, contents: Any, **how: Any) -> "Header":
        """Return the column names and the number of records, and no record's content."""
        return _reader(self.header)(contents, **how)  # type: ignore[no-any-return]

    def read_table(self, contents: Any, **how: Any) -> "Table":
        """Return all records of the file."""
        return _reader(self.table)(contents, **how)  # type: ignore[no-any-return]

    def read_values(self, contents: Any, column: str, *, shown_as: str) -> Iterable[object]:
        """Return one column's values, in the order of the records."""
        return _reader(self.values)(contents, column, shown_as=shown_as)  # type: ignore[no-any-return]


FORMATS: Mapping[str, FileFormat] = {
    ".csv": FileFormat("csv_file:header_in", "csv_file:table_in", "csv_file:csv_values"),
    ".parquet": FileFormat(
        "parquet_file:parquet_header", "parquet_file:read_parquet", "parquet_file:parquet_values"
    ),
}
NEITHER_FORMAT = f"neither {' nor '.join(FORMATS)}"
ONE_FILE_WORDS = f"one {' or '.join(FORMATS)}"


def format_of(name: str | PurePath) -> FileFormat | None:
    """Return the format that the suffix of a file's name stands for; None for another."""
    return FORMATS.get(PurePath(name).suffix.lower())


def _reader(home: str) -> Callable[..., Any]:
    return load(f"dpbo_core.data.{home}")  # type: ignore[no-any-return]
