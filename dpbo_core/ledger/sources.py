"""A dataset's sources as the ledger records and compares them: never what is in them.

| kind | name |
|---|---|
| `file` | the real path of a file or a folder of Parquet files; a pattern where it holds a field ({date}) |
| `table` | a URL without user and password: `#` and a table of a database, or an object of a store |
| `bundled` | the name of a set that scikit-learn ships: everybody has it, so no budget protects anybody in it |
| `memory` | "": the tables of a notebook, which have no name that could be compared |

A real file is one file under each of its names: links are followed, and its mark (device, inode and time of its
last change) finds a hard link and a renamed file, also of a part of a folder and of what a pattern wrote.
A copy is another file, and so is one that was changed after it was charged for and renamed then.

Names may have fields that a schedule fills from a run's time, UTC:

{year} 2026 · {month} 2026-11 · {week} 2026-W47 · {date} 2026-11-21 · {hour} 2026-11-21T02
{time} 2026-11-21T02:00:00Z
"""

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from glob import escape
from pathlib import Path
from typing import Literal, get_args
from urllib.parse import parse_qsl

TIME_FIELDS = {
    "year": "%Y",
    "month": "%Y-%m",
    "week": "%G-W%V",
    "date": "%Y-%m-%d",
    "hour": "%Y-%m-%dT%H",
    "time": "%Y-%m-%dT%H:%M:%SZ",
}
_YEAR_FORMATS = ("%Y", "%G")  # of four digits; all other parts have two
_FIELD_PATTERNS = {
    name: re.sub("%.", lambda part: r"\d{4}" if part[0] in _YEAR_FORMATS else r"\d\d", form)
    for name, form in TIME_FIELDS.items()
}
_FIELD = re.compile(r"\{([^{}]*)\}")
Kind = Literal["file", "table", "bundled", "memory"]
KINDS: tuple[str, ...] = get_args(Kind)
Role = Literal["records", "training records", "rows", "answers", "public records", "saved models"]
ROLES: tuple[str, ...] = get_args(Role)
DATABASE_PREFIX = "postgresql://"
PUBLIC_ROLE: Role = "public records"  # read as public: charged for by nobody
MODEL_ROLE: Role = "saved models"  # a folder of one; public too


def fields_of(text: str) -> tuple[str, ...]:
    """Return the fields in a name pattern such as `day-{date}`, in order; unknown ones too."""
    return tuple(_FIELD.findall(text))


def is_pattern(text: str) -> bool:
    """Return whether the name holds a field such as {date} that a schedule fills."""
    return any(name in TIME_FIELDS for name in fields_of(text))


def filled_at(text: str, moment: datetime) -> str:
    """Return a name pattern with fields such as {date} filled for a moment, UTC; unknown ones stay."""
    return _FIELD.sub(lambda field: moment.strftime(TIME_FIELDS.get(field[1], field[0].replace("%", "%%"))), text)


def written_anyhow(text: str) -> str:
    """Return a glob that matches every name which the pattern gives for some values of its fields."""
    parts = _FIELD.split(text)
    return "*".join(escape(part) for part in parts[::2])


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a name pattern with the fields that have a value filled; the others stay."""
    return _FIELD.sub(lambda field: values.get(field[1], field[0]), text)


def values_in(pattern: str, text: str) -> Mapping[str, str] | None:
    """Return the value of each field of a pattern in `text`, one wherever it stands; None if it does not fit."""
    parts, names, end = [], set(), 0
    for part in _FIELD.finditer(pattern):
        name = part[1]
        parts.append(re.escape(pattern[end : part.start()]))
        end = part.end()
        if name not in TIME_FIELDS:
            parts.append(re.escape(part[0]))
        elif name in names:
            parts.append(f"(?P={name})")
        else:
            names.add(name)
            parts.append(f"(?P<{name}>{_FIELD_PATTERNS[name]})")
    matched = re.fullmatch("".join(parts) + re.escape(pattern[end:]), text)
    return None if matched is None else matched.groupdict()


@dataclass(frozen=True)
class Division:
    """The division of one table in memory by the positions of its rows, of which `share` are validated on."""

    share: float
    n_rows: int


@dataclass(frozen=True)
class Source:
    """One source. `role` is what it is to the study: a dataset may have one of each."""

    kind: Kind
    name: str = ""
    role: Role = "records"
    # "device:inode:time" of the file as it is, or was whenever it was charged for; of a database's table what its
    # server says of it ("postgresql:system:database:table")
    marks: frozenset[str] = field(default=frozenset(), compare=False)
    parts: Mapping[str, str] = field(default_factory=dict, compare=False)  # path → mark of a folder's Parquet files
    division: Division | None = field(default=None, compare=False)  # of one table in memory; None of two tables

    @property
    def all_marks(self) -> frozenset[str]:
        """The marks (device, inode, change) of the source's own file and of its parts."""
        return self.marks | frozenset(self.parts.values())

    @property
    def files(self) -> Mapping[str, str]:
        """The path of each of the source's files, or of a folder's parts, by its mark (device, inode, change)."""
        return {mark: name for name, mark in self.parts.items()} | dict.fromkeys(self.marks, self.name)

    def __str__(self) -> str:
        return {"memory": "tables in memory", "bundled": f"the bundled set {self.name}"}.get(self.kind, self.name)


MEMORY_SOURCE = Source("memory")


