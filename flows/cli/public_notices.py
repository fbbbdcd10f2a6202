"""What `dpbo init` notices of a PUBLIC file: what it takes for granted, and what is not used as it stands.

Of the sensitive file nothing is noticed: a word about its values would be an output that no ε prices.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpbo.flows.terminal import named
from dpbo_core.data import Table
from dpbo_core.data.csv_file import SEPARATORS, csv_names, split_csv_line
from dpbo_core.data.features import MAX_CATEGORIES, present_mask
from dpbo_core.data.header import PUBLIC_FILE
from dpbo_core.data.values import (
    Column,
    ambiguous_number,
    detect_form,
    is_text,
    numbers,
    shown,
    sorted_values,
    value_column,
)
from dpbo_core.study import StudySpec
from dpbo_core.study.section import require

IDENTIFIER_PATTERN = re.compile(
    r"(?:^|[\W_])(?:id|key|nr|mrn|uuid|person|patient|customer|user|subject)$", re.IGNORECASE
)
ROWS_PER_PERSON = 1.2  # rows of a person
MIN_DISTINCT_TEXTS = 20  # records of a small table, beyond which a text that differs in each identifies them
MIN_NUMBERS = 10  # different numbers of a column of numbers
N_LINES_EXAMINED = 1000  # that are looked at


def notices(training: Path, table: Table, target: str, person: str | None) -> Iterator[tuple[str, str]]:
    """Yield what `dpbo init` assumes of the PUBLIC file or leaves unused: pairs of a subject and a sentence."""
    if training.suffix.lower() == ".csv":
        yield from _separator(training)
    yield from _unlabelled(target, table.columns[target])
    yield from _positive_class(target, table.having(target).columns[target])
    for column, values in table.columns.items():
        some = values[present_mask(values)].tolist()[:1000]
        rows = len(some) / max(1, len(set(some)))
        if rows > ROWS_PER_PERSON and (IDENTIFIER_PATTERN.search(column) or _in_groups(some)):
            if person is None:
                yield (
                    "people",
                    f"{named(column)} has {rows:.1f} rows each: --person {named(column)}=N protects people, "
                    "where N is their number",
                )
        elif is_text(values) and (form := detect_form(values)) is not None:
            yield "texts", f"{named(column)} holds {form}"
        yield from _among_numbers(column, values[present_mask(values)])


def column_uses(table: Table, spec: StudySpec) -> Iterator[tuple[str, str]]:
    """Yield each column of the PUBLIC table with what the study uses it for, or why it leaves the column out."""
    for column, values in table.columns.items():
        n_gaps = int(len(values) - present_mask(values).sum())
        kind, filling = "a number", "the mean"
        if is_text(values):
            kind, filling = f"a text of {len(sorted_values(values))} values", "the share of each value"
        gaps = f"{n_gaps:,} gap{'s' if n_gaps > 1 else ''}"
        use = f"{kind}; {gaps}, filled with {filling}" if n_gaps else kind
        if column == spec.data.target_column:
            use = "the target"
        elif column == spec.privacy.person:
            use = "whose record it is; no feature"
        elif column in spec.data.ignored:
            use = f"left out: {reason_left_out(table, column) or 'you asked for it'}"
        yield named(column), named(use)


def check_ignored(ignored: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse to leave out what is not among the `columns` that could be features; no other column is named."""
    for name in ignored:
        require(
            name in columns,
            f"--ignore {name!r} is no column that could be left out",
            cause="the name is misspelt, or it is the target or the column of people",
            remedy="write it as in the file's header",
        )


def reason_left_out(table: Table, column: str) -> str:
    """Return why a column of the PUBLIC table is no feature; "" if it is one."""
    values = table.columns[column]
    n_values = len(sorted_values(values))
    if not present_mask(values).any():
        return "it is empty"
    if np.isinf(numbers(values)).any():
        return "it has an infinite value"
    if n_values > MAX_CATEGORIES or (is_text(values) and len(values) == n_values > MIN_DISTINCT_TEXTS):
        if is_text(values):
            return f"a text of {n_values:,} values"
        if IDENTIFIER_PATTERN.search(column) is not None:
            return "its name is that of an identifier"
        if (np.diff(values) > 0).all() and (values == np.rint(values)).all():
            return "it numbers the rows"
    return ""


