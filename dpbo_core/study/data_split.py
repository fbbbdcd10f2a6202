"""The two halves of a study's data: the public one, open to everything, and the sensitive one, sealed at once.

Before a study is reserved only the presence, the header and the number of records of a sensitive file are looked
at; its content is read by `sensitive_half` alone. Where the training set is sensitive too, the public half is what
the study says of it: nothing is fitted to it, and its content does not enter the study's fingerprint.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from dpbo_core import data
from dpbo_core.accounting.sources import Role, Source, file_source
from dpbo_core.data import Preprocessing, Table, bundled
from dpbo_core.data.bundled import TARGET as BUNDLED_TARGET
from dpbo_core.data.people import Person, read_people, uncounted
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.scores.union import MarginScore
from dpbo_core.models.trainer import EstimatorTrainer, Factory, LinearTrainer
from dpbo_core.objective.in_memory import Objective, Scorer
from dpbo_core.objective.partitioned import PartitionedObjective, Workers, parts_of
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.problem import Problem, Trainer, score_on
from dpbo_core.spec import StudySpec
from dpbo_core.study.resolve import planning_problem
from dpbo_core.study.sizes import n_validation


class Halves(Protocol):
    """Where a study's two halves come from: files, or tables in memory."""

    def public(self, problem: Problem) -> "PublicHalf":
        """The public half of the problem, fitted."""
        ...

    def sources(self) -> tuple[Source, ...]:
        """Where the records come from that the study is charged for."""
        ...

    def check(self, public: "PublicHalf") -> None:
        """Everything that can be refused without a record's content."""
        ...

    def sensitive(self, public: "PublicHalf") -> Scorer:
        """The sensitive half, sealed; after reserving only."""
        ...


@dataclass(frozen=True)
class FileHalves:
    """The files a study names, or a bundled set."""

    spec: StudySpec
    folder: str | Path
    workers: Workers | None = None

    def public(self, problem: Problem) -> "PublicHalf":
        """Read and fit the training set."""
        return public_half(self.spec, self.folder, problem)

    def sources(self) -> tuple[Source, ...]:
        """The sensitive files, by the names under which they really are; none is opened."""
        return sources_of(self.spec, self.folder)

    def check(self, public: "PublicHalf") -> None:
        """Presence, header and number of records."""
        check_presence(self.spec, self.folder, public)

    def sensitive(self, public: "PublicHalf") -> Scorer:
        """Read the validation records."""
        return sensitive_half(self.spec, self.folder, public, self.workers)


def sources_of(spec: StudySpec, folder: str | Path) -> tuple[Source, ...]:
    """What a study on files is charged for: its bundled set, or every sensitive file that it names."""
    if spec.data.source is not None:
        return (Source("bundled", spec.data.source),)
    named: tuple[tuple[str | None, Role], ...] = ((spec.data.validation, "records"),)
    if spec.data.trains_privately:
        named = (*named, (spec.data.training, "training records"))
    return tuple(file_source(Path(folder) / name, role) for name, role in named if name is not None)


@dataclass(frozen=True)
class PublicHalf:
    """The problem with its training set, what was fitted on it, and the PUBLIC training data's fingerprint."""

    problem: Problem
    preprocessing: Preprocessing
    columns: tuple[str, ...]
    target: str
    fingerprint: str


def public_half(spec: StudySpec, folder: str | Path, problem: Problem | None = None) -> PublicHalf:
    """Read and fit the public training set.

    Args:
        spec: the study.
        folder: the folder that its paths are relative to.
        problem: the problem it poses; worked out from the study where None.

    Raises:
        StudyInvalid: the training data cannot be used as the study says.
    """
    problem = planning_problem(spec) if problem is None else problem
    if spec.data.trains_privately:
        return _declared_half(spec, folder, problem)
    return fitted_half(spec, problem, *training_table(spec, folder))


