"""What is to be predicted, as columns: from a data frame, columns by name, rows as dicts, or one row as a dict."""

from collections.abc import Mapping, Sequence
from typing import Any

from dpbo_core.errors import StudyInvalid

SINGLE = (str, bytes, int, float, type(None))


def columns_of(rows: Any, names: tuple[str, ...]) -> dict[str, list[object]]:
    """The columns `names` of `rows`, each of one value a row.

    Args:
        rows: a data frame; columns by name; a list of dicts, one a row; or one dict, which is one row. More columns
            than needed do no harm; a row without a column that others have is missing its value.
        names: the columns that are needed, at least one.

    Raises:
        StudyInvalid: they are nothing of the kind, a column is missing, or columns differ in length.
    """
    if isinstance(rows, list | tuple):
        rows = _of_dicts(rows)
    if not isinstance(rows, Mapping) and not hasattr(rows, "columns"):
        raise StudyInvalid(
            f"a {type(rows).__name__} has no named columns",
            cause="the model was trained on a table, whose columns it knows by name",
            remedy="give a data frame, columns by name, or rows as dicts",
        )
    missing = [name for name in names if name not in rows]
    if missing:
        raise StudyInvalid(
            f"the table lacks the column {missing[0]!r}", remedy=f"give the columns {', '.join(names)}"
        )
    if isinstance(rows, Mapping) and all(isinstance(rows[name], SINGLE) for name in names):
        return {name: [rows[name]] for name in names}
    columns = {name: list(rows[name]) for name in names}
    if len({len(column) for column in columns.values()}) > 1:
        raise StudyInvalid("the columns differ in length", remedy="give one value of each column for every row")
    return columns


def _of_dicts(rows: Sequence[Any]) -> dict[str, list[object]]:
    """Columns of a list of dicts, in the order in which they first come.

    Raises:
        StudyInvalid: one of them is no dict, or there are none.
    """
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise StudyInvalid(
            "the list is empty, or not of dicts", remedy='give rows as dicts: [{"age": 51, "sex": "f"}, …]'
        )
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}
