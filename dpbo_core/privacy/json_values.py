"""Values of a JSON document or a database's row that somebody else may have written: of their type, or refused.

None of the functions repeats what it refuses.
"""

import math
from typing import Any


def text_of(value: object) -> str:
    """The value, refused unless it is a text.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def amount_of(value: object) -> float:
    """The value as a number, refused unless finite and at least 0, as a privacy price must be.

    Raises:
        TypeError: it is none.
    """
    if not (isinstance(value, int | float) and type(value) is not bool and 0 <= value < math.inf):
        raise TypeError("no amount")
    return float(value)


def count_of(value: object) -> int:
    """The value as a whole number from 0; anything else is refused, such as a text in SQLite's column.

    Raises:
        TypeError: it is none.
    """
    if not (type(value) is int and value >= 0):
        raise TypeError("no count")
    return value


def list_of(value: object) -> list[Any]:
    """The value, refused unless it is a list.

    Raises:
        TypeError: it is none: a text, say, whose letters would be taken for its items.
    """
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can write a text: no lone half of a pair of surrogates is in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