def fitted_half(
    spec: StudySpec,
    problem: Problem,
    table: Table,
    target: str,
    *,
    factory: Factory | None = None,
    function: Callable[[Any, Any], float] | None = None,
) -> PublicHalf:
    """What a public training table becomes.

    Args:
        spec: the study.
        problem: the problem it poses.
        table: the training records.
        target: the column to predict.
        factory: of estimators; by the study's import path where None.
        function: the user's score function; by its import path where None.

    Raises:
        StudyInvalid: the training data cannot be used as the study says.
    """
    table, model = table.without(left_out(spec)), spec.model
    fitted = Preprocessing.fit(
        table,
        target,
        standardize=model.standardize,
        clip_quantile=model.clip_quantile,
        bias=model.bias,
        unit_ball=model.linear,
        regression=model.regression,
        missing="mean" if spec.data.missing == "mean" else "refuse",
    )
    fitted = replace(fitted, ignored=left_out(spec))
    encoded = fitted.transform(table)
    trainer: Trainer
    if model.linear:
        trainer = LinearTrainer.of(encoded.X, encoded.labels, model.estimator, tolerance=model.tolerance)
    else:
        problem = replace(problem, score=score_on(spec.model, fitted.classes, function))
        if factory is None:
            factory = EstimatorFactory(model.estimator, model.params, spec.search.seed, model.regression)
        assert not isinstance(problem.score, MarginScore)  # noqa: S101  only linear models have one
        trainer = EstimatorTrainer(
            encoded.X,
            encoded.truth,
            factory,
            problem.score,
            listed=not problem.unlisted,
            enforced=model.enforced,
        )
    return PublicHalf(
        problem=replace(problem, trainer=trainer),
        preprocessing=fitted,
        columns=tuple(table.columns),
        target=target,
        fingerprint=data.fingerprint(table),
    )


def left_out(spec: StudySpec) -> frozenset[str]:
    """Columns that are no features: those ignored, and the one that says whose record it is."""
    return frozenset(spec.data.ignore or ()) | ({spec.privacy.person} if spec.privacy.person else set())


def check_presence(spec: StudySpec, folder: str | Path, public: PublicHalf) -> None:
    """The sensitive files are there, their columns are the training columns, and they have n and m records.

    Raises:
        StudyInvalid: it is not so. No record's content was looked at.
    """
    if spec.data.source is not None:
        return
    if spec.data.n_training is not None:
        training = str(spec.data.training)
        found = data.read_header(Path(folder) / training, sensitive=True, shown_as=training).n_records
        data.check_record_count(found, spec.data.n_training, shown_as=training, key="n_training")
    if spec.data.validation is None:
        return
    shown = str(spec.data.validation)
    parts = parts_of(Path(folder) / shown)
    _check_distinct(Path(folder) / str(spec.data.training), parts or (Path(folder) / shown,), shown_as=shown)
    if parts and spec.privacy.person is not None:
        raise StudyInvalid(
            f"{shown} is a folder of files, and privacy.person counts a person's records over one file",
            cause="a person's records may lie in several parts, and each part is scored by itself",
            remedy="give one file, or leave person out",
        )
    n_records = 0
    for path in parts or (Path(folder) / shown,):
        header = data.read_header(path, sensitive=True, shown_as=shown)
        check_names(spec, header.columns, public, shown_as=shown)
        n_records += header.n_records
    data.check_record_count(n_records, n_validation(spec), shown_as=shown)


def _check_distinct(training: Path, validation: Sequence[Path], *, shown_as: str) -> None:
    """No file stands in two places, under whatever name: which file a name means is public, what is in it is not.

    Files with equal content are not looked for (`data.aliasing` says why).

    Raises:
        StudyInvalid: the training file is a validation file too, or two parts of it are one file.
    """
    with suppress(OSError):  # missing, or no name a file could have: the reader says so
        own = training.stat()
        found = [path.stat() for path in validation]
        places = [(one.st_dev, one.st_ino) for one in found]
        if (own.st_dev, own.st_ino) in places:
            raise StudyInvalid(
                f"{shown_as} is both the training file and the validation file",
                cause="one file was named twice, and a record in both is protected in neither",
                remedy="split the records into two files that share no person",
            )
        if len(set(places)) < len(places):
            raise StudyInvalid(
                f"two files of {shown_as} are one file under two names",
                cause="a link to one of them lies in the folder, and its records would count twice",
                remedy="remove the link",
            )


def check_names(spec: StudySpec, columns: Sequence[str], public: PublicHalf, *, shown_as: str) -> None:
    """The validation columns are the training columns; the column of persons is among them where one is named.

    Raises:
        StudyInvalid: it is not so.
    """
    if spec.privacy.person is not None and spec.privacy.person not in columns:
        raise StudyInvalid(
            f"{shown_as} has no column {spec.privacy.person!r}, which says whose record it is",
            cause="a misspelt name in [privacy], or the column was dropped",
            remedy="name the column as in the file's header, or leave person out",
        )
    kept = [name for name in columns if name not in left_out(spec)]
    data.check_columns(public.columns, kept, public.target, shown_as=shown_as)


