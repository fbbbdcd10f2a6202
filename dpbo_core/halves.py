"""The two halves of a study's data: the public one, open to everything, and the sensitive one, sealed at once.

Before a study is reserved only the presence, the header and the number of records of the validation file are
looked at; its content is read by `sensitive_half` alone.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table, bundled
from dpbo_core.data.bundled import TARGET as BUNDLED_TARGET
from dpbo_core.data.people import Person, read_people, uncounted
from dpbo_core.data.values import shown
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.import_path import function_at
from dpbo_core.models.record_scores import BalancedAccuracy, BoundedFunction
from dpbo_core.models.scores import MarginScore
from dpbo_core.models.trainer import EstimatorTrainer, Factory, LinearTrainer
from dpbo_core.objective import Objective
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.problem import Problem, Score, Trainer, class_names, problem_of
from dpbo_core.spec import StudySpec


class Halves(Protocol):
    """Where a study's two halves come from: files, or tables in memory."""

    def public(self) -> "PublicHalf":
        """The public half, fitted."""
        ...

    def check(self, public: "PublicHalf") -> None:
        """Everything that can be refused without a record's content."""
        ...

    def sensitive(self, public: "PublicHalf") -> Objective:
        """The sensitive half, sealed; after reserving only."""
        ...


@dataclass(frozen=True)
class FileHalves:
    """The files a study names, or a bundled set."""

    spec: StudySpec
    folder: str | Path

    def public(self) -> "PublicHalf":
        """Read and fit the training set."""
        return public_half(self.spec, self.folder)

    def check(self, public: "PublicHalf") -> None:
        """Presence, header and number of records."""
        check_presence(self.spec, self.folder, public)

    def sensitive(self, public: "PublicHalf") -> Objective:
        """Read the validation records."""
        return sensitive_half(self.spec, self.folder, public)


@dataclass(frozen=True)
class PublicHalf:
    """The problem with its training set, what was fitted on it, and the training data's fingerprint."""

    problem: Problem
    preprocessing: Preprocessing
    columns: tuple[str, ...]
    target: str
    fingerprint: str


def n_validation(spec: StudySpec) -> int:
    """m, from the study alone: no file is opened."""
    if spec.data.source is not None:
        return bundled.validation_size(spec.data.source, spec.data.validation_share)
    assert spec.data.n_validation is not None  # noqa: S101  the section was checked when it was made
    return spec.data.n_validation


def public_half(spec: StudySpec, folder: str | Path) -> PublicHalf:
    """Read and fit the public training set.

    Raises:
        StudyInvalid: the training data cannot be used as the study says.
    """
    return fitted_half(spec, *_training_table(spec, folder))


def fitted_half(
    spec: StudySpec,
    table: Table,
    target: str,
    *,
    factory: Factory | None = None,
    function: Callable[[Any, Any], float] | None = None,
) -> PublicHalf:
    """What a public training table becomes.

    Args:
        spec: the study.
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
    encoded = fitted.transform(table)
    problem = problem_of(spec, n_validation=n_validation(spec))
    trainer: Trainer
    if model.linear:
        trainer = LinearTrainer.of(encoded.X, encoded.labels, model.estimator, tolerance=model.tolerance)
    else:
        problem = replace(problem, score=_score(spec, problem.score, fitted, function))
        if factory is None:
            factory = EstimatorFactory(model.estimator, model.params, spec.search.seed, model.regression)
        assert not isinstance(problem.score, MarginScore)  # noqa: S101  only linear models have one
        trainer = EstimatorTrainer(encoded.X, encoded.truth, factory, problem.score)
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


def _score(
    spec: StudySpec, score: Score, fitted: Preprocessing, function: Callable[[Any, Any], float] | None
) -> Score:
    """The score with what only the training set can tell: that the shares name its classes; the user's function."""
    if isinstance(score, BalancedAccuracy) and class_names(spec.model) != fitted.classes:
        raise StudyInvalid(
            f"model.class_shares names {', '.join(map(shown, class_names(spec.model)))}; "
            f"the training classes are {', '.join(map(shown, fitted.classes))}",
            cause="a class is missing or misspelt",
            remedy="give the share of every class of the training set",
        )
    if isinstance(score, BoundedFunction):
        return replace(score, function=function or function_at(score.name), classes=fitted.classes)
    return score


def check_presence(spec: StudySpec, folder: str | Path, public: PublicHalf) -> None:
    """The validation file is there, its columns are the training columns, and it has m records.

    Raises:
        StudyInvalid: it is not so. No record's content was looked at.
    """
    if spec.data.source is not None:
        return
    shown = str(spec.data.validation)
    with suppress(FileNotFoundError):
        if (Path(folder) / shown).samefile(Path(folder) / str(spec.data.training)):
            raise StudyInvalid(
                f"{shown} is both the training file and the validation file",
                cause="one file was named twice; the training set is public, so nothing of it would be protected",
                remedy="split the records into two files that share no person",
            )
    header = data.read_header(Path(folder) / shown, sensitive=True, shown_as=shown)
    check_names(spec, header.columns, public, shown_as=shown)
    data.check_record_count(header.n_records, n_validation(spec), shown_as=shown)


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


def sensitive_half(spec: StudySpec, folder: str | Path, public: PublicHalf) -> Objective:
    """Read the validation records, whatever their bytes, and seal them. Call it only after reserving."""
    people = None
    if spec.privacy.person is not None:
        shown = str(spec.data.validation)
        people = read_people(Path(folder) / shown, spec.privacy.person, shown_as=shown)
    return sealed_half(spec, _validation_table(spec, folder), people, public)


def sealed_half(spec: StudySpec, table: Table, people: Sequence[Person] | None, public: PublicHalf) -> Objective:
    """The objective on the validation `table`; with `people` a person's surplus records score a constant."""
    data.check_record_count(table.n_records, n_validation(spec))
    if people is not None:
        data.check_record_count(len(people), table.n_records)
        table = table.but(uncounted(people, spec.privacy.max_records_per_person))
    encoded = public.preprocessing.transform(table.without(left_out(spec)))
    return Objective(Sensitive(encoded), public.problem.score)


def _training_table(spec: StudySpec, folder: str | Path) -> tuple[Table, str]:
    if spec.data.source is not None:
        return bundled.load(spec.data.source, spec.data.validation_share)[0], BUNDLED_TARGET
    shown = str(spec.data.training)
    return data.read_table(Path(folder) / shown, sensitive=False, shown_as=shown), str(spec.data.target)


def _validation_table(spec: StudySpec, folder: str | Path) -> Table:
    if spec.data.source is not None:
        return bundled.load(spec.data.source, spec.data.validation_share)[1]
    shown = str(spec.data.validation)
    return data.read_table(Path(folder) / shown, sensitive=True, shown_as=shown)