def file_source(path: str | Path, role: Role = "records") -> Source:
    """Return the source (what the ledger knows a file or Parquet folder by) at a path; nothing is opened.

    Marks are of the path as it is given, which is what is read: a link of /proc leads to a file without a name.
    """
    parts: dict[str, str] = {}
    for part in sorted(Path(path).glob("*.parquet")) if os.path.isdir(path) else ():  # noqa: PTH112  of too long a name
        name = os.path.realpath(part)
        for mark in marks_of(part):
            parts[str(part.absolute()) if name in parts else name] = mark
    return Source("file", os.path.realpath(path), role, marks_of(path), parts)


def marks_of(path: str | Path) -> frozenset[str]:
    """Return the marks (device, inode, change) of the file at `path` now; empty if there is none."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):  # not there yet, or no name a file could have
        return frozenset()
    return frozenset((f"{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}",))


def inode_of(mark: str) -> str:
    """Return the "device:inode:" part of a file's mark (device, inode, change)."""
    return mark.rpartition(":")[0] + ":"


def same_records(one: Source, other: Source) -> bool:
    """Whether two sources lead to the same records, by names, inodes and folders; any two tables in memory do."""
    if one.kind != other.kind:
        return False
    if one.name == other.name or one.all_marks & other.all_marks:
        return True
    if one.kind not in ("file", "table"):
        return False
    if one.kind == "table":
        if _behind_other_sockets(one, other):
            return False
        return any(a == b or _written_by(a, b) for a, b in _names_with_folders(_spelling(one), _spelling(other)))
    return _written_by(one.name, other.name) or _lies_in(one, other) or _lies_in(other, one)


def covers(published: Source, source: Source) -> bool:
    """Whether `published` is the file `source`, or a folder with it as a Parquet file; False if it is no file."""
    inside = str(Path(source.name).parent) == published.name and source.name.endswith(".parquet")
    return source.kind == "file" and (
        source.name == published.name or bool(source.marks & published.marks) or inside
    )


def grants(allowed: Source, source: Source) -> bool:
    """Return whether permission for `allowed` covers `source`: itself, a part of it, a file that its pattern names.

    Names are compared as they are written: another spelling of an address may be another host.
    """
    openness = [one.role if one.role in (PUBLIC_ROLE, MODEL_ROLE) else "charged for" for one in (allowed, source)]
    if allowed.kind != source.kind or openness[0] != openness[1]:
        return False
    if allowed.name == source.name or covers(allowed, source):
        return True
    if is_pattern(allowed.name):
        return values_in(allowed.name, source.name) is not None
    (folder, *host), (place, *other) = allowed.name.split("?"), source.name.split("?")
    return source.kind == "table" and host == other and place.rpartition("/")[0] + "/" == folder


def _spelling(source: Source) -> str:
    """Return the name in one form: no endpoint, usual port or slashes of a store; this machine by one name."""
    if source.name.startswith(DATABASE_PREFIX):
        place, table = source.name.removeprefix(DATABASE_PREFIX).partition("#")[::2]
        server, _, database = place.rpartition("/")
        host, port = re.fullmatch(r"(.*?)(:\d+)?", server, re.DOTALL).groups("")  # type: ignore[union-attr]
        return f"{DATABASE_PREFIX}{'localhost' if _is_this_machine(host) else host}{port}/{database}#{table}"
    store, scheme, rest = source.name.partition("s3://")
    if store or not scheme:
        return source.name
    place, _, settings = rest.partition("?")
    endpoint = re.sub(r"^https?://|:(443|80)?/*$", "", dict(parse_qsl(settings)).get("endpoint_override", ""))
    slashes = re.sub(r"/+", "/", f"{endpoint}/{place}").lstrip("/")
    return scheme + re.sub(r"^s3[\w.-]*\.amazonaws\.com(\.cn)?/", "", slashes)


def _behind_other_sockets(one: Source, other: Source) -> bool:
    """Whether both are reached by sockets, each in a folder of its own, of servers that say that they are two."""
    sockets = {
        source.name.partition("#")[0] for source in (one, other) if source.name.startswith(f"{DATABASE_PREFIX}/")
    }
    systems = [{mark.split(":")[1] for mark in source.marks} for source in (one, other)]
    return len(sockets) == 2 and all(systems) and not systems[0] & systems[1]


def _is_this_machine(host: str) -> bool:
    """Return whether a server's host is this machine: a socket's folder, or an address that never leaves it.

    No name is looked up, so that two sources compare alike wherever and whenever they are compared.
    """
    host = host.strip("[]").partition("%")[0]
    if host.startswith("/") or host in ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.startswith("127.") and host.replace(".", "").isdigit()  # 127.1, as the resolver reads it
    mapped = getattr(address, "ipv4_mapped", None) or address
    return bool(mapped.is_loopback or mapped.is_unspecified)


def _names_with_folders(one: str, other: str) -> Iterable[tuple[str, str]]:
    yield one, other
    for folder, name in ((one, other), (other, one)):
        if folder.endswith("/"):
            yield folder, name.rpartition("/")[0] + "/"


def _written_by(one: str, other: str) -> bool:
    now = datetime.now(UTC)
    return any(
        is_pattern(pattern) and values_in(pattern, filled_at(path, now)) is not None
        for pattern, path in ((one, other), (other, one))
    )


def _lies_in(one: Source, folder: Source) -> bool:
    """Whether a file `one`, or a part of a folder `one`, is a Parquet file in `folder` or one of its parts; or any
    file below a `folder` of training records, which a trainer may read whole.
    """
    names = {one.name, *one.parts}
    if names & {folder.name, *folder.parts}:
        return True
    if folder.role == "training records":
        return any(Path(folder.name) in Path(name).parents for name in names)
    return any(str(Path(name).parent) == folder.name and name.endswith(".parquet") for name in names)
