"""The two halves of a study on files: the public one, open to everything, and the sensitive one, sealed at once.

Before a study is reserved only the presence, the header and the number of records of a sensitive file are looked
at; its content is read by `sensitive_half` alone. Where the training set is sensitive too, the public half is what
the study says of it: nothing is fitted to it, and its content does not enter the study's fingerprint.
"""

from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table, bundled
from dpbo_core.data.addresses import FolderAddress, Part, files_of, parts_of, place_of
from dpbo_core.data.bundled import TARGET as BUNDLED_TARGET
from dpbo_core.data.read_mode import PUBLIC_FILE, SENSITIVE_FILE
from dpbo_core.data.table import joined
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.policy import unallowed_score
from dpbo_core.ledger.sources import PUBLIC, Source, file_source, inode_of
from dpbo_core.preparation.context import QueryContext
from dpbo_core.preparation.headers import (
    PublicHeader,
    check_distinct,
    check_files,
    check_n_validation,
    check_person,
    check_validation,
    training_parts,
)
from dpbo_core.preparation.public_half import (
    OwnParts,
    PublicHalf,
    fitted_half,
    fitted_map,
    half_of_parts,
    named_map,
    sealed_half,
)
from dpbo_core.preparation.resolve import facts_of, planning_problem
from dpbo_core.preparation.trained_models import memory_limit
from dpbo_core.preparation.training_set import TrainingReading, fingerprint_with, named_prototype, training_digest
from dpbo_core.preparation.training_set import training_table as training_table
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.problem.problem import Problem
from dpbo_core.scoring.in_memory import Objective, Scorer
from dpbo_core.scoring.partitioned import PartitionedObjective, PartReader, Workers
from dpbo_core.study_file import (
    Bundled,
    FunctionSection,
    PersonFiles,
    PredictionTable,
    PublicFiles,
    SensitiveBundled,
    SensitiveData,
    SensitiveFiles,
    SensitiveTraining,
    StudySpec,
)

if TYPE_CHECKING:
    from dpbo_core.data.fetched import Contents
    from dpbo_core.data.people import Person


@dataclass(frozen=True)
class FileSplit:
    """The files a study names, or a bundled set.

    Attributes:
        spec: the study.
        folder: the folder that its paths are relative to.
        workers: who scores the parts of a folder; this process where None.
        allowed_score: the import path of the score function that the dataset's owner allowed, if any.
        reading: the training table, once it was read for its digest, until the public half is made of it.
    """

    spec: StudySpec
    folder: str | Path
    workers: Workers | None = None
    allowed_score: str | None = None
    reading: TrainingReading = field(default_factory=TrainingReading, compare=False, repr=False)

    @classmethod
    def of(
        cls, spec: StudySpec, context: QueryContext, asked_about: tuple[Source, ...] | None = None
    ) -> "FileSplit":
        """A study's files, with the folder and workers of a context, its score function if allowed.

        Args:
            spec: the study.
            context: that asks for it.
            asked_about: the public file as the owner's policy was asked about it; one that is another when it is
                opened is refused. Of None any is read.
        """
        inodes = None
        if asked_about is not None:
            inodes = frozenset(inode_of(mark) for source in asked_about for mark in source.marks)
        score = allowed_score(spec, context.ledger)
        return cls(spec, context.folder, context.workers, score, TrainingReading(inodes))

    def public(self, problem: Problem) -> "PublicHalf":
        """The public training set with preprocessing and trainer, read; of a sensitive one what is declared."""
        return public_half(self.spec, self.folder, problem, allowed_score=self.allowed_score, reading=self.reading)

    def digest(self) -> str:
        """A hash of the PUBLIC training data, read for it; "" where there are none, or they are sensitive."""
        return training_digest(self.spec, self.folder, self.reading)

    def scored_by(self, workers: Workers | None) -> "FileSplit":
        """These files, with `workers` (None: this process) to score the parts of a folder."""
        return replace(self, workers=workers)

    def public_table(self) -> Table:
        """The public records with their raw cells, read from one file; refused where they are not in one."""
        section = self.spec.data
        if training_parts(self.spec, self.folder) is not None or not isinstance(section, PublicFiles | PersonFiles):
            raise StudyInvalid(
                "a model is handed in for a study whose public records are one file", remedy="name one file"
            )
        place = Path(self.folder) / section.training
        return data.read_table(place, mode=PUBLIC_FILE.with_cells(), shown_as=section.training)

    def hints(self) -> None:
        """None: a file has no pandas types of its own."""

    def sources(self) -> tuple[Source, ...]:
        """The sensitive and public files of the study, as the ledger knows them; none is opened, but a database
        server is asked which one it is.
        """
        return identified_sources(self.spec, self.folder)

    def check(self, public: "PublicHalf") -> None:
        """Refuse sensitive files that are missing, or have another header or number of records than stated."""
        check_presence(self.spec, self.folder, public)

    def sensitive(self, public: "PublicHalf") -> Scorer:
        """A sealed scorer of the sensitive records, read now, or when scored if a folder; only after the charge."""
        return sensitive_half(self.spec, self.folder, public, self.workers)


