"""Where a table lies, and in which format: a file, an object in a store, or rows of a PostgreSQL table.

A format is one row here; none can run code when it is read. Its three functions are imported when first used.

    s3://bucket/path/v.parquet[?region=…&endpoint_override=host:port&scheme=http]
    s3://bucket/path/[?…]     the Parquet objects right under it, each of them a part
    postgresql://host[:port]/database?query=SELECT … FROM … [ORDER BY …]

An address is part of the study, so it holds neither user nor password: those come from the environment of whoever
reads (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile; PGUSER, PGPASSWORD, PGPASSFILE).

A query lists columns of ONE table or view:

    SELECT {column, … | *} FROM [schema.]table [ORDER BY column [ASC | DESC], …]

A cast, a function or a join could fail on one record, or make a row of several; a condition would tell before any
charge how many records meet it. Where a view does one of these, that is for its maker to know. Names are folded to
lower case unless they stand in double quotes, as PostgreSQL does. What is sent is written again from what was read
here. What identifies the records, for the owner's policy, is the table and not the query.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, BinaryIO, ClassVar, Literal, NamedTuple, NoReturn
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.named_parts import load

S3, POSTGRESQL = "s3", "postgresql"
SCHEMES = (S3, POSTGRESQL)
STORE_SETTINGS = ("region", "endpoint_override", "scheme")
QUERY_PREFIX = "?query="
DEFAULT_SCHEMA = "public"  # the schema of a table without one
DEFAULT_PORT = 5432
ODD_HOST_PATTERN = re.compile(r"\s|\.$")  # read by some as the host without it
SQL_KEYWORDS = ("select", "from", "order", "by", "asc", "desc")
SQL_NAME_PATTERN = re.compile(r'[^\W\d]\w*|"(?:[^"\x00]|"")+"')
ORDER_KEY_PATTERN = re.compile(rf"({SQL_NAME_PATTERN.pattern})(?:\s+(asc|desc)\b)?", re.IGNORECASE)
_NAME = f"(?:{SQL_NAME_PATTERN.pattern})"
_ORDER_KEY = rf"{_NAME}(?:\s+(?:asc|desc)\b)?"
SELECT_PATTERN = re.compile(
    rf"\s*select\b\s*(?P<columns>\*|{_NAME}(?:\s*,\s*{_NAME})*)\s*\bfrom\b\s*(?:(?P<schema>{_NAME})\s*\.\s*)?(?P<table>{_NAME})"
    rf"(?:\s*\border\s+by\b\s*(?P<keys>{_ORDER_KEY}(?:\s*,\s*{_ORDER_KEY})*))?\s*;?\s*",
    re.IGNORECASE,
)
ADDRESS_FORMS = (
    "write s3://bucket/path/v.parquet, s3://bucket/path/ of Parquet objects, "
    "or postgresql://host/database?query=SELECT age, sex FROM visits"
)


@dataclass(frozen=True)
class _StoreLocation:
    """What lies in an object store."""

    bucket: str
    key: str  # of the object in it; of a folder what the keys of its objects begin with, up to its last "/"
    settings: tuple[tuple[str, str], ...] = ()  # region, endpoint_override (host:port) and scheme, if given

    @property
    def identity(self) -> str:
        """The address by which the ledger compares sources: bucket, key and the settings that say which server."""
        # https is the default scheme, and a bucket has one region: stated or not, the source is the same
        server = {name: value.lower() for name, value in self.settings if value not in ("", "https")}
        server.pop("region", None)
        return f"{S3}://{self.bucket}/{self.key}" + (f"?{urlencode(server, safe=':/')}" if server else "")


class ObjectAddress(_StoreLocation):
    """A CSV or Parquet object."""


class FolderAddress(_StoreLocation):
    """The Parquet objects right under a prefix."""


@dataclass(frozen=True)
class Select:
    """A SELECT query of one table, parsed."""

    schema: str
    table: str
    columns: tuple[str, ...]  # in order; none for all
    order: str = ""  # " ORDER BY …", quoted for SQL; "" for none

    @property
    def table_name(self) -> str:
        """The table's schema and name, quoted for SQL."""
        return f"{_quote_name(self.schema)}.{_quote_name(self.table)}"

    @property
    def source(self) -> str:
        """The end of the query, from FROM on; SELECT and a list of columns go before it."""
        return f"FROM {self.table_name}{self.order}"

    def texts(self, columns: tuple[str, ...]) -> str:
        """Return the SQL that selects `columns`, each cast to text."""
        return f"SELECT {', '.join(f'{_quote_name(name)}::text' for name in columns)} {self.source}"

    def names(self) -> str:
        """Return the SQL that selects no row, to learn the columns' names."""
        listed = ", ".join(map(_quote_name, self.columns)) or "*"
        return f"SELECT {listed} FROM {self.table_name} LIMIT 0"  # noqa: S608  quoted

    def count(self) -> str:
        """Return the SQL that counts the rows."""
        return f"SELECT count(*) FROM (SELECT {self.source}) AS selected"  # noqa: S608  as above


