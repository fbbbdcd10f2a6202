"""Downloads of tables at addresses: the bytes of an object, or the rows of a query, read afterwards as files are.

An error message of a driver or a store may quote a row or a password, so none is passed on. The only message is
that the table could not be fetched. No content of a row makes a query fail.

The operator of an object store sees which object was requested, and when. Every cell of a query is fetched as the
bytes of its text in the database's encoding. A text that is not UTF-8 affects its own cell only; NULL is a gap.
"""

import io
import logging
import os
import struct
from collections.abc import Callable, Collection
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, TypeVar

import numpy as np

from dpbo_core.data.addresses import POSTGRESQL, FolderAddress, ObjectAddress, Place, QueryAddress, RowGroup
from dpbo_core.data.header import SENSITIVE_FILE, Header, column_names
from dpbo_core.data.table import Table
from dpbo_core.data.values import value_column, written_column
from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.sensitive import attempted

T = TypeVar("T")
FIRST_ANSWER_TIMEOUT_S = 10.0  # for a first answer
FOOTER_REQUEST_BYTES = 2**16  # bytes that are requested first: most footers are shorter
END, MAGIC = 8, b"PAR1"  # of a Parquet file: the length of its footer, and the sign
PARQUET_SUFFIX = ".parquet"
ACCEPTED_ENCODINGS = (b"UTF8", b"SQL_ASCII")
IDENTITY_QUERY = b"""SELECT s.system_identifier::text, d.oid::text, c.oid::text, n.nspname || '.' || c.relname
FROM pg_catalog.pg_control_system() AS s, pg_catalog.pg_database AS d,
     pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE d.datname = pg_catalog.current_database() AND c.oid = %s::pg_catalog.regclass"""
DRIVER_LOGGER = "psycopg"  # its logger repeats what the server said
AUTH_METHODS = "!password,!md5"  # libpq's require_auth: whatever hides a password


@dataclass(frozen=True)
class CheckedFile:
    """A file that is opened only if it is one that somebody was asked about, whatever lies under its name since."""

    path: Path
    inodes: frozenset[str]  # "device:inode:" of each file that may be opened
    display_name: str  # the path as the study has it

    @property
    def suffix(self) -> str:
        """The suffix of its name."""
        return self.path.suffix

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:
        """Return the open file, compared by its own descriptor, so that no name can be changed in between."""
        file = self.path.open(mode)
        status = os.fstat(file.fileno())
        if f"{status.st_dev}:{status.st_ino}:" not in self.inodes:
            file.close()
            raise StudyInvalid(
                f"{self.display_name} is not the file that the owner's policy was asked about",
                cause="another file was put in its place while the study began",
                remedy="run the study again, when nobody writes the file",
            )
        return file


@dataclass(frozen=True, eq=False, repr=False)
class StoredObject:
    """The bytes of an object, to be read as a file of that suffix is."""

    content: bytes
    suffix: str

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:  # noqa: ARG002  as a path is opened
        """Return the downloaded bytes of the object, as a stream."""
        return io.BytesIO(self.content)


@dataclass(frozen=True, eq=False, repr=False)
class QueryRows:
    """The rows of a query: names as the database has them, and each column's texts (m,)."""

    names: tuple[str, ...]
    columns: tuple[tuple[bytes | None, ...], ...]
    n_records: int

    def table(self, *, display_name: str, texts: Collection[str] = ()) -> Table:
        """Return the rows as a table, `texts` its columns of texts; no record is marked as unusable."""
        names = column_names(self.names, mode=SENSITIVE_FILE, display_name=display_name)
        columns = {
            name: (written_column if name in texts else value_column)(cells)
            for name, cells in zip(names, self.columns, strict=True)
        }
        return Table(columns, np.zeros(self.n_records, dtype=np.bool_), display_name)

    def cells(self, column: str) -> tuple[bytes | None, ...]:
        """Return the values of one column as the database's texts, None for NULL."""
        return self.columns[[name.strip() for name in self.names].index(column)]


FileContents = Path | CheckedFile | RowGroup | StoredObject
Contents = Path | RowGroup | StoredObject | QueryRows


