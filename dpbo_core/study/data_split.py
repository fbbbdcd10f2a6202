"""The two halves of a study on files: the public one, and the sensitive one, which is sealed as soon as it is read.

Before the ledger reserves a study's charge, only the presence, the header and the number of records of a sensitive
file are checked. `sensitive_half` alone reads its content. If the training set is sensitive too, the public half is
what the study states about it: nothing is fitted to it, and its content does not enter the study's fingerprint.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table
from dpbo_core.data.addresses import FolderAddress, Part, QueryAddress, list_parquet_files, list_parts, parse_place
from dpbo_core.data.header import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.data.table import joined
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.policy import unallowed_score
from dpbo_core.ledger.sources import PUBLIC_ROLE, Source, file_source, inode_of
from dpbo_core.methods.problem import Problem
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.models.scoring.partitioned import PartitionedObjective, PartReader, Workers, bytes_a_record
from dpbo_core.study import DataSection, StudySpec
from dpbo_core.study.data_files import (
    TrainingReading,
    check_validation,
    fingerprint_with,
    labelled,
    named_prototype,
    public_columns,
    training_digest,
    training_parts,
)
from dpbo_core.study.public_half import (
    OwnParts,
    PublicHalf,
    fitted_half,
    fitted_map,
    half_of_parts,
    named_map,
    sealed_half,
)
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import planning_problem
from dpbo_core.study.trained_models import memory_limit

if TYPE_CHECKING:
    from dpbo_core.data.fetched import Contents
    from dpbo_core.data.people import Person


MAX_HELD_BYTES = 2**26  # encoded records of one file that are not scored as they are read, but held


@dataclass(frozen=True)
class Halves:
    """The two halves of a study's data: the public one, open to everything, and the sensitive one."""

    spec: StudySpec
    folder: Path  # that its paths are relative to
    function: Callable[[Any, Any], float] | None = None  # the user's score function, if allowed
    reading: TrainingReading = field(default_factory=TrainingReading)  # of the training table, if it was begun
    workers: Workers | None = None  # who scores the parts of a folder; this process where None
    # validation files that are read as one table, over which a person's records count; the study's own if empty
    pooled: tuple[str, ...] = ()

    def public(self, problem: Problem) -> PublicHalf:
        """Return the public training set, read, its preprocessing and a trainer."""
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
            check_validation(self.spec, self.folder, public_columns(self.spec, self.folder))

    def check(self, public: PublicHalf) -> None:
        """Refuse missing sensitive files, other columns than the training columns, or other numbers of records."""
        if self.spec.data.validation_file:
            check_validation(self.spec, self.folder, public.columns)

    def sensitive(self, public: PublicHalf) -> Scorer:
        """A sealed scorer of the sensitive records, read now, or by parts when scored; only after the charge."""
        spec, section = self.spec, self.spec.data
        folders = [
            scored_parts(one, self.folder, public.preprocessing)
            for one in each_file(spec, self.pooled)
            if section.divided is not None
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
    """Return whether the validation set is a folder of files, or of a store's objects; none is opened."""
    if spec.data.divided is None:
        return False
    place = parse_place(folder, spec.data.validation_file)
    return isinstance(place, FolderAddress) or bool(list_parquet_files(place))


def scored_parts(spec: StudySpec, folder: str | Path, fitted: Preprocessing) -> tuple[Part, ...]:
    """Return the parts that are read and scored one after another; empty where all records are held in memory.

    They are a folder's files, a store's objects, or one local Parquet file over `MAX_HELD_BYTES` once encoded, by
    the stated number of records; but a file in which a person's records, which lie anywhere, are limited is held.
    """
    parts = validation_parts(spec, folder)
    if parts or spec.data.divided is None or spec.privacy.person is not None:
        return parts
    path = parse_place(folder, spec.data.validation_file)
    large = (spec.data.n_scored or 0) * bytes_a_record(fitted) > MAX_HELD_BYTES
    return (path,) if large and isinstance(path, Path) and path.suffix.lower() == ".parquet" else ()


def validation_parts(spec: StudySpec, folder: str | Path) -> tuple[Part, ...]:
    """Return the files of a validation folder, or the objects in its store; empty for a single table."""
    if spec.data.divided is None:
        return ()
    return list_parts(parse_place(folder, spec.data.validation_file), display_name=spec.data.validation_file)


def each_file(spec: StudySpec, names: tuple[str, ...]) -> tuple[StudySpec, ...]:
    """Return copies of the study, one for each validation file in `names`; the study itself if that is empty."""
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
    from dpbo_core.data.fetched import fetched

    return fetched(parse_place(folder, place), display_name=place)


def validation_table(
    section: DataSection,
    folder: str | Path,
    contents: "Contents | None" = None,
    fitted: Preprocessing | None = None,
) -> Table:
    """Return the SENSITIVE records, not sealed, fetched unless `contents` has them; only after the charge.

    Columns have the types that preprocessing was `fitted` to; raw cells are kept where it takes the table's own.
    """
    tables = section.tables()
    if tables is not None:
        return tables[1]
    contents = contents or _fetched(folder, section.validation_file)
    mode = SENSITIVE_FILE if fitted is None else SENSITIVE_FILE.of_map(fitted)
    return data.read_table(contents, mode=mode, display_name=section.validation_file)


def people_of(
    spec: StudySpec, folder: str | Path, contents: "Contents | None" = None
) -> "tuple[Person, ...] | None":
    """Return each SENSITIVE record's person, fetched unless in `contents`; None without a column of persons."""
    person, place = spec.privacy.person, spec.data.validation_file
    if person is None or not spec.data.names_people:
        return None
    from dpbo_core.data.people import read_people

    return read_people(contents or _fetched(folder, place), person, display_name=place)


def halves_of(spec: StudySpec, folder: str | Path, **others: Any) -> Halves:
    """Return the two halves of a study's data, of the class for its kind of data; `others` are further fields."""
    if spec.data.sensitive_training:
        from dpbo_core.study.sensitive_halves import SensitiveHalves

        return SensitiveHalves(spec, Path(folder), **others)
    if not spec.model.trained:
        from dpbo_core.study.prediction_half import PredictionHalves

        return PredictionHalves(spec, Path(folder), **others)
    return Halves(spec, Path(folder), **others)


@dataclass(frozen=True)
class FileSplit:
    """The files a study names, or a bundled set; as in `Halves`."""

    spec: StudySpec
    folder: str | Path
    workers: Workers | None = None
    allowed_score: str | None = None  # the import path of the score function that the owner allowed, if any
    reading: TrainingReading = field(default_factory=TrainingReading, compare=False, repr=False)

    @classmethod
    def of(
        cls, spec: StudySpec, context: QueryContext, asked_about: tuple[Source, ...] | None = None
    ) -> "FileSplit":
        """Return a study's files, with the folder and workers of a context, its score function if allowed.

        A public file that is not `asked_about`, of which the owner's policy was asked, is not opened; None: any is.
        """
        inodes = None
        if asked_about is not None:
            inodes = frozenset(inode_of(mark) for source in asked_about for mark in source.marks)
        score = allowed_score(spec, context.ledger)
        return cls(spec, context.folder, context.workers, score, TrainingReading(inodes))

    def public(self, problem: Problem) -> "PublicHalf":
        """Return the public half: the training set, read, with a trainer; of a sensitive set what is declared."""
        return public_half(self.spec, self.folder, problem, allowed_score=self.allowed_score, reading=self.reading)

    def digest(self) -> str:
        """Return a hash of the PUBLIC training data, which are read for it; "" if there are none."""
        return training_digest(self.spec, self.folder, self.reading)

    def scored_by(self, workers: Workers | None) -> "FileSplit":
        """Return these files, with `workers` (None: this process) to score the parts of a folder."""
        return replace(self, workers=workers)

    def public_table(self) -> Table:
        """Return the public records with their raw cells, read from one file; refused if they are not in one."""
        section = self.spec.data.divided
        if section is None or training_parts(self.spec, self.folder) is not None:
            raise StudyInvalid(
                "a model is handed in for a study whose public records are one file", remedy="name one file"
            )
        place = Path(self.folder) / section.training
        table = data.read_table(place, mode=PUBLIC_FILE.with_cells(), display_name=section.training)
        return labelled(section, table)

    def hints(self) -> None:
        """Return None: a file has no pandas types of its own."""

    def sources(self) -> tuple[Source, ...]:
        """As `identified_sources`: the files of the study, as the ledger knows them; none is opened."""
        return identified_sources(self.spec, self.folder)

    def check(self, public: "PublicHalf") -> None:
        """Refuse sensitive files that are missing, or have another header or number of records than stated."""
        check_presence(self.spec, self.folder, public)

    def sensitive(self, public: "PublicHalf") -> Scorer:
        """A sealed scorer of the sensitive records, as `Halves.sensitive`; only after the charge."""
        return sensitive_half(self.spec, self.folder, public, self.workers)


def sources_of(spec: StudySpec, folder: str | Path) -> tuple[Source, ...]:
    """Return every file that a study names, or its bundled set, as the ledger knows them; none is opened.

    A bundled set is one source: which share of it is treated as sensitive does not change its identity.
    """
    section, folder = spec.data, Path(folder)
    if section.bundled_name:
        return (Source("bundled", section.bundled_name),)
    from dpbo_core.study.named_sources import place_source

    place = section.validation_file
    records = (place_source(parse_place(folder, place), "records"),) if place else ()
    if section.sensitive_training:
        return (*records, file_source(folder / section.training_file, "training records"))
    return (*records, *public_sources(spec, folder))


def identified_sources(spec: StudySpec, folder: str | Path) -> tuple[Source, ...]:
    """As `sources_of`, but a database server is asked which one it is, so that each of its names is one source."""
    shown, sources = spec.data.validation_file, sources_of(spec, folder)
    place = parse_place(folder, shown) if shown else None
    if not isinstance(place, QueryAddress):
        return sources
    from dpbo_core.data.fetched import server_marks

    return (replace(sources[0], marks=server_marks(place, display_name=shown)), *sources[1:])


def public_sources(spec: StudySpec, folder: str | Path) -> tuple[Source, ...]:
    """Return the one file that a study reads as public, as the ledger knows it; empty if it names none."""
    public = spec.data.public_file
    return (file_source(Path(folder) / public, PUBLIC_ROLE),) if public else ()


def allowed_score(spec: StudySpec, ledger: PrivacyLedger) -> str | None:
    """Return the import path of the study's score function if the owner allowed it; else None."""
    name = spec.model.score_name
    return name if spec.model.own_score and ledger.allows_score(spec.privacy.dataset, name) else None


def public_half(
    spec: StudySpec,
    folder: str | Path,
    problem: Problem | None = None,
    *,
    allowed_score: str | None = None,
    reading: TrainingReading | None = None,
) -> PublicHalf:
    """Return the public training set, read, its preprocessing and a trainer; of a sensitive set what is declared.

    A user's score function is imported where it is `allowed_score`, the one that the owner allowed, else refused.
    """
    function, name = None, spec.model.score_name
    if spec.model.own_score:
        if name != allowed_score:
            raise unallowed_score(name, spec.privacy.dataset)
        from dpbo_core.models.import_path import function_at

        function = function_at(name)
    problem = planning_problem(spec, folder) if problem is None else problem
    return halves_of(spec, folder, function=function, reading=reading or TrainingReading()).public(problem)


def check_presence(spec: StudySpec, folder: str | Path, public: PublicHalf) -> None:
    """Refuse missing sensitive files, other columns than the training columns, or other numbers of records."""
    halves_of(spec, folder).check(public)


def sensitive_half(
    spec: StudySpec,
    folder: str | Path,
    public: PublicHalf,
    workers: Workers | None = None,
    *,
    pooled: tuple[str, ...] = (),
) -> Scorer:
    """Return a sealed scorer of the sensitive records, as `Halves.sensitive`; only after the charge."""
    return halves_of(spec, folder, workers=workers, pooled=pooled).sensitive(public)