def sources_of(spec: StudySpec, folder: str | Path) -> tuple[Source, ...]:
    """Every file that a study names, or its bundled set, as the ledger knows them; none is opened.

    A bundled set is everybody's, whatever share of it plays the sensitive half: no share is remembered.
    """
    if isinstance(spec.data, Bundled):
        return (Source("bundled", spec.data.source),)
    from dpbo_core.preparation.named_sources import place_source

    folder = Path(folder)
    public = public_sources(spec, folder)
    match spec.data:
        case PublicFiles(validation=validation) | PersonFiles(validation=validation):
            return (place_source(place_of(folder, validation), "records"), *public)
        case PredictionTable(predictions=predictions):
            return (place_source(place_of(folder, predictions), "records"), *public)
        case SensitiveFiles(training=training, validation=validation):
            records = place_source(place_of(folder, validation), "records")
            return (records, file_source(folder / training, "training records"))
        case SensitiveTraining(training=training):
            return (file_source(folder / training, "training records"),)


def identified_sources(spec: StudySpec, folder: str | Path) -> tuple[Source, ...]:
    """As `sources_of`, but a database server is asked which one it is, so that each of its names is one source.

    Raises:
        StudyInvalid: it could not be asked, or does not say.
    """
    section, sources = spec.data, sources_of(spec, folder)
    if isinstance(section, Bundled | SensitiveTraining):
        return sources
    from dpbo_core.preparation.named_sources import identified_source

    shown = records_place(section)
    return (identified_source(place_of(folder, shown), shown_as=shown), *sources[1:])


def public_sources(spec: StudySpec, folder: str | Path) -> tuple[Source, ...]:
    """The one file that a study reads as public, as the ledger knows it; empty if it names none."""
    match spec.data:
        case PublicFiles(training=public) | PersonFiles(training=public) | PredictionTable(public=str(public)):
            return (file_source(Path(folder) / public, PUBLIC),)
        case _:
            return ()


def allowed_score(spec: StudySpec, ledger: PrivacyLedger) -> str | None:
    """The import path of the study's score function if the owner allowed it; None if not, or if it has none."""
    if not isinstance(spec.model, FunctionSection) or not ledger.allows_score(
        spec.privacy.dataset, spec.model.score
    ):
        return None
    return spec.model.score


def public_half(
    spec: StudySpec,
    folder: str | Path,
    problem: Problem | None = None,
    *,
    allowed_score: str | None = None,
    reading: TrainingReading | None = None,
) -> PublicHalf:
    """The public training set, read, its preprocessing and a trainer; of a sensitive one what the study declares. A
    user's score function is imported if it is `allowed_score`, else refused.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.
        problem: the problem it poses; worked out from the study where None.
        allowed_score: the import path of the score function that the dataset's owner allowed, if any. The study's
            is imported where it is this one, and at no other time.
        reading: of the training table, if it was begun.

    Raises:
        StudyInvalid: the training data cannot be used as the study says.
        PolicyRefused: nobody allowed the study's score function.
    """
    function, reading = None, reading or TrainingReading()
    if isinstance(spec.model, FunctionSection):
        if spec.model.score != allowed_score:
            raise unallowed_score(spec.model.score, spec.privacy.dataset)
        from dpbo_core.models.import_path import function_at

        function = function_at(spec.model.score)
    problem = planning_problem(spec, folder) if problem is None else problem
    if isinstance(spec.data, SensitiveData):
        return _declared_half(spec, spec.data, folder, problem)
    if isinstance(spec.data, PredictionTable):
        from dpbo_core.preparation.prediction_half import prediction_half

        table = None if spec.data.public is None else reading.take(spec, folder)[0]
        return prediction_half(spec, problem, table)
    parts = training_parts(spec, folder)
    if parts is not None:
        return half_of_parts(spec, problem, *parts)
    prototype = named_prototype(spec, folder)
    table, target = reading.take(spec, folder)
    fitted = (named_map if spec.model.takes_columns else fitted_map)(spec, table, target)
    public = fitted_half(spec, problem, table, fitted, OwnParts(prototype, function))
    return replace(public, fingerprint=fingerprint_with(public.fingerprint, prototype))


