"""The person to whom each record belongs, and which records exceed the number that counts for one person.

| symbol | name here | meaning | shape |
|---|---|---|---|
| k | `at_most` | records of one person that count | scalar ≥ 1 |
| p_i | `people[i]` | the person of record i: the text of the column as written; None if there is none | (m,) |
| — | `uncounted(people, k)` | score a constant: beyond a person's first k, or nobody's | (m,) bool |

A person is one text, exactly as written but for spaces at its ends: "007" and "7" are two, as are two whole numbers
that one double could not distinguish. Neighbours replace all records of one person by records of one person not
otherwise present, in the same places. Whatever the new records hold, at most k places of the old person counted and
at most k of the new one do, and nobody else's places change, so a score with range G moves the sum by at most kG.

A record whose person cannot be read scores the constant too; a text that R or pandas writes or reads as a missing
value ("NA", "null", `values.GAP_TEXTS`) names nobody, as the empty one. Were such records taken for one
person's, or for a person each, then replacing somebody's readable records by a mixture could change up to 2k
counted places, or all.
"""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.addresses import FORMATS, reader
from dpbo_core.data.fetched import Contents, QueryRows
from dpbo_core.data.values import GAP_TEXTS, plain_value

Person = str | None


def person_identifier(value: object) -> Person:
    """Return the person that a value identifies; None for a gap, a truth value or a fraction. Never raises."""
    value = plain_value(value)
    if isinstance(value, str):
        text = value.strip()
        return None if text in GAP_TEXTS else text
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        try:
            return str(int(value))
        except ValueError:  # thousands of digits, which Python refuses to write
            return None
    if isinstance(value, Decimal):
        return str(value) if value.is_finite() else None
    if isinstance(value, float | np.floating):
        return _integer_identifier(value)
    return None


def _integer_identifier(value: float | np.floating[Any]) -> Person:
    """Return the identifier in a float that is an integer; None for a fraction, or one that integers round to."""
    number = float(value)
    precision = np.finfo(type(value)).nmant + 1 if isinstance(value, np.floating) else sys.float_info.mant_dig
    exact = number == value and math.isfinite(number) and number.is_integer()
    return str(int(number)) if exact and abs(number) < min(2.0**precision, 2.0**53) else None


def read_people(path: str | Contents, column: str, *, display_name: str) -> tuple[Person, ...]:
    """Return each record's person identifier, None for nobody's, from `column`; nothing in a record raises."""
    path = Path(path) if isinstance(path, str) else path
    if isinstance(path, QueryRows):
        return tuple(map(person_identifier, path.cells(column)))
    values = reader(FORMATS[path.suffix.lower()].values)
    return tuple(map(person_identifier, values(path, column, display_name=display_name)))


def surplus_mask(people: Sequence[Any], at_most: int) -> NDArray[np.bool_]:
    """Return a mask (m,) of the records that do not count: beyond their person's first `at_most`, or of nobody."""
    seen: Counter[str] = Counter()
    surplus = np.ones(len(people), dtype=np.bool_)
    for i, person in enumerate(people):
        if person is not None and seen[person] < at_most:
            seen[person] += 1
            surplus[i] = False
    return surplus
