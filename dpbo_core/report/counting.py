"""The sensitive records of an evaluation in one pass: how many are in each cell, in one table or over many parts.

| symbol | name here | meaning | shape |
|---|---|---|---|
| C | `Counter.size` | cells, 1 + G times those of a group, 2·B for two classes | scalar |
| n | `count` | records in each cell; their sum is the number of records | (C,) int64 |
| N | `count_persons` | the same where each person weighs as much (`PersonCells`) | (C,) int64 |

A record's cell depends on the model and that record alone, so parts add up to the one table's histogram, whoever
counts them. Workers are inside the curator's boundary, as when parts are scored (`objective.partitioned`). Those
in memory are counted by `sklearn_api.search_run`.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table
from dpbo_core.data.addresses import Part, list_parts, parse_place
from dpbo_core.data.fetched import Contents, fetched
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.data.people import Person, read_people
from dpbo_core.errors import DpboError, Sealed, StudyInvalid
from dpbo_core.models.estimators import Scorable
from dpbo_core.models.scoring.partitioned import FILE_NAME_SHOWN, Answer, SerialWorkers, Workers, pieces_of
from dpbo_core.models.scoring.persons import Persons
from dpbo_core.privacy.sensitive import Sensitive, attempted
from dpbo_core.report.histogram_cells import (
    Grouping,
    HistogramCells,
    Integers,
    PersonCells,
    kind_cells,
    only_needed,
    with_groups,
)
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import FileSplit, records_of, scored_parts
from dpbo_core.study.public_half import DataSplit, PublicHalf, counted_records


@dataclass(frozen=True, eq=False, repr=False)
class TableCounter(ABC):
    """What is counted of a sensitive table, by public models and settings."""

    preprocessing: Preprocessing  # from raw columns to the rows of the model that needs the most

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers are counted."""

    @abstractmethod
    def codes(self, table: Table, *, by_person: bool) -> Integers:
        """Return each record's cell, (m,), 0 for what is not read; by person whatever the records' order."""

    @abstractmethod
    def histogram(self, table: Table) -> Integers:
        """The exact counts of the table's records, (C,): as sensitive as the table."""

    def by_person(self, table: Table, people: Sequence[Person]) -> PersonCells:
        """Return each person's number of records in each cell: as sensitive as the table."""
        return PersonCells.of(Persons.of(people), self.codes(table, by_person=True))

    @abstractmethod
    def persons_table(self, people: PersonCells, n_persons: int) -> Integers:
        """The exact counts, (C,), where each of n persons counts once."""

    @abstractmethod
    def of_parts(self, parts: Sequence[Part], n_records: int, workers: Workers | None) -> Integers:
        """The exact counts of files, (C,), refused unless they hold `n_records`; read by `workers`, else here."""

    def read(self, file: Contents) -> Table:
        """The SENSITIVE records of one file, with the file's own values too if the model takes a data frame."""
        mode = SENSITIVE_FILE.of_map(self.preprocessing)
        return data.read_table(file, mode=mode, display_name=FILE_NAME_SHOWN)


@dataclass(frozen=True, eq=False, repr=False)
class CellCounter(TableCounter):
    """Counts how many records, or how much of a person, are in each cell."""

    def histogram(self, table: Table) -> Integers:
        """The exact number of the table's records in each histogram cell, (C,): as sensitive as the table."""
        return np.bincount(self.codes(table, by_person=False), minlength=self.size).astype(np.int64)

    def persons_table(self, people: PersonCells, n_persons: int) -> Integers:
        """The exact histogram, (C,), where each of n persons counts once."""
        return people.table(self.size, n_persons)

    def of_parts(self, parts: Sequence[Part], n_records: int, workers: Workers | None) -> Integers:
        """Return the exact histogram of files, refused unless they hold `n_records`."""
        workers = workers or SerialWorkers()
        parts = pieces_of(parts, workers)
        answers = [one for one in workers.map(PartCounter(self), parts) if one is not None]
        if len(answers) != len(parts) or sum(n for _, n in answers) != n_records:
            raise Sealed
        return sum((np.asarray(counts) for counts, _ in answers), np.zeros(self.size, dtype=np.int64))


@dataclass(frozen=True, eq=False, repr=False)
class Counter(CellCounter):
    """The public model and settings by which records are assigned to histogram cells and counted."""

    model: Scorable  # whose decision values, classes or errors are counted
    cells: HistogramCells  # of the report's kind
    grouping: Grouping | None = None  # None for the whole alone

    @property
    def n_groups(self) -> int:
        """The number G of groups of records, the one for all unlisted values included; 1 without groups."""
        return 1 if self.grouping is None else len(self.grouping.categories) + 1

    @property
    def size(self) -> int:
        """The number C of histogram cells of all groups together, with one for unreadable records."""
        return 1 + self.cells.n_cells * self.n_groups

    def codes(self, table: Table, *, by_person: bool) -> Integers:
        """Return each record's histogram cell, (m,), among those of all groups."""
        encoded = self.preprocessing.transform(only_needed(table, self.preprocessing))
        groups = None if self.grouping is None else self.grouping.of(table)
        cells = kind_cells(self.model, encoded, self.cells, by_person=by_person)
        return with_groups(cells, groups, self.cells.n_cells)


