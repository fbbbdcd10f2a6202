"""How a public training set and its sensitive records are split: two files, or a bundled set.

The other kinds of data have a class of their own: predictions made elsewhere (`prediction_half`), and a training
set that is sensitive too (`sensitive_halves`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table
from dpbo_core.data.addresses import FolderAddress, Part, files_of, parts_of, place_of
from dpbo_core.data.read_mode import SENSITIVE_FILE
from dpbo_core.data.table import joined
from dpbo_core.methods.problem import Problem
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.models.scoring.partitioned import PartitionedObjective, PartReader, Workers
from dpbo_core.study import DataSection, StudySpec
from dpbo_core.study.headers import PublicHeader, check_validation, public_header, training_parts
from dpbo_core.study.public_half import (
    OwnParts,
    PublicHalf,
    fitted_half,
    fitted_map,
    half_of_parts,
    named_map,
    sealed_half,
)
from dpbo_core.study.trained_models import memory_limit
from dpbo_core.study.training_set import TrainingReading, fingerprint_with, named_prototype

if TYPE_CHECKING:
    from dpbo_core.data.fetched import Contents
    from dpbo_core.data.people import Person


@dataclass(frozen=True)
class Halves:
    """The two halves of a study's data: the public one, open to everything, and the sensitive one.

    Attributes:
        spec: the study.
        folder: the folder that its paths are relative to.
        function: the user's score function, where the study has one that is allowed.
        reading: of the training table, if it was begun.
        workers: who scores the parts of a folder; this process where None.
        pooled: validation files that are read as one table, in this order; the study's own where empty. A person's
            records are counted over all of them.
    """

    spec: StudySpec
    folder: Path
    function: Callable[[Any, Any], float] | None = None
    reading: TrainingReading = field(default_factory=TrainingReading)
    workers: Workers | None = None
    pooled: tuple[str, ...] = ()

    def public(self, problem: Problem) -> PublicHalf:
        """The public training set, read, its preprocessing and a trainer."""
        parts = training_parts(self.spec, self.folder)
        if parts is not None:
            return half_of_parts(self.spec, problem, *parts)
        prototype = named_prototype(self.spec, self.folder)
        table, target = self.reading.take(self.spec, self.folder)
        fitted = (named_map if self.spec.model.takes_columns else fitted_map)(self.spec, table, target)
        public = fitted_half(self.spec, problem, table, fitted, OwnParts(prototype, self.function))
        return replace(public, fingerprint=fingerprint_with(public.fingerprint, prototype))

    def check_headers(self, _: Problem) -> None:
        """Refuse sensitive files that are missing or not as stated, by their headers and that of the public set."""
        if self.spec.data.divided is not None:
            check_validation(self.spec, self.folder, public_header(self.spec, self.folder).columns)

    def check(self, public: PublicHalf | PublicHeader) -> None:
        """Refuse missing sensitive files, other columns than the training columns, or other numbers of records."""
        if self.spec.data.validation_file:
            check_validation(self.spec, self.folder, public.columns)

    def sensitive(self, public: PublicHalf) -> Scorer:
        """A sealed scorer of the sensitive records, read now, or when scored if a folder; only after the charge.

        A folder of Parquet files is not read here: its parts are, one by one or by workers, when they are scored.
        """
        spec, section = self.spec, self.spec.data
        names = self.pooled or (section.validation_file,)
        folders = [
            parts_of(place_of(self.folder, name), shown_as=name) for name in names if section.divided is not None
        ]
        if folders and all(folders):
            parts, score = tuple(chain.from_iterable(folders)), public.problem.score
            reader = PartReader(public.preprocessing, memory_limit(spec))
            if section.person_count is None:
                return PartitionedObjective(parts, reader, score, section.n_scored or 0, self.workers)
            from dpbo_core.models.scoring.persons import PartitionedPersons

            person = str(spec.privacy.person)
            return PartitionedPersons(parts, reader, person, score, section.person_count, self.workers)
        read = [records_of(one, self.folder, public.preprocessing) for one in each_file(spec, self.pooled)]
        people = [of_file for _, of_file in read if of_file is not None]
        table = joined([table for table, _ in read])
        return sealed_half(spec, table, tuple(chain.from_iterable(people)) if people else None, public)


def is_partitioned(spec: StudySpec, folder: str | Path) -> bool:
    """Whether the validation set is a folder of files, or of a store's objects; none is opened."""
    if spec.data.divided is None:
        return False
    place = place_of(folder, spec.data.validation_file)
    return isinstance(place, FolderAddress) or bool(files_of(place))


def validation_parts(spec: StudySpec, folder: str | Path) -> tuple[Part, ...]:
    """The files, or objects (their store is asked which), of a validation folder; empty for a single table."""
    if spec.data.divided is None:
        return ()
    return parts_of(place_of(folder, spec.data.validation_file), shown_as=spec.data.validation_file)


def each_file(spec: StudySpec, names: tuple[str, ...]) -> tuple[StudySpec, ...]:
    """Copies of the study, one for each validation file in `names`; the study itself where `names` is empty."""
    files = spec.data.divided
    if files is None or not names:
        return (spec,)
    return tuple(spec.replace(data=files.replace(validation=name)) for name in names)


def records_of(
    spec: StudySpec, folder: str | Path, fitted: Preprocessing | None = None
) -> "tuple[Table, tuple[Person, ...] | None]":
    """Read the SENSITIVE records: they, and the person of each (None without persons). Only after the charge."""
    section = spec.data
    if not section.has_validation:
        raise TypeError("there is no validation set")
    contents = _fetched(folder, section.validation_file) if section.validation_file else None
    return validation_table(section, folder, contents, fitted), people_of(spec, folder, contents)


def _fetched(folder: str | Path, place: str) -> "Contents":
    """The file of SENSITIVE records at a path or address of a study, fetched if it is elsewhere."""
    from dpbo_core.data.fetched import fetched

    return fetched(place_of(folder, place), shown_as=place)


def validation_table(
    section: DataSection,
    folder: str | Path,
    contents: "Contents | None" = None,
    fitted: Preprocessing | None = None,
) -> Table:
    """The SENSITIVE records, not sealed, fetched unless `contents` has them; only after the charge.

    Columns have the types that preprocessing was `fitted` to; raw cells are kept where it takes the table's own.
    """
    tables = section.tables()
    if tables is not None:
        return tables[1]
    contents = contents or _fetched(folder, section.validation_file)
    mode = SENSITIVE_FILE if fitted is None else SENSITIVE_FILE.of_map(fitted)
    return data.read_table(contents, mode=mode, shown_as=section.validation_file)


def people_of(
    spec: StudySpec, folder: str | Path, contents: "Contents | None" = None
) -> "tuple[Person, ...] | None":
    """Each SENSITIVE record's person, fetched unless in `contents`; None where no column of persons is named."""
    person, place = spec.privacy.person, spec.data.validation_file
    if person is None or not spec.data.names_people:
        return None
    from dpbo_core.data.people import read_people

    return read_people(contents or _fetched(folder, place), person, shown_as=place)
