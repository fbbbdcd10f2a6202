"""What `dpbo init` notices of a PUBLIC file: what it takes for granted, and what is not used as it stands.

Of the sensitive file nothing is noticed: a word about its values would be an output that no ε prices.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from dpbo.flows.cli.terminal import named
from dpbo_core.data import Table
from dpbo_core.data.csv_file import SEPARATORS, separator_of
from dpbo_core.data.features import CATEGORIES_AT_MOST, present
from dpbo_core.data.values import is_text

IDENTIFIER = re.compile(r"(?:^|[\W_])(?:id|key|nr|mrn|uuid|person|patient|customer|user|subject)$", re.IGNORECASE)
FORMS = (  # of texts that were meant as something else
    (r"[+-]?\d+,\d+", "numbers with a decimal comma: write a point, or put semicolons between fields"),
    (r"\d{1,2}[./]\d{1,2}[./]\d{2,4}( .*)?", "dates: a pipeline reads them where they are written 2026-11-24"),
    (
        r"[€$£]\s?[\d.,' ]+|[+-]?\d[\d.,' ]*\s?(%|€|\$|£|[A-Za-zµ°/²³]{1,5})",
        "numbers with a unit: leave the unit out",
    ),
)
MOST, REPEATED = 0.9, 1.2  # share of texts of a form; rows of a person


def notices(training: Path, table: Table, person: str | None) -> Iterator[tuple[str, str]]:
    """What `dpbo init` assumes of the PUBLIC file, or does not use as it stands, each with its word."""
    if training.suffix.lower() == ".csv":
        with training.open("rb") as file:
            separator = separator_of(file.readline())
        if separator != ",":
            decimals = ", and a comma in a number is its decimal point" if separator == ";" else ""
            yield "file", f"a {SEPARATORS[separator]} stands between fields{decimals}"
    for column, values in table.columns.items():
        some = values[present(values)].tolist()[:1000]
        rows = len(some) / max(1, len(set(some)))
        if IDENTIFIER.search(column) or _in_groups(some):
            if person is None and rows > REPEATED:
                yield (
                    "people",
                    f"{named(column)} has {rows:.1f} rows each: --person {named(column)} protects people",
                )
        elif is_text(values):
            forms = (
                what
                for form, what in FORMS
                if sum(bool(re.fullmatch(form, str(one))) for one in some) > MOST * len(some)
            )
            yield from (("texts", f"{named(column)} holds {what}") for what in forms)


def _in_groups(values: Sequence[object]) -> bool:
    """Whether many values come in one run of rows each, as a person's identifier does: 1, 1, 1, 2, 2, 3, …"""
    runs = sum(one != other for one, other in pairwise(values)) + 1
    return runs == len(set(values)) > CATEGORIES_AT_MOST