def fetched(place: Place | RowGroup, *, display_name: str) -> Contents:
    """Download the table at an address, ready to be read; a path is returned, a folder of objects refused."""
    match place:
        case Path() | RowGroup():
            return place
        case ObjectAddress():
            return _download_object(place, download, display_name)
        case FolderAddress():
            raise StudyInvalid(
                f"{display_name} is a folder of an object store, and one table is asked for",
                cause="it holds no object named .parquet, or this study reads its records from one file",
                remedy="write the parts there; or give one object, s3://bucket/path/v.parquet",
            )
        case QueryAddress():
            _require_driver()
            return answered(lambda: _fetch_rows(place), display_name)


def object_header(place: ObjectAddress, *, display_name: str) -> StoredObject:
    """Download the part of an object that has its column names and size: of Parquet the footer, else all."""
    return _download_object(
        place, download_footer if place.key.lower().endswith(PARQUET_SUFFIX) else download, display_name
    )


def _download_object(
    place: ObjectAddress, read: Callable[[ObjectAddress], bytes], display_name: str
) -> StoredObject:
    content = answered(lambda: read(place), display_name)
    return StoredObject(content, PurePosixPath(place.key).suffix.lower())


def query_header(place: QueryAddress, *, display_name: str) -> Header:
    """Ask the database for a query's column names and number of rows, and no value; another encoding is refused."""
    _require_driver()
    names, encoding, n_records = answered(lambda: _names_encoding_and_count(place), display_name)
    if encoding not in ACCEPTED_ENCODINGS:
        raise StudyInvalid(
            f"the database of {display_name} does not keep its texts in UTF-8",
            cause="the same text would mean another thing than in the public training file",
            remedy="export the table as UTF-8 CSV or Parquet, or keep it in a database of that encoding",
        )
    return Header(column_names(names, mode=SENSITIVE_FILE, display_name=display_name), n_records)


def server_marks(place: QueryAddress, *, display_name: str) -> frozenset[str]:
    """Ask the database which table of which server an address leads to: two marks, whatever the spelling.

    One has the table's name, which stays if the table is created again each night. The other has its number, which
    stays if it is renamed. Both begin with the server's system identifier and the database's number.
    """
    _require_driver()
    marks = answered(lambda: _query_marks(place), display_name)
    if not marks:
        raise StudyInvalid(
            f"the server of {display_name} does not say which server it is",
            cause="another spelling of its name would be a second budget for the same people, so its system "
            "identifier is compared, and this user may not read it",
            remedy="let its owner GRANT EXECUTE ON FUNCTION pg_control_system() to the user that reads the table",
        )
    return marks


def answered(ask: Callable[[], T], display_name: str) -> T:
    """Return what a database or a store answers; the one error for whatever fails on the way tells no cause."""
    answer = attempted(ask, None)
    if answer is not None:
        return answer
    raise StudyInvalid(
        f"{display_name} could not be fetched",
        cause="no server there, no such object, table or column, no right to read it, or a server that wants a "
        "password in clear; what the server said is "
        "not repeated, since it may quote a record",
        remedy="try the same address with psql or the store's own client; user and password are the environment's",
    )


def _require_driver() -> None:
    with suppress(ImportError):
        import psycopg  # noqa: F401

        return
    raise StudyInvalid(
        "the driver for PostgreSQL is not installed",
        cause="it is an extra of its own",
        remedy="pip install 'dpbo[postgres]'",
    )


def _connect(place: QueryAddress) -> Any:
    """Return a read-only PostgreSQL connection, texts as bytes; psycopg's logger is silenced for the whole process.

    The study names the host, which may be hostile. So the environment's password is not sent in the clear, nor as
    an MD5 hash that could be used instead of it, unless the server has proved its name by a certificate.
    """
    import psycopg

    logging.getLogger(DRIVER_LOGGER).setLevel(logging.CRITICAL + 1)
    return psycopg.connect(
        host=place.host.strip("[]"),  # of an IPv6 address, as a URL has it
        port=place.port,
        dbname=place.database,
        connect_timeout=int(FIRST_ANSWER_TIMEOUT_S),
        client_encoding="SQL_ASCII",
        options="-c default_transaction_read_only=on",
        autocommit=True,
        prepare_threshold=None,
        require_auth=None if os.environ.get("PGSSLMODE") == "verify-full" else AUTH_METHODS,
    )


