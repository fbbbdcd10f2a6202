"""Names with fields that a schedule fills from a run's time, UTC: how each is written, and what it matches.

{year} 2026 · {month} 2026-11 · {week} 2026-W47 · {date} 2026-11-21 · {hour} 2026-11-21T02
{time} 2026-11-21T02:00:00Z
"""

import re
from collections.abc import Mapping
from datetime import datetime
from glob import escape

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
    """Return the value of each field of a name pattern in `text`; None if `text` does not fit the pattern.

    A field that stands twice holds the same both times.
    """
    parts, names = [], set()
    end = 0
    for field in _FIELD.finditer(pattern):
        name = field[1]
        parts.append(re.escape(pattern[end : field.start()]))
        end = field.end()
        if name not in TIME_FIELDS:
            parts.append(re.escape(field[0]))
        elif name in names:
            parts.append(f"(?P={name})")
        else:
            names.add(name)
            parts.append(f"(?P<{name}>{_FIELD_PATTERNS[name]})")
    matched = re.fullmatch("".join(parts) + re.escape(pattern[end:]), text)
    return None if matched is None else matched.groupdict()