def _quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _parse_select(query: str, display_name: str) -> Select:
    """Parse a query into its columns, table and order; one of any other shape is refused."""
    parts = SELECT_PATTERN.fullmatch(query)
    if parts is not None:
        columns, keys = SQL_NAME_PATTERN.findall(parts["columns"]), ORDER_KEY_PATTERN.findall(parts["keys"] or "")
        names = [parts["schema"] or DEFAULT_SCHEMA, parts["table"], *columns, *(column for column, _ in keys)]
        if not any(name.lower() in SQL_KEYWORDS for name in names):
            order = ", ".join(
                f"{_quote_name(_unquoted_name(column))} {way.upper()}".rstrip() for column, way in keys
            )
            schema, table, *listed = map(_unquoted_name, names[: 2 + len(columns)])
            return Select(schema, table, tuple(listed), f" ORDER BY {order}" if order else "")
    raise StudyInvalid(
        f"the query of {display_name} is not of columns of one table",
        cause="a condition, a cast, a function, a join or a subquery could tell of one record, or mix several",
        remedy="write it like SELECT age, sex, outcome FROM visits ORDER BY id; what needs more is a view in the "
        "database, which its owner answers for",
    )


def _unquoted_name(text: str) -> str:
    return text[1:-1].replace('""', '"') if text.startswith('"') else text.lower()


@dataclass(frozen=True)
class QueryAddress:
    """Rows of one table."""

    host: str  # of the server; a folder of its socket where it begins with "/"
    port: int
    database: str
    select: Select

    @property
    def identity(self) -> str:
        """The server and table by which the ledger compares sources: all queries of one table have one identity."""
        port = "" if self.port == DEFAULT_PORT else f":{self.port}"
        return f"{POSTGRESQL}://{self.host}{port}/{self.database}#{self.select.schema}.{self.select.table}"


@dataclass(frozen=True)
class RowGroup:
    """One row group of a local Parquet file, read as a file of its own."""

    path: Path
    index: int
    suffix: ClassVar[str] = ".parquet"

    def resolve(self) -> "RowGroup":
        """Return the same row group of the Parquet file, its path without symbolic links."""
        return RowGroup(self.path.resolve(), self.index)

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:
        """Return the bytes of the whole Parquet file that the row group is in, as a stream."""
        return self.path.open(mode)


Address = ObjectAddress | FolderAddress | QueryAddress
Place = Path | Address
Part = Path | RowGroup | ObjectAddress  # one file of several


def is_address(text: str) -> bool:
    """Return whether the text is a URL and not a file's path."""
    return "://" in text


def parse_place(folder: str | Path, text: str) -> Place:
    """Return the place of a study's table: its path, relative to `folder` unless absolute, or parsed address."""
    return parse_address(text) if is_address(text) else Path(folder) / text


