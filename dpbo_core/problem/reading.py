"""What a study and a Python call both refuse: unknown names and keys, and numbers too large for a float."""

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.privacy.json_values import is_unicode


def require(condition: bool, what: str, *, cause: str = "", remedy: str = "") -> None:  # noqa: FBT001
    """Raise `StudyInvalid` with this message unless `condition` holds."""
    if not condition:
        raise StudyInvalid(what, cause=cause, remedy=remedy)


def one_of(key: str, value: str, valid: tuple[str, ...]) -> None:
    """Refuse a `value` that is not one of `valid`, with the nearest in the message."""
    if value not in valid:  # the nearest is looked for then alone: it takes longer than a study's reading
        raise unknown_name(key, value, valid)


def unknown_name(key: str, value: str, valid: tuple[str, ...]) -> StudyInvalid:
    """The error for a `value` of `key` that is not one of `valid`."""
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


LARGEST_NUMBER = int(sys.float_info.max)


def refuse_unknown(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    """Refuse a key of `table` that is not in `keys`, with the nearest in the message; `where` names the table."""
    for key in table:
        if key not in keys:
            raise unknown_key(key, keys, where)


def unknown_key(key: str, keys: tuple[str, ...], where: str) -> StudyInvalid:
    """The error for a `key` of the table `where` that is not in `keys`."""
    return StudyInvalid(
        f"{where} has an unknown key {str(key)[:60]!r}{suggestion(str(key), keys)}",
        cause="a misspelt key, or one that belongs to another table",
        remedy=f"the keys are {', '.join(keys)}",
    )
