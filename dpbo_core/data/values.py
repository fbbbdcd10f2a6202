"""Interpretation of one raw value from any source as a number, a text, or a gap (NaN).

| symbol | name here | meaning | shape |
|---|---|---|---|
| m | `len(column)` | records | scalar |
| | `Value` | a float (NaN: nothing usable) or a stripped, non-empty text | scalar |
| | `Column` | float64 where every value is a number or nothing, else an object array of `Value` | (m,) |

A column of a PUBLIC table has one type, and the sensitive table's column has the same (`texts` names the columns of
text). In a column of numbers 1, "1", 1.0, "1.0", True and "true" agree. In a column of texts each value is the text
as it was written, so "10", "1E1" and "INF" are three. The meaning of a value depends on that type and on that value
alone. Text that stands for a missing value (`GAP_TEXTS`) is a gap in both.

What the texts of a PUBLIC column seem to be (dates, numbers in another form) is guessed for messages and notices
alone. No value is changed by it: 1,250 may be 1250 or 1.25.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.privacy.amounts import is_unicode

Value = float | str
Column = NDArray[Any]

_MISSING_NUMBER = float("nan")
GAP_TEXTS = frozenset(  # as pandas.read_csv has them
    {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA"}
    | {"NULL", "NaN", "None", "n/a", "nan", "null"}
)


def _real(value: complex) -> float | None:
    exact = complex.__complex__(value)
    return exact.real if exact.imag == 0.0 else None


def _text_of_bytes(value: bytes) -> str | None:
    try:
        return bytes.decode(value)
    except UnicodeDecodeError:
        return None


PLAIN_CONVERSIONS: tuple[tuple[type, Callable[[Any], object]], ...] = (
    (str, str.__str__),
    (bytes, _text_of_bytes),
    (float, float.__float__),  # numpy.float64 too
    (int, int.__int__),
    (Decimal, Decimal),  # exact, whatever the context
    (complex, _real),
)
NUMPY_SCALARS = tuple(np.dtype(code).type for code in "?bBhHiIlLqQefg")  # all but double, which is a float


def plain_value(value: Any) -> object:
    """Return a number, truth value or text (bytes as UTF-8) as a built-in or NumPy type; None for all else.

    No code of the value's own class runs, whatever it overrides, so it cannot raise, print, wait or reach another
    record. A subclass of str, bytes, int, float or Decimal is read by that type's own function; of all else only
    NumPy's own scalars are kept. Not by `isinstance`, which asks the value for its `__class__`, nor by a set of
    types, which asks a metaclass for its `__hash__`.
    """
    kind = type(value)
    if kind is str or kind is float or kind is int or kind is bool or value is None:
        return value
    for built_in, read in PLAIN_CONVERSIONS:
        if issubclass(kind, built_in):
            return read(value)
    return value if any(kind is scalar for scalar in NUMPY_SCALARS) else None


def canonical_text(value: object) -> Value:
    """Return the number or stripped text that `value` means: 1 for true, NaN for all else. Never raises."""
    value = plain_value(value)
    if isinstance(value, str):
        return _value_of_text(value)
    if isinstance(value, (bool, int, float, Decimal, np.bool_, np.integer, np.floating)):
        try:
            return float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return math.inf if value > 0 else -math.inf
        except ValueError:  # a signalling NaN
            return _MISSING_NUMBER
    return _MISSING_NUMBER


def _value_of_text(text: str) -> Value:
    """Return a text as a number (true and false as 1 and 0) or a stripped text; NaN for a gap, or if no UTF-8."""
    text = _stripped(text)
    if text in GAP_TEXTS:
        return _MISSING_NUMBER
    if "_" not in text:  # Python reads 2020_01 as a number; nobody who writes a table means one
        try:
            return float(text)
        except ValueError:
            pass
    word = text.lower()
    if word in ("true", "false"):
        return float(word == "true")
    return text


def _stripped(text: str) -> str:
    """Return a text without spaces at its ends; "" if it is not UTF-8, since no ledger or release can hold it."""
    text = text.strip()
    return text if text.isascii() or is_unicode(text) else ""


def written_text(value: object) -> Value:
    """Return the text of `value` in a column of texts, a number as a person would write it.

    A gap, bytes that are not UTF-8 and a value of any other type become NaN. Never raises.
    """
    value = plain_value(value)
    if isinstance(value, str):
        text = _stripped(value)
        return _MISSING_NUMBER if text in GAP_TEXTS else text
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    number = canonical_text(value)
    return shown(number) if isinstance(number, float) and math.isfinite(number) else _MISSING_NUMBER


def value_column(values: Sequence[object]) -> Column:
    """Return values as one column (m,) of numbers and texts, each by `canonical_text`."""
    return _as_column([canonical_text(value) for value in values])


def text_column(texts: Sequence[str], *, as_written: bool = False) -> Column:
    """Return texts as one column (m,), each by `canonical_text` or, if `as_written`, by `written_text`."""
    if not as_written and "_" not in "".join(texts):
        try:
            return np.fromiter(map(float, texts), np.float64, len(texts))
        except ValueError:
            pass
    read = written_text if as_written else canonical_text
    meaning = {text: read(text) for text in set(texts)}
    return _as_column([meaning[text] for text in texts])


def written_column(values: Sequence[object]) -> Column:
    """Return values (m,) of a column of texts, each by `written`."""
    return _as_column([written_text(value) for value in values])


def public_column(values: Sequence[object]) -> Column:
    """Return PUBLIC values (m,) as one column of the one type that all of them have: numbers, or else texts."""
    column = value_column(values)
    return written_column(values) if is_mixed(column) else column


def is_mixed(column: Column) -> bool:
    """Return whether a PUBLIC column (m,) has texts and numbers, or infinite numbers only, as "inf" is read."""
    if column.dtype == object:
        return is_text(column) and not np.isnan(numbers(column)).all()
    return bool(np.isinf(column).any()) and not np.isfinite(column).any()


def _as_column(values: list[Value]) -> Column:
    """Return values (m,) as an array: of float64 where none of them is a text, else of objects."""
    if not any(isinstance(value, str) for value in values):
        return np.array(values, dtype=np.float64)
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def joined(parts: Sequence[Column]) -> Column:
    """Return columns concatenated to one: float64 if all are, else object; an empty float64 column for no parts."""
    if len(parts) < 2:
        return parts[0] if parts else np.empty(0)
    return np.concatenate(parts)


def is_text(column: Column) -> bool:
    """Return whether the column holds any text."""
    return column.dtype == object and any(isinstance(value, str) for value in column)


def numbers(column: Column) -> NDArray[np.float64]:
    """Return the column (m,) as numbers, NaN for a text."""
    if column.dtype != object:
        return column.astype(np.float64, copy=False)
    return np.array([value if isinstance(value, float) else _MISSING_NUMBER for value in column], dtype=np.float64)


def sorted_values(column: Column) -> tuple[Value, ...]:
    """Return the distinct values without NaN: numbers in their order, then texts in theirs."""
    if column.dtype != object:
        return tuple(float(value) for value in np.unique(column) if not math.isnan(value))
    texts = {value for value in column if isinstance(value, str)}
    return sorted_values(numbers(column)) + tuple(sorted(texts))


def positions(column: Column, values: tuple[Value, ...]) -> NDArray[np.int64]:
    """Return each entry's index, (m,), in `values`, which `sorted_values` has ordered; −1 if it is not there."""
    if column.dtype == object:
        index = {value: i for i, value in enumerate(values)}
        return np.fromiter((index.get(value, -1) for value in column), np.int64, len(column))
    doubles = np.array([value for value in values if isinstance(value, float)], dtype=np.float64)
    if not doubles.size:
        return np.full(len(column), -1, dtype=np.int64)
    at = np.minimum(np.searchsorted(doubles, column), doubles.size - 1)
    return np.where(doubles[at] == column, at, -1).astype(np.int64)


