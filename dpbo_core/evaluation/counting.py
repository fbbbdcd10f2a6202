"""The sensitive half in one pass: how many records are in each cell, exactly, in one table or over many parts.

| symbol | name here | meaning | shape |
|---|---|---|---|
| C | `Counter.size` | cells, 1 + G times those of a group, 2·B for two classes | scalar |
| n | `count` | records in each cell; their sum is the number of records | (C,) int64 |

A record's cell depends on the model and that record alone, so parts add up to the one table's histogram.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table
from dpbo_core.errors import Sealed
from dpbo_core.evaluation.places import AnyPlace, Grouping, Integers, cells, only_needed, places
from dpbo_core.models.trainer import Model
from dpbo_core.privacy.sealing import attempted
from dpbo_core.privacy.sensitive import Sensitive


@dataclass(frozen=True, eq=False, repr=False)
class Counter:
    """What counting needs, all of it public.

    Attributes:
        preprocessing: from raw columns to the model's rows.
        model: whose decision values, classes or errors are placed.
        place: how.
        grouping: None for the whole alone.
    """

    preprocessing: Preprocessing
    model: Model
    place: AnyPlace
    grouping: Grouping | None = None

    @property
    def n_groups(self) -> int:
        """G, the group of all other values among them."""
        return 1 if self.grouping is None else len(self.grouping.categories) + 1

    @property
    def size(self) -> int:
        """C: how many cells."""
        return 1 + self.place.n_cells * self.n_groups

    def histogram(self, table: Table) -> Integers:
        """The exact counts (C,): of a sensitive table, the sensitive value itself."""
        encoded = self.preprocessing.transform(only_needed(table, self.preprocessing))
        groups = None if self.grouping is None else self.grouping.of(table)
        found = cells(places(self.model, encoded, self.place), groups, self.place.n_cells, n_classes=1)
        return np.bincount(found, minlength=self.size).astype(np.int64)


def count(counter: Counter, table: Table) -> Sensitive[Integers]:
    """The histogram of a table in memory, sealed."""
    return Sensitive(counter.histogram(table))


def count_parts(counter: Counter, parts: Sequence[Path], n_records: int) -> Sensitive[Integers]:
    """The histogram of a partitioned table, sealed; one part is in memory at a time.

    Raises:
        Sealed: a part could not be read, or the parts no longer hold m records.
    """
    total = np.zeros(counter.size, dtype=np.int64)
    for part in parts:
        found = attempted(lambda part=part: _of_part(counter, part), None)  # type: ignore[misc]
        if found is None:
            raise Sealed
        total += found
    if int(total.sum()) != n_records:
        raise Sealed
    return Sensitive(total)


def _of_part(counter: Counter, part: Path) -> Integers:
    return counter.histogram(data.read_table(part, sensitive=True, shown_as="a validation file"))
