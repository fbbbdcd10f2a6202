"""The table of sensitive records that an evaluation counts: its outside, and how it is counted, on files.

Tables in memory are `sklearn_api.evaluated`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dpbo_core import data
from dpbo_core.accounting.sources import Source
from dpbo_core.data import Table
from dpbo_core.data.addresses import place_of
from dpbo_core.data.people import Person
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.evaluation.counting import Counter, count, count_parts, count_persons, count_persons_of_parts
from dpbo_core.evaluation.places import Integers
from dpbo_core.objective.partitioned import Workers, parts_of
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.spec import PersonFiles, PublicFiles, SensitiveFiles, SensitiveTraining, StudySpec
from dpbo_core.study.data_split import FileSplit, records_of
from dpbo_core.study.public_half import PublicHalf, counted_records


class SensitiveTable(Protocol):
    """Where the sensitive records come from."""

    @property
    def tells(self) -> tuple[type[DpboError], ...]:
        """Kinds of error whose message says public facts alone, whatever the records hold."""
        ...

    def sources(self) -> tuple[Source, ...]:
        """What is charged for, by name."""
        ...

    def check(self, public: PublicHalf) -> None:
        """Everything that can be refused without a record's content."""
        ...

    def columns(self, public: PublicHalf) -> tuple[str, ...]:
        """The names of its columns."""
        ...

    def count(self, counter: Counter, workers: Workers | None) -> Sensitive[Integers]:
        """How many records, or persons, are in each cell; after reserving only."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class FileTable:
    """The validation file of a study, a folder of them, or the validation records of a bundled set."""

    split: FileSplit

    @property
    def tells(self) -> tuple[type[DpboError], ...]:
        """A file holds bytes, whose reader says sizes alone."""
        return (StudyInvalid,)

    def sources(self) -> tuple[Source, ...]:
        """The files by their names, or the bundled set."""
        return self.split.sources()

    def check(self, public: PublicHalf) -> None:
        """Presence, header, and the number of records where it is public."""
        self.split.check(public)

    def columns(self, public: PublicHalf) -> tuple[str, ...]:
        """Of the file's header, which was checked, and no more of it."""
        given = self.split.spec.data
        if not isinstance(given, PublicFiles | PersonFiles | SensitiveFiles):
            return public.columns
        path = place_of(self.split.folder, given.validation)
        first = (parts_of(path, shown_as=given.validation) or (path,))[0]
        return data.read_header(first, sensitive=True, shown_as=given.validation).columns

    def count(self, counter: Counter, workers: Workers | None) -> Sensitive[Integers]:
        """Read the records, whatever their bytes, and count them, part by part where there are parts."""
        spec, folder = self.split.spec, self.split.folder
        given = spec.data
        if isinstance(given, PublicFiles | PersonFiles):
            parts = parts_of(place_of(folder, given.validation), shown_as=given.validation)
            if parts and isinstance(given, PersonFiles):
                return count_persons_of_parts(counter, parts, str(spec.privacy.person), given.n_persons, workers)
            if parts and isinstance(given, PublicFiles):
                return count_parts(counter, parts, given.n_validation, workers)
        elif isinstance(given, SensitiveTraining):
            raise TypeError("there is no validation set")
        return count_table(spec, counter, *records_of(spec, folder, cells=counter.reads_cells))


def count_table(
    spec: StudySpec, counter: Counter, table: Table, people: Sequence[Person] | None
) -> Sensitive[Integers]:
    """The cells of one table as the study counts: records, of which at most k are one person's, or persons."""
    if isinstance(spec.data, PersonFiles):
        return count_persons(counter, table, people, spec.data.n_persons)
    return count(counter, counted_records(spec, table, people))
