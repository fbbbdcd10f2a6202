"""What the two parties exchange: a query, an answer, and the footer of the published table. Nothing else crosses.

A message is one JSON object with exactly its own keys, each of one type, and a digest of the rest. The digest shows
damage, not forgery: who may put files where is the parties' business. What arrives is checked before it is used.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from dpbo_core.errors import StudyInvalid
from dpbo_core.privacy.atomically import replace_atomically

LARGEST = 65_536  # bytes of a message; ours have about 400
FORMAT = 1
HUGE = 1e100  # the search squares what it is told

M = TypeVar("M", "Query", "Answer")


@dataclass(frozen=True)
class Query:
    """The modeller asks for one row's answer.

    Attributes:
        publication: which table.
        session: which search of the modeller, a random name.
        step: t, from 1.
        row: place in the published table, from 0.
    """

    kind: ClassVar[str] = "dpbo query"

    publication: str
    session: str
    step: int
    row: int

    def __post_init__(self) -> None:
        _refuse_bad_fields(self)


@dataclass(frozen=True)
class Answer:
    """The curator's answer to one query.

    Attributes:
        publication: as in the query.
        session: as in the query.
        step: as in the query.
        row: as in the query.
        query: digest of the query that is answered.
        value: the row's answer.
        noise_scale: standard deviation of the noise on it; 0 where it is public.
    """

    kind: ClassVar[str] = "dpbo answer"

    publication: str
    session: str
    step: int
    row: int
    query: str
    value: float
    noise_scale: float

    def __post_init__(self) -> None:
        _refuse_bad_fields(self)
        if not (_is_hex(self.query, 64) and abs(self.value) <= HUGE and 0.0 <= self.noise_scale <= HUGE):
            raise ValueError("an answer needs its query's digest and numbers that can be squared")

    @classmethod
    def to(cls, query: Query, *, value: float, noise_scale: float) -> "Answer":
        """The answer message with `value` for the row that `query` names."""
        return cls(query.publication, query.session, query.step, query.row, digest(query), value, noise_scale)


def digest(message: Query | Answer) -> str:
    """SHA-256 of a message's content, in hex."""
    return hashlib.sha256(_canonical_json(_message_content(message))).hexdigest()


def write_message(message: Query | Answer, path: Path) -> None:
    """Write a message to a file, atomically.

    Raises:
        StudyInvalid: the file cannot be written.
    """
    document = _message_content(message) | {"digest": digest(message)}
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    write_file(path, text.encode(), option="--out", mode=0o644)


def write_file(path: Path, content: bytes, *, option: str, mode: int = 0o600) -> None:
    """Write a file at the path that the command's `option` names, atomically.

    Raises:
        StudyInvalid: it cannot be written.
    """
    try:
        replace_atomically(path, content, mode=mode)
    except OSError as error:
        reason = (error.strerror or "no reason given").lower()
    else:
        return
    raise StudyInvalid(f"{str(path)!r} cannot be written ({reason})", remedy=f"choose another place for {option}")


def read_message(kind: type[M], path: Path) -> M:
    """The message in a file.

    Raises:
        StudyInvalid: it is missing, too long, damaged, of another kind, or says something impossible. The message
            repeats nothing that the file says.
    """
    problem = ""
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST + 1)
    except OSError as error:
        problem = f"cannot be read ({(error.strerror or 'no reason given').lower()})"
    else:
        message = None if len(text) > LARGEST else _parse_message(kind, text)
        if message is not None:
            return message
        problem = f"is not a whole {kind.kind}"
    raise StudyInvalid(
        f"{str(path)!r} {problem}",
        cause="it was cut short, edited, or is another file",
        remedy="ask for it again: the other party can write the very same one",
    )


def _parse_message(kind: type[M], text: bytes) -> M | None:
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
    expected = document["kind"] == kind.kind and document["format"] == FORMAT
    return message if expected and document["digest"] == digest(message) else None


def _message_content(message: Query | Answer) -> dict[str, Any]:
    return {"kind": message.kind, "format": FORMAT, **asdict(message)}


def _canonical_json(document: dict[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, allow_nan=False).encode()


def _refuse_bad_fields(message: Query | Answer) -> None:
    named = _is_hex(message.publication, 16) and _is_hex(message.session, 16)
    if not named or not (1 <= message.step < 2**31 and 0 <= message.row < 2**31):
        raise ValueError("a message needs its two names, a step from 1 and a row from 0")


def _is_hex(text: str, length: int) -> bool:
    return len(text) == length and set(text) <= set("0123456789abcdef")
