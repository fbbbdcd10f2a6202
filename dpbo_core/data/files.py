"""Headers and tables of data files, by the format that their suffix stands for; or the rows of a query."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dpbo_core.data.addresses import FORMATS, NEITHER_FORMAT, ObjectAddress, Place, QueryAddress, RowGroup, reader
from dpbo_core.data.fetched import (
    CheckedFile,
    Contents,
    FileContents,
    QueryRows,
    fetched,
    object_header,
    query_header,
)
from dpbo_core.data.header import Header, ReadMode, missing_file_error
from dpbo_core.data.table import Table, of_one_type
from dpbo_core.errors import StudyInvalid

COREDUMP_FILTER = Path(
    "/proc/self/coredump_filter"
)  # what of the memory a dump holds; its collector may ignore the limit


def read_header(path: str | Place | RowGroup, *, mode: ReadMode, display_name: str) -> Header:
    """Read, or ask of an address, the column names and the number of records of a table, and no record's content;
    for a sensitive table core dumps of this process are disabled first.

    Of a query no row is requested. `display_name` is the path as the study has it.
    """
    if mode.sensitive:
        disable_core_dumps()
    if isinstance(path, QueryAddress):
        return query_header(path, display_name=display_name)
    place = Path(path) if isinstance(path, str) else path
    if isinstance(place, ObjectAddress):
        contents: Contents = object_header(place, display_name=display_name)
    else:
        contents = fetched(place, display_name=display_name)
    if isinstance(contents, QueryRows):
        raise TypeError("a query has a header of its own")
    with _translated_read_errors(contents, display_name):
        name = display_name if mode.sensitive else Path(display_name).name
        read = reader(FORMATS[contents.suffix.lower()].header)
        return read(contents, mode=mode, display_name=name)  # type: ignore[no-any-return]


def read_table(path: str | Contents, *, mode: ReadMode, display_name: str) -> Table:
    """Return all records of a file as a table: a broken one raises if the file is PUBLIC, and is only marked if it
    is sensitive, for which core dumps are disabled first.

    Args:
        path: where the file is, or what was fetched.
        mode: of a sensitive file the table holds as many records as `read_header` says, whatever the bytes, and
            nothing but the header can raise; of a public one a record that cannot be read raises, by its line.
        display_name: the path as the study has it; messages about a public file's content use its last part only.
    """
    if mode.sensitive:
        disable_core_dumps()
    path = Path(path) if isinstance(path, str) else path
    if isinstance(path, QueryRows):
        return path.table(display_name=display_name, texts=mode.texts)
    checked = mode.inodes is not None and isinstance(path, Path)
    contents = CheckedFile(path, mode.inodes, display_name) if checked else path  # type: ignore[arg-type]
    with _translated_read_errors(contents, display_name):
        name = display_name if mode.sensitive else Path(display_name).name
        read = reader(FORMATS[contents.suffix.lower()].table)
        return of_one_type(lambda rules: read(contents, mode=rules, display_name=name), mode)


def read_blocks(path: Contents, *, mode: ReadMode, display_name: str, rows_multiple: int) -> Iterator[Table]:
    """Yield a SENSITIVE Parquet file's records in blocks, as `parquet_blocks`; core dumps are disabled first."""
    from dpbo_core.data.parquet_file import parquet_blocks

    disable_core_dumps()
    if isinstance(path, QueryRows):
        raise TypeError("a query is read whole")
    return parquet_blocks(path, mode=mode, display_name=display_name, rows_multiple=rows_multiple)


@contextmanager
def _translated_read_errors(path: FileContents, display_name: str) -> Iterator[None]:
    """Context in which a file of another format, a missing or an unreadable one raises without its content."""
    if path.suffix.lower() not in FORMATS:
        raise StudyInvalid(
            f"{display_name} is {NEITHER_FORMAT}",
            cause="other formats are not read; some can run code when opened",
            remedy="convert the table to CSV or Parquet",
        )
    try:
        place = path.path if isinstance(path, CheckedFile) else path
        if isinstance(place, Path) and not place.is_file():
            raise missing_file_error(display_name)
        yield
    except OSError:
        raise StudyInvalid(
            f"{display_name} cannot be read",
            cause="its permissions, or the disk",
            remedy="make it readable and run again",
        ) from None


def disable_core_dumps() -> None:
    """Disable core dumps of this process and its children, where there are any: no crash writes a record."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        _, ceiling = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, ceiling))
    with suppress(OSError):
        COREDUMP_FILTER.write_text("0", encoding="ascii")