def parse_address(text: str, *, display_name: str = "data.validation") -> Address:
    """Parse a URL into an address; an error repeats nothing of it, since it may hold a password by mistake."""
    url, separator, query = text.partition(QUERY_PREFIX)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        _refuse_address(display_name, "is no address that can be read")
    if parts.scheme not in SCHEMES:
        _refuse_address(display_name, f"is an address of another kind than {' and '.join(SCHEMES)}")
    open_parts = [parts.netloc, *(value for _, value in parse_qsl(parts.query))]
    if any("@" in unquote(text) for text in open_parts):
        raise StudyInvalid(
            f"{display_name} holds a user or a password",
            cause="a study is public, and is kept with every release",
            remedy="take them out, and give them by the environment: PGUSER and PGPASSWORD or PGPASSFILE, "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or a profile for a store",
        )
    if parts.scheme == S3:
        if separator:
            _refuse_address(display_name, "asks an object store for a query")
        return _parse_object_address(parts.netloc, parts.path.lstrip("/"), parts.query, display_name)
    host, database = unquote(parts.netloc.rpartition(":")[0] if port else parts.netloc), parts.path.lstrip("/")
    if (
        not separator
        or parts.query
        or parts.fragment
        or not host
        or not database
        or any(sign in unquote(database) for sign in "/= ")
    ):
        _refuse_address(display_name, "lacks a server, a database or a query, or says more than these")
    if "," in host:
        _refuse_address(display_name, "names several servers")
    if ODD_HOST_PATTERN.search(host):
        _refuse_address(display_name, "names its server with white space, or with a dot at its end")
    return QueryAddress(
        host.rstrip(":").lower() if not host.startswith("/") else host,
        port or DEFAULT_PORT,
        unquote(database),
        _parse_select(query, display_name),
    )


def _parse_object_address(bucket: str, key: str, query: str, display_name: str) -> ObjectAddress | FolderAddress:
    """Return the address of an object, or of a folder if the key ends in "/"; refused if it is malformed."""
    settings: Mapping[str, str] = dict(parse_qsl(query, keep_blank_values=True))
    unknown = [name for name in settings if name not in STORE_SETTINGS]
    if not bucket or not key.strip("/") or unknown or settings.get("scheme", "https") not in ("http", "https"):
        _refuse_address(display_name, f"lacks a bucket or an object, or says more than {', '.join(STORE_SETTINGS)}")
    if ODD_HOST_PATTERN.search(re.sub(r"(:\d*)?/*$", "", settings.get("endpoint_override", ""))):
        _refuse_address(display_name, "names its store with white space, or with a dot at its end")
    if {"", ".", ".."} & set(key.removesuffix("/").split("/")):
        _refuse_address(display_name, "goes by a folder without a name, or by . or ..")
    if key.endswith("/"):
        return FolderAddress(bucket, key, tuple(sorted(settings.items())))
    if format_of(key) is None:
        _refuse_address(display_name, f"names an object that is {NEITHER_FORMAT}")
    return ObjectAddress(bucket, key, tuple(sorted(settings.items())))


def _refuse_address(display_name: str, what: str) -> NoReturn:
    raise StudyInvalid(
        f"{display_name} {what}",
        cause="a table is a file, objects of a store, or rows of one table",
        remedy=ADDRESS_FORMS,
    )


def list_parts(path: Place, *, display_name: str = "data.validation") -> tuple[Part, ...]:
    """Return the Parquet files of a folder, or the objects of a prefix from its store; empty for a single table."""
    if not isinstance(path, FolderAddress):
        return list_parquet_files(path)
    from dpbo_core.data.fetched import answered, parquet_objects

    return answered(lambda: parquet_objects(path), display_name)


def list_parquet_files(path: Place) -> tuple[Path, ...]:
    """Return the Parquet files of a local folder, sorted; empty for a single table."""
    if not isinstance(path, Path):
        return ()
    try:
        return tuple(sorted(path.glob("*.parquet"))) if path.is_dir() else ()
    except OSError:  # no name a file could have: whoever opens it says so
        return ()


class FileFormat(NamedTuple):
    """One format, by the homes of its readers, "module:function" inside `dpbo_core.data`."""

    header: str  # gives the column names and the number of records: (contents, mode=, display_name=)
    table: str  # gives the records: (contents, mode=, display_name=)
    # gives one column of a SENSITIVE file, a value a record, None if unreadable: (contents, column, display_name=)
    values: str


FORMATS: Mapping[str, FileFormat] = {
    ".csv": FileFormat("csv_file:csv_header", "csv_file:table_in", "csv_file:csv_values"),
    ".parquet": FileFormat(
        "parquet_file:parquet_header", "parquet_file:read_parquet", "parquet_file:parquet_values"
    ),
}
NEITHER_FORMAT = f"neither {' nor '.join(FORMATS)}"


def format_of(name: str | PurePath) -> FileFormat | None:
    """Return the format that the suffix of a file's name stands for; None for another."""
    return FORMATS.get(PurePath(name).suffix.lower())


def reader(home: str) -> Callable[..., Any]:
    """Return the function at a home that a format has for it."""
    return load(f"dpbo_core.data.{home}")  # type: ignore[no-any-return]
