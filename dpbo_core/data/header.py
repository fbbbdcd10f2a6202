"""How a table's file is read, and its header: names and number of records, all that is checked before paying.

A header line that is missing makes the first RECORD the header. So a message about a sensitive file names columns
that the study or a public header names, and counts the others.
"""

import difflib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from dpbo_core.errors import StudyInvalid

if TYPE_CHECKING:
    from dpbo_core.data.preprocessing import Preprocessing


@dataclass(frozen=True)
class ReadMode:
    """The rules of one reading."""

    # MATH §1 (Totality). A record or a column that cannot be read is a broken one and raises nothing; no message
    # repeats what the header or the path hold, for a header line that is missing makes the first RECORD the header;
    # a crash of this process leaves no memory in a file from now on; decimals in byte arrays of any length are
    # refused, since ONE of them can fail all records of its group.
    sensitive: bool
    keeps_cells: bool = False  # whether raw cells are kept too, for an estimator that takes the file's columns
    # the columns of texts, by public facts, whose values are read as written; a PUBLIC file's other columns get
    # their type from their values, a sensitive one's values are read one by one
    texts: frozenset[str] = frozenset()
    inodes: frozenset[str] | None = None  # "device:inode:" of each file that the policy admits; any where None

    def with_cells(self) -> Self:
        """Return the same read mode, but with the file's own values kept beside the numbers."""
        return replace(self, keeps_cells=True)

    def of_map(self, fitted: "Preprocessing") -> Self:
        """Return this mode with the types of `fitted`, and with cells where its estimator takes data frames."""
        return replace(self, texts=fitted.text_columns, keeps_cells=fitted.columns is not None)


PUBLIC_FILE, SENSITIVE_FILE = ReadMode(sensitive=False), ReadMode(sensitive=True)


_MAX_NAMES_SHOWN = 5


@dataclass(frozen=True)
class Header:
    """Column names in the file's order and the number of records, both public."""

    columns: tuple[str, ...]
    n_records: int


def missing_file_error(display_name: str) -> StudyInvalid:
    """Return the error to raise where a study names a file that is not there."""
    return StudyInvalid(
        f"there is no file {display_name}",
        cause="the path is misspelt, or relative to another folder than the study file's",
        remedy="write the path relative to the study file",
    )


def column_names(fields: Sequence[str], *, mode: ReadMode, display_name: str) -> tuple[str, ...]:
    """Return a header's column names, stripped; refuse none at all, and an empty, unprintable or repeated one."""
    names = tuple(name.strip() for name in fields)
    if not names or not all(name and name.isprintable() for name in names):
        raise StudyInvalid(
            f"a column of {display_name} has no readable name",
            cause="the table was written with its row index, or it is not UTF-8 text with a header line",
            remedy="write it again without the index (index=False), as UTF-8",
        )
    if len(set(names)) < len(names):
        twice = "" if mode.sensitive else f", {_quoted({name for name in names if names.count(name) > 1})}"
        raise StudyInvalid(
            f"two columns of {display_name} share one name{twice}",
            cause="a join or an export kept both, or the header line is missing",
            remedy="rename or drop one of them",
        )
    return names


def check_target(columns: Collection[str], target: str, *, mode: ReadMode) -> None:
    """Refuse a training table without the target; the nearest name is suggested from a PUBLIC header alone."""
    if target not in columns:
        raise StudyInvalid(
            f"the training table has no column {target!r}, the target"
            + ("" if mode.sensitive else _nearest_column(target, columns)),
            cause="the name is misspelt, the header line is missing, or the file is not separated by commas",
            remedy="write the target's name as in the file's header",
        )


def check_columns(
    training: Collection[str],
    validation: Collection[str],
    *,
    display_name: str = "the validation file",
    named: Collection[str] | None = None,
) -> None:
    """Refuse a validation table whose columns are not the training columns, target included, in any order.

    No message repeats a name of `validation`, nor one of a SENSITIVE training header beyond those that the study
    states (`named`).
    """
    present = set(validation)
    missing = [name for name in training if name not in present]
    n_extra = len(present.difference(training))
    if not missing and not n_extra:
        return
    lacking = _quoted(missing, named)
    if 2 * len(missing) > len(training):
        raise StudyInvalid(
            f"{display_name} lacks most of the training columns, {lacking} among them",
            cause="it has no header line, is not separated by commas, or is another table",
            remedy="give both files the same header",
        )
    parts = [f"lacks {lacking}"] if missing else []
    parts += [f"has {column_count_text(n_extra)} unknown to the training table"] if n_extra else []
    raise StudyInvalid(
        f"{display_name} {' and '.join(parts)}",
        cause="a column was dropped, added or renamed in one of the files",
        remedy="give both files the same columns, in any order",
    )


def check_record_count(
    count: int, stated: int, *, display_name: str = "the validation file", key: str = "n_validation"
) -> None:
    """Refuse a sensitive file that holds another number of records than the study states under `key`."""
    if count != stated:
        raise StudyInvalid(
            f"{display_name} holds {count} records, the study has {key} = {stated}",
            cause="the file changed after the study was written",
            remedy=f"correct {key}; it is public, and every score is divided by it",
        )


def column_count_text(n: int) -> str:
    """Return the words "1 column", or "n columns"."""
    return f"{n} column{'s' * (n != 1)}"


def _quoted(names: Collection[str], allowed: Collection[str] | None = None) -> str:
    """Return up to five of the names in quotes (`allowed` ones only, unless None), and how many more there are."""
    listed = sorted(name for name in names if allowed is None or name in allowed)[:_MAX_NAMES_SHOWN]
    if not listed:
        return column_count_text(len(names))
    more = f" and {len(names) - len(listed)} more" if len(names) > len(listed) else ""
    return ", ".join(map(repr, listed)) + more


def _nearest_column(name: str, names: Collection[str]) -> str:
    """Return a hint, in parentheses, at the column name nearest to a wrong one; "" where none is near."""
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f" (the nearest name is {close[0]!r})" if close else ""
