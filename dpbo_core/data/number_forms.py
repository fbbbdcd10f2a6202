"""Guesses what the texts of a PUBLIC column are: dates, or numbers in a form that is not read as a number.

Only messages and notices use the guess. No value is changed by it: 1,250 may be 1250 or 1.25.
"""

import re
from collections.abc import Iterable

from dpbo_core.data.values import Value, canonical_text

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
