"""A table of predictions made elsewhere, read as totally as any other: nothing is fitted to it.

| symbol | name here | meaning | shape |
|---|---|---|---|
| d | `len(names)` | columns of predictions, those of each candidate side by side | scalar |
| X | `X` of the result | a class's index, a probability or a number; NaN for anything else | (m, d) |

Each cell is read by itself. An unusable one becomes NaN, which affects one candidate's score of one record only. If
the score needs a class, and there are two, a number from 0 to 1 that is not a class is read as the probability of
the second one. The likelier class is taken, at ½ the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data.features import Number
from dpbo_core.data.preprocessing import Preprocessing, stated_classes
from dpbo_core.data.raw_cells import is_sequence, row_cells
from dpbo_core.data.table import Encoded, Table
from dpbo_core.data.values import Column, numbers, positions
from dpbo_core.errors import StudyInvalid

Rows = list[list[object]]  # of each record one prediction, or of more than two classes the probability of each

PAIR, CHANCE = 2, 0.5


@dataclass(frozen=True)
class PredictionColumns(Preprocessing):
    """The public map from a table of predictions to `Encoded`."""

    of_classes: bool = False  # whether a cell names a class; else it is a number

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        target: str,
        labels: Sequence[object],
        *,
        of_classes: bool,
        ignored: frozenset[str] = frozenset(),
    ) -> "PredictionColumns":
        """Return the map for tables with these columns, from public facts; refused if a name or label is repeated.

        `labels` are the classes, none of a regression; `ignored` are columns that a table may have beside these.
        """
        if len({*names, target} - ignored) < len(names) + 1:
            raise StudyInvalid(
                "two columns of the predictions are one: a candidate is named like another, the target or what is "
                "ignored",
                remedy="rename the candidate in [space] and in the table",
            )
        classes = stated_classes(labels)
        features = tuple(Number(name, 0.0, 0.0) for name in names)
        return cls(target, classes, features, False, 0.0, 1.0, ignored, of_classes=of_classes)  # noqa: FBT003

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Every column that a table must have, the target's last."""
        return (*self.feature_names, self.target)

    def check(self, columns: Sequence[str], *, display_name: str) -> None:
        """Refuse a table with other columns than these; foreign names are counted, not shown."""
        missing = [name for name in self.all_columns if name not in columns]
        extra = len(set(columns).difference(self.all_columns, self.ignored))
        if not missing and not extra:
            return
        parts = [f"lacks {', '.join(map(repr, missing[:5]))}"] if missing else []
        parts += [f"has {extra} columns that the study does not know"] if extra else []
        raise StudyInvalid(
            f"{display_name} {' and '.join(parts)}",
            cause=f"its columns are the target and what each candidate predicted: {', '.join(self.all_columns[:5])}"
            + (" …" if len(self.all_columns) > len(self.all_columns[:5]) else ""),
            remedy="name every candidate in [space], and what is no prediction under data.ignore",
        )

    def transform(self, table: Table) -> Encoded:
        """Return the encoded records of a table of predictions, sensitive or not; only column names can raise."""
        table = table.without(self.ignored)
        self.check(tuple(table.columns), display_name=table.source)
        return self._with_target(self.rows(table), table, table.broken.copy(), np.nan)

    def rows(self, table: Table) -> NDArray[np.float64]:
        """Return the predictions in a table with these columns as numbers, (m, d); NaN for what cannot be used."""
        X = np.full((table.n_records, len(self.features)), np.nan)
        for place, name in enumerate(self.feature_names):
            if self.of_classes:
                X[:, place] = self._classes_of(table.columns[name])
            else:
                X[:, place] = numbers(table.columns[name])
        return X

    def _classes_of(self, cells: Column) -> NDArray[np.float64]:
        """Return each prediction's class index, (m,): the class that it names or makes likelier; NaN for none."""
        indices = positions(cells, self.classes)
        likelier = np.full(len(indices), np.nan)
        if len(self.classes) == PAIR:
            p = numbers(cells)
            likelier = np.where((p >= 0.0) & (p <= 1.0), p > CHANCE, np.nan)
        return np.where(indices < 0, likelier, indices)


def rows_of(predictions: Any, length: int, width: int) -> Rows | None:
    """Return a user's predictions, `width` cells a record; None for a wrong shape.

    Each item of a list is read by itself: one array of them all would have one type for all, which a text among
    numbers, or a list of another length, would settle for every record.
    """
    outcome = values_of(predictions)
    if isinstance(outcome, list):
        return [_row(item, width) for item in outcome] if len(outcome) == length else None
    if length == 1:  # some drop an axis of one
        outcome = outcome.reshape(1, -1)
    if outcome.ndim == 1:
        outcome = outcome[:, None]
    if outcome.ndim == 2 and outcome.shape[1] == 2 and width == 1:
        outcome = outcome[:, 1:]
    return [list(row) for row in outcome] if outcome.shape == (length, width) else None


def values_of(predictions: Any) -> list[Any] | NDArray[Any]:
    """Return a user's predictions as a list if a sequence, else as an array with any mask; may raise anything."""
    if is_sequence(predictions):
        return list(predictions)
    return np.asanyarray(predictions) if isinstance(predictions, np.ma.MaskedArray) else np.asarray(predictions)


def _row(item: Any, width: int) -> list[object]:
    """Return one record's `width` cells, for width 1 the second of a pair; all None of another number of cells."""
    listed = row_cells(item)
    cells = [item] if listed is None else listed
    cells = cells[1:] if len(cells) == 2 and width == 1 else cells
    return cells if len(cells) == width else [None] * width
