"""What the two parties exchange: a query, an answer, and the footer of the published table. Nothing else crosses.

A message is one JSON object with exactly its own keys, each of one type, and a digest of the rest. The digest shows
damage, not forgery: who may put files where is the parties' business. What arrives is checked before it is used.

The published table as a file: Parquet with the columns z0 … z{r−1}, and in its footer what a reader must know.

| symbol | name here | meaning | shape |
|---|---|---|---|
| Z | `rows` | the image of the candidates, in the published order | (n, r) float64 |
| τ | `noise_scale` | standard deviation of the noise in each entry; 0 for the published transform | scalar ≥ 0 |
"""

import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.atomically import replace_atomically

MAX_MESSAGE_BYTES = 65_536  # bytes of a message; ours have about 400
FORMAT_VERSION = 1
MAX_ANSWER = 1e100  # the search squares what it is told

M = TypeVar("M", "Query", "Answer")


@dataclass(frozen=True)
class Query:
    """The modeller asks for one row's answer."""

    kind: ClassVar[str] = "dpbo query"

    publication: str
    session: str  # which search of the modeller, a random name
    step: int  # t, from 1
    row: int  # place in the published table, from 0

    def __post_init__(self) -> None:
        _refuse_bad_fields(self)


@dataclass(frozen=True)
class Answer:
    """The curator's answer to one query."""

    kind: ClassVar[str] = "dpbo answer"

    publication: str
    session: str
    step: int
    row: int
    query: str  # digest of the query that is answered
    value: float  # the row's answer
    noise_scale: float  # standard deviation of the noise on it; 0 if it is public

    def __post_init__(self) -> None:
        _refuse_bad_fields(self)
        if not (
            _is_hex(self.query, 64) and abs(self.value) <= MAX_ANSWER and 0.0 <= self.noise_scale <= MAX_ANSWER
        ):
            raise ValueError("an answer needs its query's digest and numbers that can be squared")

    @classmethod
    def to(cls, query: Query, *, value: float, noise_scale: float) -> "Answer":
        """The curator's answer to a modeler's query: `value` for the row that it names, and its noise scale."""
        return cls(query.publication, query.session, query.step, query.row, digest(query), value, noise_scale)


def digest(message: Query | Answer) -> str:
    """SHA-256 of a message's content, in hex."""
    text = json.dumps(_message_content(message), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def write_message(message: Query | Answer, path: Path) -> None:
    """Write a query or an answer to a JSON file, atomically."""
    document = _message_content(message) | {"digest": digest(message)}
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    write_file(path, text.encode(), option="--out", mode=0o644)


def write_file(path: Path, content: bytes, *, option: str, mode: int = 0o600) -> None:
    """Write `content` to `path` atomically, for its owner alone unless `mode` says; errors name the `option`."""
    try:
        replace_atomically(path, content, mode=mode)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
    else:
        return
    raise StudyInvalid(f"{str(path)!r} cannot be written ({reason})", remedy=f"choose another place for {option}")


def read_message(kind: type[M], path: Path) -> M:
    """Return the query or the answer in a file; an error repeats nothing that the file says."""
    problem = ""
    try:
        with path.open("rb") as file:
            text = file.read(MAX_MESSAGE_BYTES + 1)
    except OSError as error:
        problem = f"cannot be read ({(error.strerror or 'no reason given').lower()})"
    else:
        message = None if len(text) > MAX_MESSAGE_BYTES else _parse_message(kind, text)
        if message is not None:
            return message
        problem = f"is not a whole {kind.kind}"
    raise StudyInvalid(
        f"{str(path)!r} {problem}",
        cause="it was cut short, edited, or is another file",
        remedy="ask for it again: the other party can write the very same one",
    )


def _parse_message(kind: type[M], text: bytes) -> M | None:
    """Return the message of this kind in JSON text; None if it is not one, or its digest does not fit."""
    try:
        document = json.loads(text)
        types: dict[str, Any] = {item.name: item.type for item in fields(kind)}
        if not isinstance(document, dict) or set(document) != {*types, "kind", "format", "digest"}:
            return None
        values = {name: document[name] for name in types}
        for name, expected_type in types.items():
            value = values[name]
            if expected_type is float and type(value) is int:
                values[name] = value = float(value)
            if type(value) is not expected_type:
                return None
        message = kind(**values)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return None
    expected = document["kind"] == kind.kind and document["format"] == FORMAT_VERSION
    return message if expected and document["digest"] == digest(message) else None


def _message_content(message: Query | Answer) -> dict[str, Any]:
    """Return a message's kind, format and fields as JSON: what its digest is of."""
    return {"kind": message.kind, "format": FORMAT_VERSION, **asdict(message)}


def _refuse_bad_fields(message: Query | Answer) -> None:
    """Raise ValueError unless a message has 16 hexadecimal digits as each name, a step ≥ 1 and a row ≥ 0."""
    named = _is_hex(message.publication, 16) and _is_hex(message.session, 16)
    if not named or not (1 <= message.step < 2**31 and 0 <= message.row < 2**31):
        raise ValueError("a message needs its two names, a step from 1 and a row from 0")


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and set(text) <= set("0123456789abcdef")


_FOOTER = b"dpbo"


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """Z, the name of its publication, its noise, and the guarantee in JSON. All of it public."""

    rows: NDArray[np.float64]
    publication: str
    noise_scale: float
    guarantee: Mapping[str, Any]


def table_bytes(table: PublishedTable) -> bytes:
    """Return the published table as the bytes of its Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    footer = {"publication": table.publication, "noise_scale": table.noise_scale, "promise": table.guarantee}
    columns = {f"z{j}": np.ascontiguousarray(column) for j, column in enumerate(table.rows.T)}
    arrow = pa.table(columns).replace_schema_metadata({_FOOTER: json.dumps(footer, allow_nan=False)})
    file = io.BytesIO()
    pq.write_table(arrow, file)
    return file.getvalue()


def content_digest(content: bytes) -> str:
    """SHA-256 of a file's bytes, 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def read_published(path: Path) -> tuple[PublishedTable, str]:
    """Return the published table in a Parquet file, and the file's SHA-256 digest."""
    try:
        content = path.read_bytes()
    except OSError as error:
        problem = f"cannot be read ({(error.strerror or 'no reason given').lower()})"
    else:
        table = _parse_table(content)
        if table is not None:
            return table, content_digest(content)
        problem = "is not a table that dpbo curate publish wrote"
    raise StudyInvalid(
        f"{str(path)!r} {problem}",
        cause="it was cut short, rewritten by another program, or is another file",
        remedy="ask the curator for the file as it was published",
    )


def _parse_table(content: bytes) -> PublishedTable | None:
    """Return the published table in a Parquet file's bytes; None if they are damaged or hold something else."""
    import pyarrow.parquet as pq

    try:
        arrow = pq.read_table(io.BytesIO(content))
        footer = json.loads(arrow.schema.metadata[_FOOTER])
        wanted = [f"z{j}" for j in range(arrow.num_columns)]
        rows = np.column_stack([arrow.column(name).to_numpy() for name in wanted]).astype(np.float64, copy=False)
        table = PublishedTable(rows, footer["publication"], float(footer["noise_scale"]), dict(footer["promise"]))
        named = isinstance(table.publication, str) and bytes.fromhex(table.publication).hex() == table.publication
        whole = arrow.column_names == wanted and rows.size > 0 and bool(np.isfinite(rows).all())
    except Exception:  # noqa: BLE001  a damaged file fails in many ways
        return None
    sound = whole and named and len(table.publication) == 16 and 0.0 <= table.noise_scale < math.inf
    return table if sound else None
