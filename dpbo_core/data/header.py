"""A file's header: the names of its columns and the number of its records, all that is checked before paying.

A header line that is missing makes the first RECORD the header, so the messages about a sensitive file name
nothing they found there, until half of the training columns are among the names.
"""

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from dpbo_core.data.read_mode import ReadMode
from dpbo_core.errors import StudyInvalid

_AT_MOST = 5


@dataclass(frozen=True)
class Header:
    """Column names in the file's order and the number of records, both public."""

    columns: tuple[str, ...]
    n_records: int


def missing_file(shown_as: str) -> StudyInvalid:
    """The error to raise where a study names a file that is not there."""
    return StudyInvalid(
        f"there is no file {shown_as}",
        cause="the path is misspelt, or relative to another folder than the study file's",
        remedy="write the path relative to the study file",
    )


def column_names(fields: Sequence[str], *, mode: ReadMode, shown_as: str) -> tuple[str, ...]:
    """The stripped column names of a header; refused without any, or if one is empty, unprintable or repeated.

    Raises:
        StudyInvalid: a name is empty, not printable, or occurs twice.
    """
    names = tuple(name.strip() for name in fields)
    if not names or not all(name and name.isprintable() for name in names):
        raise StudyInvalid(
            f"a column of {shown_as} has no readable name",
            cause="the table was written with its row index, or it is not UTF-8 text with a header line",
            remedy="write it again without the index (index=False), as UTF-8",
        )
    if len(set(names)) < len(names):
        twice = "" if mode.sensitive else f", {_quoted({name for name in names if names.count(name) > 1})}"
        raise StudyInvalid(
            f"two columns of {shown_as} share one name{twice}",
            cause="a join or an export kept both, or the header line is missing",
            remedy="rename or drop one of them",
        )
    return names


def check_columns(
    training: Collection[str], validation: Collection[str], target: str, *, shown_as: str = "the validation file"
) -> None:
    """Refuse a validation table whose columns are not the training columns, target included, in any order.

    Args:
        training: names of the public table's columns.
        validation: names of the sensitive table's columns.
        target: the column to predict.
        shown_as: what messages call the sensitive table.

    Raises:
        StudyInvalid: the target is absent, or columns are missing or extra; names them and the nearest name.
    """
    if target not in training:
        raise StudyInvalid(
            f"the training table has no column {target!r}, the target{_nearest_column(target, training)}",
            cause="the name is misspelt, or the file is not separated by commas",
            remedy="write the target's name as in the file's header",
        )
    present, expected = set(validation), set(training)
    missing = [name for name in training if name not in present]
    extra = [name for name in validation if name not in expected]
    if not missing and not extra:
        return
    if 2 * len(missing) > len(training):
        raise StudyInvalid(
            f"{shown_as} lacks most of the training columns, {_quoted(missing)} among them",
            cause="it has no header line, is not separated by commas, or is another table",
            remedy="give both files the same header",
        )
    parts = [f"lacks {_quoted(missing)}{_nearest_column(missing[0], extra)}"] if missing else []
    parts += [f"has {_quoted(extra)}, unknown to the training table"] if extra else []
    raise StudyInvalid(
        f"{shown_as} {' and '.join(parts)}",
        cause="a column was dropped, added or renamed in one of the files",
        remedy="give both files the same columns, in any order",
    )


def check_record_count(
    count: int, stated: int, *, shown_as: str = "the validation file", key: str = "n_validation"
) -> None:
    """Refuse a sensitive file that holds another number of records than the study states under `key`.

    Raises:
        StudyInvalid: it does not; says the two numbers.
    """
    if count != stated:
        raise StudyInvalid(
            f"{shown_as} holds {count} records, the study says {key} = {stated}",
            cause="the file changed after the study was written",
            remedy=f"correct {key}; it is public, and every score is divided by it",
        )


def _quoted(names: Collection[str]) -> str:
    """The names in quotes, at most five, and how many more there are."""
    listed = sorted(names)
    more = f" and {len(listed) - _AT_MOST} more" if len(listed) > _AT_MOST else ""
    return ", ".join(repr(name) for name in listed[:_AT_MOST]) + more


def _nearest_column(name: str, names: Collection[str]) -> str:
    """A hint, in parentheses, at the column name nearest to a wrong one; "" where none is near."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" (the nearest name is {close[0]!r})" if close else ""
