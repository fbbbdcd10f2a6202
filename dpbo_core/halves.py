"""The two halves of a study's data: the public one, open to everything, and the sensitive one, sealed at once.

Before a study is reserved only the presence, the header and the number of records of the validation file are
looked at; its content is read by `sensitive_half` alone.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table, bundled
from dpbo_core.data.bundled import TARGET as BUNDLED_TARGET
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.trainer import EstimatorTrainer, LinearTrainer
from dpbo_core.objective import Objective, Scorer
from dpbo_core.partitions import PartitionedObjective, Workers, parts_of
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.problem import Problem, Trainer, problem_of
from dpbo_core.spec import StudySpec


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
    table, target = _training_table(spec, folder)
    model = spec.model
    fitted = Preprocessing.fit(
        table,
        target,
        standardize=model.standardize,
        clip_quantile=model.clip_quantile,
        bias=model.bias,
        unit_ball=model.linear,
    )
    encoded = fitted.transform(table)
    trainer: Trainer
    if model.linear:
        trainer = LinearTrainer.of(encoded.X, encoded.labels, model.estimator, tolerance=model.tolerance)
    else:
        trainer = EstimatorTrainer.of(
            encoded.X, encoded.labels, model.estimator, params=model.params, seed=spec.search.seed
        )
    return PublicHalf(
        problem=problem_of(spec, n_validation=n_validation(spec), trainer=trainer),
        preprocessing=fitted,
        columns=tuple(table.columns),
        target=target,
        fingerprint=data.fingerprint(table),
    )


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
    n_records = 0
    for path in parts_of(Path(folder) / shown) or (Path(folder) / shown,):
        header = data.read_header(path, sensitive=True, shown_as=shown)
        data.check_columns(public.columns, header.columns, public.target, shown_as=shown)
        n_records += header.n_records
    data.check_record_count(n_records, n_validation(spec), shown_as=shown)


def sensitive_half(
    spec: StudySpec, folder: str | Path, public: PublicHalf, workers: Workers | None = None
) -> Scorer:
    """Read the validation records, whatever their bytes, and seal them. Call it only after reserving.

    A folder of Parquet files is not read here: its parts are, one by one or by `workers`, whenever they are scored.
    """
    parts = parts_of(Path(folder) / str(spec.data.validation)) if spec.data.source is None else ()
    if parts:
        return PartitionedObjective(parts, public.preprocessing, public.problem.score, n_validation(spec), workers)
    table = _validation_table(spec, folder)
    data.check_record_count(table.n_records, n_validation(spec))
    return Objective(Sensitive(public.preprocessing.transform(table)), public.problem.score)


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