def check_headers(spec: StudySpec, folder: str | Path, problem: Problem) -> None:
    """Refuse sensitive files that are missing or not as stated, by their headers and that of the public set.

    Raises:
        StudyInvalid: it is not so; or the public training set is not there. No record's content was looked at.
    """
    match spec.data:
        case PublicFiles() | PersonFiles() as section:
            check_files(spec, section, folder)
        case PredictionTable():
            from dpbo_core.preparation.prediction_half import prediction_half

            check_presence(spec, folder, prediction_half(spec, problem, None))
        case SensitiveFiles() | SensitiveTraining() as section:
            check_presence(spec, folder, _declared_half(spec, section, folder, problem))


def check_presence(spec: StudySpec, folder: str | Path, public: PublicHalf | PublicHeader) -> None:
    """Refuse missing sensitive files, other columns than the training columns, or other numbers of records.

    Raises:
        StudyInvalid: it is not so. No record's content was looked at.
    """
    section = spec.data
    if isinstance(section, SensitiveFiles | SensitiveTraining):
        n_records = data.read_header(
            Path(folder) / section.training, mode=SENSITIVE_FILE, shown_as=section.training
        ).n_records
        data.check_record_count(n_records, section.n_training, shown_as=section.training, key="n_training")
    if isinstance(section, PredictionTable):
        _check_predictions(spec, section, folder, public)
    if isinstance(section, PublicFiles | PersonFiles | SensitiveFiles):
        check_validation(spec, section, folder, public.columns)


def _check_predictions(
    spec: StudySpec, section: PredictionTable, folder: str | Path, public: PublicHalf | PublicHeader
) -> None:
    """Refuse a table of predictions that is missing, or has other columns or numbers of records than stated."""
    from dpbo_core.preparation.prediction_half import check_prediction_columns

    place, shown = place_of(folder, section.predictions), section.predictions
    if section.public is not None and isinstance(place, Path):
        check_distinct((Path(folder) / section.public,), (place,), shown_as=shown)
    header = data.read_header(place, mode=SENSITIVE_FILE, shown_as=shown)
    check_person(spec, header.columns, shown_as=shown)
    check_prediction_columns(public, header.columns, shown_as=shown)
    check_n_validation(spec, header.n_records, shown_as=shown)


def is_partitioned(spec: StudySpec, folder: str | Path) -> bool:
    """Whether the validation set is a folder of files, or of a store's objects; none is opened."""
    section = spec.data
    if not isinstance(section, PublicFiles | PersonFiles):
        return False
    place = place_of(folder, section.validation)
    return isinstance(place, FolderAddress) or bool(files_of(place))


def validation_parts(spec: StudySpec, folder: str | Path) -> tuple[Part, ...]:
    """The files, or objects (their store is asked which), of a validation folder; empty for a single table."""
    section = spec.data
    if not isinstance(section, PublicFiles | PersonFiles):
        return ()
    return parts_of(place_of(folder, section.validation), shown_as=section.validation)


def each_file(spec: StudySpec, names: tuple[str, ...]) -> tuple[StudySpec, ...]:
    """Copies of the study, one for each validation file in `names`; the study itself where `names` is empty."""
    files = spec.data
    if not isinstance(files, PublicFiles | PersonFiles) or not names:
        return (spec,)
    return tuple(spec.replace(data=files.replace(validation=name)) for name in names)


def sensitive_half(
    spec: StudySpec,
    folder: str | Path,
    public: PublicHalf,
    workers: Workers | None = None,
    *,
    pooled: tuple[str, ...] = (),
) -> Scorer:
    """A sealed scorer of the sensitive records, read now, or when scored if a folder; only after the charge.

    A folder of Parquet files is not read here: its parts are, one by one or by `workers`, when they are scored.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.
        public: its public half.
        workers: who scores the parts of a folder; this process where None.
        pooled: validation files that are read as one table, in this order; the study's own where empty. A person's
            records are counted over all of them.
    """
    section = spec.data
    if isinstance(section, SensitiveData):
        return _both_sensitive(spec, section, folder, public)
    if isinstance(section, PublicFiles | PersonFiles):
        named = pooled or (section.validation,)
        folders = [parts_of(place_of(folder, name), shown_as=name) for name in named]
        parts = tuple(chain.from_iterable(folders)) if all(folders) else ()
        score = public.problem.score
        reader = PartReader(public.preprocessing, memory_limit(spec))
        if parts and isinstance(section, PersonFiles):
            from dpbo_core.scoring.persons import PartitionedPersons

            return PartitionedPersons(parts, reader, str(spec.privacy.person), score, section.n_persons, workers)
        if parts and isinstance(section, PublicFiles):
            return PartitionedObjective(parts, reader, score, section.n_validation, workers)
    read = [records_of(one, folder, public.preprocessing) for one in each_file(spec, pooled)]
    people = [of_file for _, of_file in read if of_file is not None]
    return sealed_half(
        spec, joined([table for table, _ in read]), tuple(chain.from_iterable(people)) if people else None, public
    )