def shown(value: Value) -> str:
    """Return a PUBLIC value as a person would write it: 1, not 1.0."""
    if isinstance(value, str):
        return value
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


N_TEXTS_EXAMINED = 1000  # texts of a column
MIN_FORM_SHARE = 0.9  # of the texts that have a form
SIGN_PATTERN = "[+\\-\u2212\u2013]?"
SPACE_CHARACTERS = " \u00a0\u2009\u202f"
THOUSANDS_PATTERN = (
    rf"{SIGN_PATTERN}[1-9]\d{{0,2}}"
    rf"(?:(?P<group>[,.'\u2019{SPACE_CHARACTERS}])\d{{3}})(?:(?P=group)\d{{3}})*(?:[.,]\d+)?"
)
NUMBER_FORMS = (
    (r"[+-]?\d+,\d+", "numbers with a decimal comma: write a point, or put semicolons between fields"),
    (rf"[\u2212\u2013][{SPACE_CHARACTERS}]?[\d.,]+", "numbers with a minus sign that is no hyphen: write -5"),
    (
        r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}( .*)?|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4}|\d{4}-\d{2}-\d{2}.*",
        "dates: a pipeline reads them where they are written 2026-11-24",
    ),
    (
        r"[€$£]\s?[\d.,' ]+|[+-]?\d[\d.,' ]*\s?(%|€|\$|£|[A-Za-zµ°/²³]{1,5})",
        "numbers with a unit: leave the unit out",
    ),
)


def detect_form(values: Iterable[Value]) -> str | None:
    """Return what the texts of a PUBLIC column (m,) seem to be (dates, say) and what to do; None if unclear."""
    strings = [value for value in values if isinstance(value, str)]
    texts = [text for text in strings[:N_TEXTS_EXAMINED] if isinstance(canonical_text(text), str)]
    if texts and all(re.fullmatch(THOUSANDS_PATTERN, text) for text in texts):
        return "numbers with thousands separators: leave them out, and write 1442.10 for 1,442.10"
    forms = (
        what
        for form, what in NUMBER_FORMS
        if sum(bool(re.fullmatch(form, one)) for one in texts) > MIN_FORM_SHARE * len(texts)
    )
    return next(forms, None)


def ambiguous_number(cells: Iterable[str]) -> str | None:
    """Return a PUBLIC cell, from between semicolons, whose sign may separate thousands or decimals, as in 1,442.

    If cells have both signs, the point is the unclear one. None if no cell is unclear, or if another cell shows
    which of the two the sign is.
    """
    cells = [cell.strip() for cell in cells]
    sign = "." if any("," in cell for cell in cells) and any("." in cell for cell in cells) else ","
    marked = [cell for cell in cells if sign in cell]
    unclear = all(re.fullmatch(rf"{SIGN_PATTERN}[1-9]\d{{0,2}}\{sign}\d{{3}}", cell) for cell in marked)
    return marked[0] if marked and unclear else None