@dataclass(frozen=True, eq=False, repr=False)
class PartCounter:
    """The counting function that is sent to a worker, which contains nothing sensitive."""

    counter: CellCounter

    @property
    def n_numbers(self) -> int:
        """The number C of counts that a worker sends back for a file, whatever the data."""
        return self.counter.size

    def __call__(self, part: Part) -> Answer | None:
        """Return the counts of one file and its number of records; None if that failed, since errors reach logs."""

        def counted() -> Answer:
            table = self.counter.read(fetched(part, display_name=FILE_NAME_SHOWN))
            return self.counter.histogram(table), table.n_records

        return attempted(counted, None)


def _person_counts(counter: TableCounter, column: str, part: Part) -> bytes:
    """Return each person's counts of one file's records, as bytes; empty if that failed. Never raises."""

    def counted() -> bytes:
        file = fetched(part, display_name=FILE_NAME_SHOWN)
        people = read_people(file, column, display_name=FILE_NAME_SHOWN)
        return counter.by_person(counter.read(file), people).to_bytes()

    return attempted(counted, b"")


def count_persons(
    counter: TableCounter, table: Table, people: Sequence[Person] | None, n_persons: int
) -> Sensitive[Integers]:
    """The sealed histogram in which each person counts once; refused unless `people` has one for each record."""
    if people is None or len(people) != table.n_records:
        raise Sealed  # how many records there are is not said
    return Sensitive(counter.persons_table(counter.by_person(table, people), n_persons))


def count_persons_of_parts(
    counter: TableCounter, parts: Sequence[Part], column: str, n_persons: int, workers: Workers | None = None
) -> Sensitive[Integers]:
    """The sealed histogram of files, each person (in `column`) counting once; read by `workers`, else here."""
    workers = workers or SerialWorkers()
    parts = pieces_of(parts, workers)
    work = partial(_person_counts, counter, column)  # what a worker is sent contains nothing sensitive
    answers = [one for one in workers.answers(work, parts) if one]
    if len(answers) != len(parts):
        raise Sealed
    return Sensitive(counter.persons_table(PersonCells.merged(answers), n_persons))


class SensitiveTable(Protocol):
    """How the sensitive records of a split are counted, wherever they come from."""

    @property
    def split(self) -> DataSplit:
        """The data split that the records are from: it names their sources and checks them without reading any."""

    @property
    def tells(self) -> tuple[type[DpboError], ...]:
        """The kinds of error whose message may be shown, since it has public facts alone whatever records hold."""

    def columns(self, public: PublicHalf) -> tuple[str, ...]:
        """Return the names of the sensitive table's columns, for which no record is read."""

    def count(self, counter: TableCounter, workers: Workers | None) -> Sensitive[Integers]:
        """The sealed number of records, or persons, in each histogram cell; to be called only after the charge."""


@dataclass(frozen=True, eq=False, repr=False)
class FileTable:
    """The validation file of a study, a folder of them, or the validation records of a bundled set."""

    split: FileSplit  # of the study
    tells: tuple[type[DpboError], ...] = (StudyInvalid,)  # a file holds bytes, whose reader says sizes alone

    def columns(self, public: PublicHalf) -> tuple[str, ...]:
        """Return the column names in the sensitive file's header; of a bundled set, those of its public half."""
        file_name = self.split.spec.data.validation_file
        if not file_name:
            return public.columns
        path = parse_place(self.split.folder, file_name)
        first = (list_parts(path, display_name=file_name) or (path,))[0]
        return data.read_header(first, mode=SENSITIVE_FILE, display_name=file_name).columns

    def count(self, counter: TableCounter, workers: Workers | None) -> Sensitive[Integers]:
        """Return the sealed histogram of the records, read now, part by part in a folder; only after the charge."""
        spec, folder = self.split.spec, self.split.folder
        parts, n_persons = scored_parts(spec, folder, counter.preprocessing), spec.data.person_count
        if parts and n_persons is not None:
            return count_persons_of_parts(counter, parts, str(spec.privacy.person), n_persons, workers)
        if parts:
            return Sensitive(counter.of_parts(parts, spec.data.n_scored or 0, workers))
        return count_table(spec, counter, *records_of(spec, folder, counter.preprocessing))


def count_table(
    spec: StudySpec, counter: TableCounter, table: Table, people: Sequence[Person] | None
) -> Sensitive[Integers]:
    """Return the sealed histogram of a table: of records up to each person's limit or, if so stated, of persons."""
    if spec.data.person_count is not None:
        return count_persons(counter, table, people, spec.data.person_count)
    return Sensitive(counter.histogram(counted_records(spec, table, people)))
