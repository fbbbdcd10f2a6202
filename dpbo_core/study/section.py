"""A section of a study: a strict Pydantic model. Its errors become our messages here, and nowhere else.

A field's limits are its type's, and what to do about a value beyond them is its remedy:

    steps: Annotated[int | None, limited("ask for at least 1 step", ge=1)] = None

A validator of a single field raises `StudyInvalid`, in which "{key}" stands for the field ("search.steps") and
"{where}" for it as a table's entry ("[search] steps").
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
)

from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.privacy.amounts import is_unicode
from dpbo_core.search.search_space import Value

MAX_NUMBER = int(sys.float_info.max)
MAX_SHOWN = 60  # characters of a value in a message
FINITE_REMEDY = "give a finite number"
T = TypeVar("T")


class Section(BaseModel):
    """A table of a study file. Integers are taken for floats and lists for tuples; nothing else is converted."""

    model_config = ConfigDict(
        strict=True, frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )
    heading: ClassVar[str]

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            errors = error.errors(include_url=False)
        else:
            self.check()
            return
        raise _letter(errors, type(self))

    @classmethod
    def read(cls, table: Any) -> Self:
        """Return the section that a table of a study states; a section as it is."""
        if isinstance(table, cls):
            return table
        require(isinstance(table, Mapping), f"[{cls.heading}] is not a table")
        return cls(**{str(key): value for key, value in table.items()})

    def check(self) -> None:
        """Refuse fields that do not fit one another; a section without such fields has nothing to refuse."""

    def replace(self, **changes: Any) -> Self:
        """Return the section with other values of some fields, checked as a new one is."""
        return type(self)(**dict(self) | changes)

    __replace__ = replace

    def to_table(self) -> dict[str, Any]:
        """Return the section as a plain table, without what is None."""
        return {key: _listed(value) for key, value in self if value is not None}


def limited(remedy: str = FINITE_REMEDY, *, schema: Mapping[str, Any] | None = None, **bounds: Any) -> Any:
    """Return a field's limits in Pydantic's form (gt, ge, lt, le, …), with the remedy for a value beyond them.

    `schema` states in a JSON Schema's words the limits that another validator checks.
    """
    return Field(json_schema_extra={"remedy": remedy, **(schema or {})}, **bounds)


def checked(check: Callable[[T], None]) -> AfterValidator:
    """Return a validator of a field that `check` refuses by raising `StudyInvalid`; None passes."""

    def validated(value: T) -> T:
        if value is not None:
            check(value)
        return value

    return AfterValidator(validated)


def _values(*, table: bool = False, nested: bool = False) -> PlainValidator:
    """Return a validator of a list or table of texts, numbers and truth values and, if `nested`, of such."""
    kinds, named = (Mapping, "a table") if table else (list | tuple, "a list")

    def validated(values: Any) -> Any:
        if values is None:
            return None
        require(isinstance(values, kinds), f"{{where}} is not {named} of plain values")
        for key, item in values.items() if table else zip(values, values, strict=True):
            require(
                _is_plain(item, nested=nested),
                f"{{where}} is not {named} of plain values: {str(key)[:MAX_SHOWN]} is a {type(item).__name__}",
                cause="a study file states numbers, texts and truth values"
                + (", and lists and tables of them" if nested else " there"),
                remedy='write one; an object in a file beside the study (estimator = "module:name") takes it',
            )
        if not table:
            return tuple(values)
        return {key: tuple(item) if isinstance(item, list | tuple) else item for key, item in values.items()}

    return PlainValidator(validated, json_schema_input_type=Mapping[str, Any] if table else list[Any])


def _is_plain(value: Any, *, nested: bool) -> bool:
    if nested and isinstance(value, list | tuple):
        return all(_is_plain(item, nested=True) for item in value)
    if nested and isinstance(value, Mapping):
        return all(_is_plain(item, nested=True) for item in value.values())
    return type(value) in (str, int, float, bool)


Name = Annotated[str, checked(lambda name: check_name("{key}", name))]
# Pydantic's own serializer would warn of every list that it writes as JSON.
JSON_VALUE = PlainSerializer(lambda value: value, return_type=Any, when_used="json")
PlainList = Annotated[tuple[Value, ...], _values(), JSON_VALUE]
PlainTable = Annotated[Mapping[str, Value], _values(table=True), JSON_VALUE]
StatedList = Annotated[tuple[Any, ...], _values(nested=True), JSON_VALUE]
StatedTable = Annotated[Mapping[str, Any], _values(table=True, nested=True), JSON_VALUE]
TUPLE_VALIDATOR = BeforeValidator(lambda value: tuple(value) if isinstance(value, list) else value)


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    return list(map(_listed, value)) if isinstance(value, list | tuple) else value


_TYPE_WORDS = {float: "a number", int: "a whole number", str: "text", bool: "true or false"}
_TYPE_ERRORS = ("string_type", "bool_type", "int_type", "float_type", "tuple_type")


def _letter(errors: list[Any], section: type[Section]) -> StudyInvalid:
    """Return our error for Pydantic's: for an unknown key if there is one, then a wrong type, then the rest."""
    if not all(one["loc"] for one in errors):  # Pydantic cannot repeat a key that is not Unicode
        return StudyInvalid(
            f"[{section.heading}] has a key that is no text",
            cause="it holds half of a character, which no file can",
            remedy="write the key again",
        )
    order = {"extra_forbidden": 0, **dict.fromkeys(_TYPE_ERRORS, 1), "missing": 2}
    first = min(errors, key=lambda one: order.get(one["type"], 3))
    name, value = str(first["loc"][0]), first["input"]
    if first["type"] == "extra_forbidden":
        return unknown_key(name, tuple(section.model_fields), f"[{section.heading}]")
    if first["type"] == "missing":
        return StudyInvalid(f"[{section.heading}] lacks {name}", remedy=f"add {name} to [{section.heading}]")
    key, where, field = f"{section.heading}.{name}", f"[{section.heading}] {name}", section.model_fields[name]
    parts = (*_parts(field.annotation), field)
    kinds = [part for part in parts if isinstance(part, type)]
    beyond = next((one for one in errors if one["loc"][0] == name and one["type"] not in _TYPE_ERRORS), None)
    refused = (beyond or first).get("ctx", {}).get("error")
    if isinstance(refused, StudyInvalid):
        what = refused.what.replace("{key}", key).replace("{where}", where)
        return StudyInvalid(what, cause=refused.cause, remedy=refused.remedy)
    names = tuple(part for part in parts if isinstance(part, str))
    if names and isinstance(value, str):
        return unknown_name(key, value, names)
    if beyond is None or beyond["type"] == "literal_error":
        wanted = " or ".join(word for kind, word in _TYPE_WORDS.items() if kind in (*kinds, *map(type, names)))
        wanted = "a list of texts" if tuple in kinds else wanted
        excerpt = str(value)[:MAX_SHOWN]
        return StudyInvalid(
            f"{where} = {excerpt!r} is not {wanted}", cause="a wrong type", remedy=f"write {wanted}"
        )
    extras = (getattr(part, "json_schema_extra", None) for part in parts)  # of what is `limited`
    remedy = next((extra["remedy"] for extra in extras if isinstance(extra, dict)), FINITE_REMEDY)
    text = repr(float(value) if float in kinds and type(value) is int else value)
    return StudyInvalid(f"{key} = {text if len(text) <= MAX_SHOWN else f'{text[:MAX_SHOWN]}…'}", remedy=remedy)