def _column_names(connection: Any, place: QueryAddress) -> tuple[str, ...]:
    """Return the names of a query's columns, in order, as the database has them; no row is requested."""
    described = connection.execute(place.select.names().encode()).pgresult
    return tuple(described.fname(i).decode() for i in range(described.nfields))


def _names_encoding_and_count(place: QueryAddress) -> tuple[tuple[str, ...], bytes, int]:
    with closing(_connect(place)) as connection:
        encoding = connection.pgconn.parameter_status(b"server_encoding") or b""
        (n_records,) = connection.execute(place.select.count().encode()).fetchone()
        return _column_names(connection, place), encoding, int(n_records)


def _query_marks(place: QueryAddress) -> frozenset[str]:
    """Connect, and ask for the marks of a query's table; empty if the server does not tell its identifier."""
    with closing(_connect(place)) as connection:
        row = attempted(lambda: connection.execute(IDENTITY_QUERY, (place.select.table_name,)).fetchone(), None)
        if row is None:
            return frozenset()
        server, database, number, name = (bytes(part).decode(errors="replace") for part in row)
        return frozenset(f"{POSTGRESQL}:{server}:{database}:{part}" for part in (number, name))


def _fetch_rows(place: QueryAddress) -> QueryRows:
    with closing(_connect(place)) as connection:
        names = _column_names(connection, place)
        rows = connection.execute(place.select.texts(names).encode()).fetchall()
        columns = tuple(zip(*rows, strict=True)) if rows else tuple(() for _ in names)
        return QueryRows(names, columns, len(rows))


ObjectState = tuple[int, int]  # when it was written, in nanoseconds, and its length


def download(place: ObjectAddress) -> bytes:
    """Download all bytes of an object."""
    with _open_object(place) as file:
        return bytes(file.read())


def download_footer(place: ObjectAddress) -> bytes:
    """Download the last bytes of an object: of a Parquet file its whole footer."""
    with _open_object(place) as file:
        size = file.size()
        end = bytes(file.read_at(min(size, FOOTER_REQUEST_BYTES), max(0, size - FOOTER_REQUEST_BYTES)))
        if len(end) < END or not end.endswith(MAGIC):
            return end
        size_needed = min(size, struct.unpack("<I", end[-END:][:4])[0] + END)
        return end if size_needed <= len(end) else bytes(file.read_at(size_needed, size - size_needed))


def parquet_objects(folder: FolderAddress) -> tuple[ObjectAddress, ...]:
    """Ask the store for the Parquet objects directly in a folder, by key; none in a folder that is not there."""
    from pyarrow import fs

    selected = fs.FileSelector(f"{folder.bucket}/{folder.key.rstrip('/')}", allow_not_found=True)
    infos = _store(folder.settings).get_file_info(selected)
    under = f"{folder.bucket}/{folder.key}"
    paths = {info.path for info in infos if info.type == fs.FileType.File and info.path.endswith(PARQUET_SUFFIX)}
    names = sorted(path.removeprefix(under) for path in paths if path.startswith(under))
    return tuple(
        ObjectAddress(folder.bucket, folder.key + name, folder.settings) for name in names if "/" not in name
    )


def object_state(place: ObjectAddress) -> ObjectState:
    """Return when an object was last written, in nanoseconds, and its length; a missing one raises OSError."""
    (info,) = _store(place.settings).get_file_info([f"{place.bucket}/{place.key}"])
    if info.mtime_ns is None or info.size is None:
        raise FileNotFoundError
    return int(info.mtime_ns), int(info.size)


def _open_object(place: ObjectAddress) -> Any:
    return _store(place.settings).open_input_file(f"{place.bucket}/{place.key}")


def _store(settings: tuple[tuple[str, str], ...]) -> Any:
    """Return the S3 file system with these settings (endpoint, region, …), cached by process and environment."""
    return _make_store(settings, os.getpid(), *sorted(pair for pair in os.environ.items() if pair[0][:4] == "AWS_"))


@lru_cache(maxsize=4)
def _make_store(settings: tuple[tuple[str, str], ...], *_: Any) -> Any:
    from pyarrow import fs

    return fs.S3FileSystem(
        **dict(settings),
        connect_timeout=FIRST_ANSWER_TIMEOUT_S,
        request_timeout=6 * FIRST_ANSWER_TIMEOUT_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2),
    )