def sensitive_half(
    spec: StudySpec, folder: str | Path, public: PublicHalf, workers: Workers | None = None
) -> Scorer:
    """Read the sensitive records, whatever their bytes, and seal them. Call it only after reserving.

    A folder of Parquet files is not read here: its parts are, one by one or by `workers`, whenever they are scored.
    """
    facts, score, encode = public.problem.training, public.problem.score, public.preprocessing.transform
    if facts is None:
        shown = str(spec.data.validation)
        parts = parts_of(Path(folder) / shown) if spec.data.source is None else ()
        if parts:
            return PartitionedObjective(parts, public.preprocessing, score, n_validation(spec), workers)
        return sealed_half(spec, validation_table(spec, folder), people_of(spec, folder), public)
    trained_on, _ = training_table(spec, folder)
    data.check_record_count(trained_on.n_records, facts.n_records, shown_as="the training set", key="n_training")
    training = Sensitive(encode(trained_on))
    if spec.data.source is None and spec.data.validation is None:
        return Objective(training, score, training)
    table = validation_table(spec, folder)
    data.check_record_count(table.n_records, n_validation(spec))
    return Objective(Sensitive(encode(table)), score, training)


def sealed_half(spec: StudySpec, table: Table, people: Sequence[Person] | None, public: PublicHalf) -> Objective:
    """The objective on the validation `table`; with `people` a person's surplus records score a constant."""
    counted = counted_records(spec, table, people)
    return Objective(Sensitive(public.preprocessing.transform(counted)), public.problem.score)


def counted_records(spec: StudySpec, table: Table, people: Sequence[Person] | None) -> Table:
    """The validation `table` of m records, in which a person's surplus records are broken.

    Raises:
        StudyInvalid: another number of records than the study says.
    """
    data.check_record_count(table.n_records, n_validation(spec))
    if people is None:
        return table
    data.check_record_count(len(people), table.n_records)
    return table.but(uncounted(people, spec.privacy.max_records_per_person))


def people_of(spec: StudySpec, folder: str | Path) -> tuple[Person, ...] | None:
    """The person of every SENSITIVE record; None where the study names no column of persons."""
    person, shown = spec.privacy.person, str(spec.data.validation)
    return None if person is None else read_people(Path(folder) / shown, person, shown_as=shown)


def _declared_half(spec: StudySpec, folder: str | Path, problem: Problem) -> PublicHalf:
    """The public half of a study whose training set is sensitive: the header, and what the study declares."""
    if spec.data.source is not None:
        columns, target = tuple(training_table(spec, folder)[0].columns), BUNDLED_TARGET
        bounds = spec.data.bounds or bundled.public_facts(spec.data.source)[1]
    else:
        shown = str(spec.data.training)
        columns = tuple(data.read_header(Path(folder) / shown, sensitive=True, shown_as=shown).columns)
        target, bounds = str(spec.data.target), spec.data.bounds or {}
    facts = problem.training
    assert facts is not None  # noqa: S101  the caller asked for it
    declared = Preprocessing.public(columns, target, labels=facts.classes, bounds=bounds, bias=spec.model.bias)
    facts = replace(facts, feature_names=declared.feature_names)
    return PublicHalf(
        problem=replace(problem, training=facts),
        preprocessing=declared,
        columns=columns,
        target=target,
        fingerprint="",  # a hash of sensitive records would tell whether a guess of them is right
    )


def training_table(spec: StudySpec, folder: str | Path) -> tuple[Table, str]:
    """The training records and the column to predict."""
    if spec.data.source is not None:
        return bundled.load(spec.data.source, spec.data.validation_share)[0], BUNDLED_TARGET
    shown = str(spec.data.training)
    sensitive = spec.data.trains_privately
    return data.read_table(Path(folder) / shown, sensitive=sensitive, shown_as=shown), str(spec.data.target)


def validation_table(spec: StudySpec, folder: str | Path) -> Table:
    """The SENSITIVE records, whatever their bytes. Call it only after reserving, and seal what comes of it."""
    if spec.data.source is not None:
        return bundled.load(spec.data.source, spec.data.validation_share)[1]
    shown = str(spec.data.validation)
    return data.read_table(Path(folder) / shown, sensitive=True, shown_as=shown)