def _both_sensitive(spec: StudySpec, section: SensitiveData, folder: str | Path, public: PublicHalf) -> Objective:
    """Read the SENSITIVE training records, and the validation file if there is one: their sealed scorer."""
    encode, score, n = public.preprocessing.transform, public.problem.score, facts_of(section).n_records
    trained_on, _ = training_table(spec, folder)
    data.check_record_count(trained_on.n_records, n, shown_as="the training set", key="n_training")
    training = Sensitive(encode(trained_on))
    if isinstance(section, SensitiveTraining):
        return Objective(training, score, training)
    table = validation_table(section, folder)
    check_n_validation(spec, table.n_records)
    return Objective(Sensitive(encode(table)), score, training)


def _declared_half(spec: StudySpec, section: SensitiveData, folder: str | Path, problem: Problem) -> PublicHalf:
    """The public half of a study whose training set is sensitive: its header and what the study declares."""
    match section:
        case SensitiveBundled():
            columns, target = tuple(training_table(spec, folder)[0].columns), BUNDLED_TARGET
            bounds = section.bounds or bundled.public_facts(section.source)[1]
        case SensitiveFiles() | SensitiveTraining():
            path = Path(folder) / section.training
            columns = tuple(data.read_header(path, mode=SENSITIVE_FILE, shown_as=section.training).columns)
            target, bounds = section.target, section.bounds
    facts = facts_of(section)
    declared = Preprocessing.public(columns, target, labels=facts.classes, bounds=bounds, bias=spec.model.bias)
    facts = replace(facts, feature_names=declared.feature_names)
    return PublicHalf(
        problem=replace(problem, training=facts),
        preprocessing=declared,
        columns=columns,
        target=target,
        fingerprint="",  # a hash of sensitive records would tell whether a guess of them is right
    )


def records_of(
    spec: StudySpec, folder: str | Path, fitted: Preprocessing | None = None
) -> "tuple[Table, tuple[Person, ...] | None]":
    """Read the SENSITIVE records: they, and the person of each (None without persons). Only after the charge."""
    section = spec.data
    if isinstance(section, SensitiveTraining):
        raise TypeError("there is no validation set")
    contents = None
    if not isinstance(section, Bundled):
        place = records_place(section)
        contents = _fetched(folder, place)
    return validation_table(section, folder, contents, fitted), people_of(spec, folder, contents)


def _fetched(folder: str | Path, place: str) -> "Contents":
    """The file of SENSITIVE records at a path or address of a study, fetched if it is elsewhere."""
    from dpbo_core.data.fetched import fetched

    return fetched(place_of(folder, place), shown_as=place)


def records_place(section: PublicFiles | PersonFiles | SensitiveFiles | PredictionTable) -> str:
    """The path or address of the study's sensitive records."""
    return section.predictions if isinstance(section, PredictionTable) else section.validation


def validation_table(
    section: PublicFiles | PersonFiles | SensitiveFiles | PredictionTable | Bundled,
    folder: str | Path,
    contents: "Contents | None" = None,
    fitted: Preprocessing | None = None,
) -> Table:
    """The SENSITIVE records, not sealed, fetched unless `contents` has them; only after the charge.

    Raw cells are kept where the preprocessing that was `fitted` takes the table's own columns.
    """
    if isinstance(section, Bundled):
        return bundled.load(section.source, section.validation_share)[1]
    place = records_place(section)
    contents = contents or _fetched(folder, place)
    mode = SENSITIVE_FILE.with_cells_for(None if fitted is None else fitted.columns)
    return data.read_table(contents, mode=mode, shown_as=place)


def people_of(
    spec: StudySpec, folder: str | Path, contents: "Contents | None" = None
) -> "tuple[Person, ...] | None":
    """Each SENSITIVE record's person, fetched unless in `contents`; None where no column of persons is named."""
    person, section = spec.privacy.person, spec.data
    if person is None or not isinstance(section, PublicFiles | PersonFiles | PredictionTable):
        return None
    place = records_place(section)
    contents = contents or _fetched(folder, place)
    from dpbo_core.data.people import read_people

    return read_people(contents, person, shown_as=place)
