"""Reading tables strictly: every key known, every type right, and a message for the rest."""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, asdict, fields
from functools import cache
from typing import Any, ClassVar, get_args, get_origin, get_type_hints

from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.privacy.json_values import is_unicode


def require(condition: bool, what: str, *, cause: str = "", remedy: str = "") -> None:  # noqa: FBT001
    """Raise `StudyInvalid` with this message unless `condition` holds."""
    if not condition:
        raise StudyInvalid(what, cause=cause, remedy=remedy)


def one_of(key: str, value: str, valid: tuple[str, ...]) -> None:
    """Refuse a `value` that is not one of `valid`, with the nearest in the message."""
    if value not in valid:  # the nearest is looked for then alone: it takes longer than a study's reading
        raise StudyInvalid(
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


def number_of(key: str, value: Any) -> float:
    """The argument `key` of a Python call as a float; refused where it is none, or too large for one.

    Raises:
        StudyInvalid: it is no number that can be computed with.
    """
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise _no_number(key)


def whole_number_of(key: str, value: Any) -> int:
    """The argument `key` of a Python call as an integer; refused where it is none, or no double reaches it.

    Raises:
        StudyInvalid: it is no number that can be computed with.
    """
    with suppress(TypeError, ValueError, ArithmeticError):
        if abs(float(value)) < math.inf and int(value) == value:
            return int(value)
    raise _no_number(key)


def number_or_none(key: str, value: Any) -> float | None:
    """As `number_of`; None where the argument `key` is left out."""
    return None if value is None else number_of(key, value)


def _no_number(key: str) -> StudyInvalid:
    """The error for a value of `key` that cannot be computed with, which the message does not repeat."""
    return StudyInvalid(
        f"{key} is no number that can be computed with",
        cause="a text, a fraction where a whole number is due, or a number of hundreds of digits",
        remedy="give a number below 1e308",
    )


def check_numbers(value: Any, where: str) -> None:
    """Refuse, at any depth of a study's tables, a whole number that no double reaches; `where` names its place.

    Raises:
        StudyInvalid: there is one.
    """
    for place, item in _plain_values(value, where):
        if type(item) is int and not -LARGEST_NUMBER <= item <= LARGEST_NUMBER:
            raise _no_number(place)


def check_texts(value: Any, where: str) -> None:
    """Refuse, at any depth of a study's tables, a text that UTF-8 cannot write; `where` names its place.

    Raises:
        StudyInvalid: there is one.
    """
    for place, item in _plain_values(value, where):
        if isinstance(item, str) and not item.isascii() and not is_unicode(item):
            raise StudyInvalid(
                f"{place or 'the study'} holds a text that UTF-8 cannot write",
                cause="a lone half of a surrogate pair",
                remedy="write another text",
            )


def _plain_values(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Every key and value in tables and lists, at any depth, with the place of each."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield where, key
            yield from _plain_values(item, f"{where}.{key}" if where else str(key))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _plain_values(item, where)
    else:
        yield where, value


MAX_SHOWN = 60  # characters of a value in a message
LARGEST_NUMBER = int(sys.float_info.max)
_hints = cache(get_type_hints)  # of a section's fields, by name

Rule = Callable[[str, Any], None]  # raises StudyInvalid where the value of a key breaks it


class Section:
    """A table of a study file. The values of a field are refused by the rules that its type is annotated with."""

    heading: ClassVar[str]

    def __post_init__(self) -> None:
        cls: type = type(self)
        for name, rules in _rules(cls).items():
            value = getattr(self, name)
            for rule in () if value is None else rules:
                rule(f"{self.heading}.{name}", value)


@cache
def _rules(cls: type) -> dict[str, tuple[Rule, ...]]:
    """The checks declared in the types of a section's fields, by field name."""
    hints = get_type_hints(cls, include_extras=True)
    rules = {
        name: tuple(rule for kind in (hint, *get_args(hint)) for rule in getattr(kind, "__metadata__", ()))
        for name, hint in hints.items()
    }
    return {name: those for name, those in rules.items() if those}


def limit(holds: Callable[[Any], object], remedy: str) -> Rule:
    """A check of a field's value: refused unless `holds` of it, with a message of value and `remedy`."""

    def rule(key: str, value: Any) -> None:
        """Refuse a `value` of which `holds` is not true or cannot be asked; `key` names it."""
        held, text = False, repr(value)
        with suppress(TypeError, ValueError, ArithmeticError):
            held = bool(holds(value))
        shown = text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"
        require(held, f"{key} = {shown}", remedy=remedy)

    return rule


def at_least(least: float, remedy: str) -> Rule:
    """A check of a field's value: refused unless finite and at least `least`."""
    return limit(lambda value: least <= value < math.inf, remedy)


def positive(remedy: str) -> Rule:
    """A check of a field's value: refused unless finite and above 0."""
    return limit(lambda value: 0.0 < value < math.inf, remedy)


def among(*valid: str) -> Rule:
    """A check of a field's value: refused unless one of the texts `valid`."""
    return lambda key, value: one_of(key, value, valid)


def to_table(section: Any) -> dict[str, Any]:
    """A section dataclass as a plain table, without what is None."""
    return {key: _listed(value) for key, value in asdict(section).items() if value is not None}


def _listed(value: Any) -> Any:
    """A value with tuples replaced by lists, as TOML and JSON have them."""
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    return list(value) if isinstance(value, tuple) else value


def refuse_unknown(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    """Refuse a key of `table` that is not in `keys`, with the nearest in the message; `where` names the table."""
    for key in table:
        if key not in keys:
            raise StudyInvalid(
                f"{where} has an unknown key {str(key)[:60]!r}{suggestion(str(key), keys)}",
                cause="a misspelt key, or one that belongs to another table",
                remedy=f"the keys are {', '.join(keys)}",
            )


def read_section(cls: type, table: Any, where: str) -> Any:
    """A section dataclass `cls` from its table, keys and types checked; `where` names it in errors."""
    hints = _hints(cls)
    values = typed_values({item.name: hints[item.name] for item in fields(cls)}, table, where)
    for item in fields(cls):
        if item.name not in values and item.default is MISSING and item.default_factory is MISSING:
            raise StudyInvalid(f"{where} lacks {item.name}", remedy=f"add {item.name} to {where}")
    return cls(**values)


def union_hints(sections: Iterable[type]) -> dict[str, Any]:
    """The type of each key of any of the section classes, with None added to one that its first class requires."""
    hints: dict[str, Any] = {}
    for cls in sections:
        types = _hints(cls)
        for item in fields(cls):
            needed = item.default is MISSING and item.default_factory is MISSING
            hints.setdefault(item.name, types[item.name] | None if needed else types[item.name])
    return hints


def typed_values(hints: Mapping[str, Any], table: Any, where: str) -> dict[str, Any]:
    """A table's values as the types `hints` say; other keys or types are refused, named by `where`."""
    require(isinstance(table, Mapping), f"{where} is not a table")
    refuse_unknown(table, tuple(hints), where)
    return {name: _typed(table[name], hint, f"{where} {name}") for name, hint in hints.items() if name in table}


def _is_stated(value: Any) -> bool:
    """Whether a value of a hyperparameter is plain, or a list or table of such, as a study file can state it."""
    if isinstance(value, list | tuple):
        return all(map(_is_stated, value))
    if isinstance(value, Mapping):
        return all(map(_is_stated, value.values()))
    return type(value) in _PLAIN


def _plain_list(value: Any) -> bool:
    """Whether a value is a list of texts, numbers or booleans alone."""
    return isinstance(value, list | tuple) and all(type(item) in _PLAIN for item in value)


_PLAIN = (str, int, float, bool)
_OBJECT = 'an object in a file beside the study (estimator = "module:name") takes it'
_WORDS = {float: "a number", int: "a whole number", str: "text", bool: "true or false"}


def _typed(value: Any, hint: Any, where: str) -> Any:
    """`value` converted to its field's type: an integer to a float, a list to a tuple; all else is refused."""
    kinds = get_args(hint) if not isinstance(hint, type) else (hint,)
    origins = [get_origin(kind) for kind in (hint, *kinds)]
    if any(
        get_origin(inner) is tuple
        for kind in (hint, *kinds)
        if get_origin(kind) is Mapping
        for inner in get_args(kind)
    ):
        pairs = isinstance(value, Mapping) and all(
            isinstance(item, list | tuple) and all(type(end) in (int, float) for end in item)
            for item in value.values()
        )
        require(pairs, f"{where} is not a table of lists of numbers")
        return {str(key): tuple(float(end) for end in item) for key, item in value.items()}
    if Any in (inner for kind in (hint, *kinds) for inner in get_args(kind)):  # of hyperparameters
        return _stated(value, mapping=Mapping in origins, where=where)
    if tuple in origins:
        require(_plain_list(value), f"{where} is not a list of plain values")
        return tuple(value)
    if Mapping in origins:
        lists = any("tuple" in str(kind) for kind in kinds)
        require(isinstance(value, Mapping), f"{where} is not a table of plain values")
        for key, item in value.items():
            require(
                type(item) in _PLAIN or (lists and _plain_list(item)),
                f"{where} is not a table of plain values: {str(key)[:60]} is a {type(item).__name__}",
                cause="a study file states numbers, texts and truth values there",
                remedy=f"write one; {_OBJECT}" if where == "[model] params" else "write one",
            )
        return {key: tuple(item) if isinstance(item, list | tuple) else item for key, item in value.items()}
    if type(value) in kinds:
        return value
    if float in kinds and type(value) is int:
        return float(value)
    wanted = " or ".join(_WORDS[kind] for kind in kinds if kind in _WORDS)
    raise StudyInvalid(
        f"{where} = {str(value)[:60]!r} is not {wanted}", cause="a wrong type", remedy=f"write {wanted}"
    )


def _stated(value: Any, *, mapping: bool, where: str) -> Any:
    """The values of an axis, (n,), or where `mapping` a condition on one, as a study file states them."""
    if mapping:
        require(isinstance(value, Mapping) and _is_stated(value), f"{where} is not a table of values")
        return {key: tuple(item) if isinstance(item, list | tuple) else item for key, item in value.items()}
    require(isinstance(value, list | tuple), f"{where} is not a list of plain values")
    for item in value:
        require(
            _is_stated(item),
            f"{where} is not a list of plain values: {str(item)[:60]} is a {type(item).__name__}",
            cause="a study file states numbers, texts, truth values, and lists and tables of them",
            remedy=f"write one of these; {_OBJECT}",
        )
    return tuple(value)