def _parts(annotation: Any) -> Iterator[Any]:
    """Yield the types, literal values and metadata that a field's annotation is made of."""
    if get_origin(annotation) in (None, tuple):
        yield get_origin(annotation) or annotation
    else:
        for inner in get_args(annotation):
            yield from _parts(inner)


def require(condition: bool, what: str, *, cause: str = "", remedy: str = "") -> None:  # noqa: FBT001
    """Raise `StudyInvalid` with this message unless `condition` holds."""
    if not condition:
        raise StudyInvalid(what, cause=cause, remedy=remedy)


def one_of(key: str, value: str, valid: tuple[str, ...]) -> None:
    """Refuse a `value` that is not one of `valid`, with the nearest in the message."""
    if value not in valid:  # the nearest is looked for then alone: it takes longer than a study's reading
        raise unknown_name(key, value, valid)


def unknown_name(key: str, value: str, valid: tuple[str, ...]) -> StudyInvalid:
    """Return the error for a `value` of `key` that is not one of `valid`."""
    return StudyInvalid(
        f"{key} = {value!r} is not known{suggestion(value, valid)}",
        cause="a misspelt name",
        remedy=f"choose one of {', '.join(valid)}",
    )


def check_name(key: str, value: str) -> None:
    """Refuse a `value` of `key` that is empty, over 100 characters, unprintable, or begins or ends in a space."""
    ok = isinstance(value, str) and 0 < len(value) <= 100 and value.isprintable() and value == value.strip()
    require(
        ok, f"{key} is not a usable name", remedy="use 1 to 100 printable characters without spaces at the ends"
    )


def no_number(key: str) -> StudyInvalid:
    """Return the error for a value of `key` that cannot be computed with, which the message does not repeat."""
    return StudyInvalid(
        f"{key} is no number that can be computed with",
        cause="a text, a fraction where a whole number is due, or a number of hundreds of digits",
        remedy="give a number below 1e308",
    )


def check_writable(value: Any, *, texts: bool = True) -> None:
    """Refuse, at any depth of a study's tables, numbers that no double reaches, and texts that are no UTF-8."""
    for place, item in _plain_values(value, ""):
        if type(item) is int and not -MAX_NUMBER <= item <= MAX_NUMBER:
            raise no_number(place)
        if texts and isinstance(item, str) and not item.isascii() and not is_unicode(item):
            raise StudyInvalid(
                f"{place or 'the study'} holds a text that UTF-8 cannot write",
                cause="a lone half of a surrogate pair",
                remedy="write another text",
            )


def _plain_values(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield every key and value in tables and lists, at any depth, with the place of each."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield where, key
            yield from _plain_values(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _plain_values(item, where)
    else:
        yield where, value


def refuse_unknown(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    """Refuse a key of `table` that is not in `keys`, with the nearest in the message; `where` names the table."""
    for key in table:
        if key not in keys:
            raise unknown_key(key, keys, where)


def unknown_key(key: str, keys: tuple[str, ...], where: str) -> StudyInvalid:
    """Return the error for a `key` of the table `where` that is not in `keys`."""
    return StudyInvalid(
        f"{where} has an unknown key {str(key)[:60]!r}{suggestion(str(key), keys)}",
        cause="a misspelt key, or one that belongs to another table",
        remedy=f"the keys are {', '.join(keys)}",
    )
