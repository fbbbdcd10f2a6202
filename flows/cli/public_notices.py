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
from dpbo_core.data.values import Column, Value, is_text, shown, sorted_values

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
NUMBERS, GAPS = 10, 3  # different numbers of a column of numbers, and rows with what stands for a gap


def notices(training: Path, table: Table, target: str, person: str | None) -> Iterator[tuple[str, str]]:
    """What `dpbo init` assumes of the PUBLIC file or leaves unused: pairs of a subject and a sentence."""
    if training.suffix.lower() == ".csv":
        with training.open("rb") as file:
            separator = separator_of(file.readline())
        if separator != ",":
            decimals = ", and a comma in a number is its decimal point" if separator == ";" else ""
            yield "file", f"a {SEPARATORS[separator]} stands between fields{decimals}"
    yield from _positive_class(target, table.columns[target])
    for column, values in table.columns.items():
        some = values[present(values)].tolist()[:1000]
        rows = len(some) / max(1, len(set(some)))
        if rows > REPEATED and (IDENTIFIER.search(column) or _in_groups(some)):
            if person is None:
                yield (
                    "people",
                    f"{named(column)} has {rows:.1f} rows each: --person {named(column)}=N protects people, "
                    "where N is their number",
                )
        elif (form := form_of(values)) is not None:
            yield "texts", f"{named(column)} holds {form}"
        if column != target and (marker := _marker(values[present(values)].tolist())) is not None:
            yield (
                "gaps",
                f"{named(column)} has {named(marker)} where a number is missing, it seems: leave those fields "
                "empty in both files",
            )


def form_of(values: Column) -> str | None:
    """What most texts of a PUBLIC column seem to be, dates say, and what to do about it; None where unclear."""
    texts = [value for value in values.tolist()[:1000] if isinstance(value, str)]
    forms = (
        what for form, what in FORMS if sum(bool(re.fullmatch(form, one)) for one in texts) > MOST * len(texts)
    )
    return next(forms, None)


def _positive_class(target: str, values: Column) -> Iterator[tuple[str, str]]:
    """A notice of which of two classes is called positive, the later in order; none for more or fewer."""
    classes = sorted_values(values)
    if len(classes) == 2:
        share = sum(value == classes[1] for value in values.tolist()) / len(values)
        turned = "; to turn it, write the other class as 1 and this one as 0 in both files"
        text = f"{named(target)} = {named(shown(classes[1]))}, {share:.1%} of the public rows"
        yield "positive", text + (turned if share > 0.5 and is_text(values) else "")


def _marker(values: Sequence[Value]) -> str | None:
    """The text or number that seems to stand for a gap in a column of numbers; None where none does."""
    numbers = sorted({value for value in values if isinstance(value, float)})
    texts = {value for value in values if isinstance(value, str)}
    if len(numbers) < NUMBERS or len(texts) > 1:
        return None
    low, high = numbers[0], numbers[-1]
    far = [value for value, rest in ((low, numbers[1:]), (high, numbers[:-1])) if _is_far(value, rest)]
    markers: list[Value] = [*texts, *far]
    return next((shown(value) for value in markers if values.count(value) >= GAPS), None)


def _is_far(value: float, others: Sequence[float]) -> bool:
    """Whether a number of nines alone (−999, say) lies further from the sorted others than these span."""
    away = max(others[0] - value, value - others[-1])
    return re.fullmatch("-?9{2,}", shown(value)) is not None and away > others[-1] - others[0]


def _in_groups(values: Sequence[object]) -> bool:
    """Whether many values come in one run of rows each, as a person's identifier does: 1, 1, 1, 2, 2, 3, …"""
    runs = sum(one != other for one, other in pairwise(values)) + 1
    return runs == len(set(values)) > CATEGORIES_AT_MOST
