"""The sensitive half in one pass: how many records are in each cell, exactly, in one table or over many parts.

| symbol | name here | meaning | shape |
|---|---|---|---|
| C | `Counter.size` | cells, 1 + G times those of a group, 2·B for two classes | scalar |
| n | `count` | records in each cell; their sum is the number of records | (C,) int64 |
| N | `count_persons` | the same where each person weighs as much (`person_cells`) | (C,) int64 |

A record's cell depends on the model and that record alone, so parts add up to the one table's histogram, whoever
counts them. Workers are inside the curator's boundary, as when parts are scored (`objective.partitioned`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table
from dpbo_core.data.addresses import Part
from dpbo_core.data.fetched import fetched
from dpbo_core.data.people import Person, read_people
from dpbo_core.errors import Sealed
from dpbo_core.evaluation.person_cells import PersonCells
from dpbo_core.evaluation.places import AnyPlace, Grouping, Integers, cells, only_needed, places
from dpbo_core.objective.in_memory import Scorable
from dpbo_core.objective.partitioned import Answer, OneByOne, Workers
from dpbo_core.objective.persons import Persons
from dpbo_core.privacy.sealing import attempted
from dpbo_core.privacy.sensitive import Sensitive

_SHOWN_AS = "a validation file"


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
    model: Scorable
    place: AnyPlace
    grouping: Grouping | None = None

    @property
    def n_groups(self) -> int:
        """G, the group of all other values among them."""
        return 1 if self.grouping is None else len(self.grouping.categories) + 1

    @property
    def size(self) -> int:
        """C: how many cells a table of the counts has, all groups together."""
        return 1 + self.place.n_cells * self.n_groups

    @property
    def reads_cells(self) -> bool:
        """Whether the model takes the table's own columns."""
        return self.preprocessing.columns is not None

    def histogram(self, table: Table) -> Integers:
        """The exact counts (C,): of a sensitive table, the sensitive value itself."""
        return np.bincount(self._cells(table), minlength=self.size).astype(np.int64)

    def by_person(self, table: Table, people: Sequence[Person]) -> PersonCells:
        """Whose records are in which cell: as sensitive as they are.

        Args:
            table: m records.
            people: the person of each, (m,).
        """
        return PersonCells.of(Persons.of(people), self._cells(table, by_content=True))

    def _cells(self, table: Table, *, by_content: bool = False) -> Integers:
        encoded = self.preprocessing.transform(only_needed(table, self.preprocessing))
        groups = None if self.grouping is None else self.grouping.of(table)
        found = places(self.model, encoded, self.place, by_content=by_content)
        return cells(found, groups, self.place.n_cells, n_classes=1)


class PartCounter:
    """What a worker is sent: the counter, and nothing sensitive."""

    def __init__(self, counter: Counter) -> None:
        self.counter = counter

    @property
    def n_numbers(self) -> int:
        """C: an answer holds so many counts, whatever is in them."""
        return self.counter.size

    def __call__(self, part: Part) -> Answer | None:
        """The counts of one file, and its records. Never raises: an error would be written to a worker's log."""

        def counted() -> Answer:
            read = fetched(part, shown_as=_SHOWN_AS)
            table = data.read_table(read, sensitive=True, shown_as=_SHOWN_AS, cells=self.counter.reads_cells)
            return self.counter.histogram(table), table.n_records

        return attempted(counted, None)


class PersonPartCounter:
    """What a worker is sent where each person counts once: the counter and the column of persons."""

    def __init__(self, counter: Counter, column: str) -> None:
        self.counter, self.column = counter, column

    def __call__(self, part: Part) -> bytes:
        """Whose records of one file are in which cell; nothing at all where it failed. Never raises."""

        def counted() -> bytes:
            read = fetched(part, shown_as=_SHOWN_AS)
            table = data.read_table(read, sensitive=True, shown_as=_SHOWN_AS, cells=self.counter.reads_cells)
            return self.counter.by_person(table, read_people(read, self.column, shown_as=_SHOWN_AS)).to_bytes()

        return attempted(counted, b"")


def count(counter: Counter, table: Table) -> Sensitive[Integers]:
    """The histogram of a table in memory, sealed."""
    return Sensitive(counter.histogram(table))


def count_persons(
    counter: Counter, table: Table, people: Sequence[Person] | None, n_persons: int
) -> Sensitive[Integers]:
    """The histogram of a table in memory in which each person counts once, sealed.

    Raises:
        Sealed: the persons are not those of the records.
    """
    if people is None or len(people) != table.n_records:
        raise Sealed  # how many records there are is not said
    return Sensitive(counter.by_person(table, people).table(counter.size, n_persons))


def count_parts(
    counter: Counter, parts: Sequence[Part], n_records: int, workers: Workers | None = None
) -> Sensitive[Integers]:
    """The histogram of a partitioned table, sealed; a process has one part in memory at a time.

    Raises:
        Sealed: a part could not be read, or the parts no longer hold m records.
    """
    found = (workers or OneByOne()).map(PartCounter(counter), parts)
    answers = [answer for answer in found if answer is not None]
    if len(answers) != len(parts) or sum(n for _, n in answers) != n_records:
        raise Sealed
    return Sensitive(sum((np.asarray(counts) for counts, _ in answers), np.zeros(counter.size, dtype=np.int64)))


def count_persons_of_parts(
    counter: Counter, parts: Sequence[Part], column: str, n_persons: int, workers: Workers | None = None
) -> Sensitive[Integers]:
    """The same where each person counts once, wherever in the parts the records lie.

    Raises:
        Sealed: a part could not be read.
    """
    found = (workers or OneByOne()).answers(PersonPartCounter(counter, column), parts)
    answers = [answer for answer in found if answer]
    if len(answers) != len(parts):
        raise Sealed
    return Sensitive(PersonCells.merged(answers).table(counter.size, n_persons))