def _separator(training: Path) -> Iterator[tuple[str, str]]:
    """Notices of what separates the fields of a PUBLIC CSV file, if no comma, and of commas of two meanings."""
    with training.open("rb") as file:
        separator, names = csv_names(file, mode=PUBLIC_FILE, display_name=training.name)
        rows = [
            split_csv_line(line, separator, decimal_commas=False) or [] for line in islice(file, N_LINES_EXAMINED)
        ]
    if separator == ",":
        return
    decimals = ", and a comma in a number is its decimal point" if separator == ";" else ""
    yield "file", f"a {SEPARATORS[separator]} stands between fields{decimals}"
    for name, cells in zip(names, zip(*rows, strict=True), strict=True) if decimals else ():
        if (number := ambiguous_number(cells)) is not None:
            text = f"{named(name)} has {named(number)}, which is read as {named(number.replace(',', '.'))}"
            yield "numbers", f"{text}: if its sign separates thousands, leave it out in both files"


def _unlabelled(target: str, values: Column) -> Iterator[tuple[str, str]]:
    """Yield a notice of how many public records have no label, which the study leaves out; none if all have one."""
    n_gaps = int(len(values) - present_mask(values).sum())
    if n_gaps:
        yield "labels", f"{n_gaps:,} public records have no {named(target)} and are left out (missing_target)"


def _positive_class(target: str, values: Column) -> Iterator[tuple[str, str]]:
    """Yield a notice of which of two classes is called positive, the later in order; none for more or fewer."""
    classes = sorted_values(values)
    if len(classes) == 2:
        share = sum(value == classes[1] for value in values.tolist()) / len(values)
        turned = "; to turn it, write the other class as 1 and this one as 0 in both files"
        text = f"{named(target)} = {named(shown(classes[1]))}, {share:.1%} of the public rows"
        yield "positive", text + (turned if share > 0.5 and is_text(values) else "")


def _among_numbers(column: str, values: Column) -> Iterator[tuple[str, str]]:
    """A notice of texts in a column of numbers, or of a number that seems to stand for a gap; none elsewhere."""
    read = value_column([*{*values.tolist()}]) if values.dtype == object else values
    texts = [value for value in sorted_values(read) if isinstance(value, str)] if read.dtype == object else []
    amounts = np.unique(numbers(read))
    amounts = amounts[np.isfinite(amounts)]
    if len(amounts) < MIN_NUMBERS or detect_form(texts) is not None:
        return
    low, high = float(amounts[0]), float(amounts[-1])
    far = [value for value, rest in ((low, amounts[1:]), (high, amounts[:-1])) if _is_far(value, rest)]
    if len(texts) > 1:
        yield "texts", f"{named(column)} has texts such as {named(texts[0])} among its numbers, and counts as texts"
    elif markers := (*texts, *map(shown, far)):
        what = f"{named(column)} has {named(markers[0])} where a number is missing, it seems"
        yield "gaps", f"{what}: leave those fields empty in both files"


def _is_far(value: float, others: NDArray[np.float64]) -> bool:
    """Return whether a number of nines alone (−999, say) lies further from the sorted others than these span."""
    away = max(others[0] - value, value - others[-1])
    return re.fullmatch("-?9{2,}", shown(value)) is not None and bool(away > others[-1] - others[0])


def _in_groups(values: Sequence[object]) -> bool:
    """Whether many values come in one run of rows each, as a person's identifier does: 1, 1, 1, 2, 2, 3, …"""
    runs = sum(one != other for one, other in pairwise(values)) + 1
    return runs == len(set(values)) > MAX_CATEGORIES
