"""The two halves of a study's data: the public one, open to everything, and the sensitive one, sealed at once.

Before a study is reserved only the presence, the header and the number of records of a sensitive file are looked
at; its content is read by `sensitive_half` alone. Where the training set is sensitive too, the public half is what
the study says of it: nothing is fitted to it, and its content does not enter the study's fingerprint.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table, bundled
from dpbo_core.data.bundled import TARGET as BUNDLED_TARGET
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.trainer import EstimatorTrainer, LinearTrainer
from dpbo_core.objective import Objective, Scorer
from dpbo_core.partitions import PartitionedObjective, Workers, parts_of
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.problem import Problem, Trainer, TrainingFacts, problem_of
from dpbo_core.spec import StudySpec


@dataclass(frozen=True)
class PublicHalf:
    """The problem with its training set, what was fitted on it, and the PUBLIC training data's fingerprint."""

    problem: Problem
    preprocessing: Preprocessing
    columns: tuple[str, ...]
    target: str
    fingerprint: str


def n_validation(spec: StudySpec) -> int:
    """m, from the study alone: no file is opened."""
    if spec.data.source is not None:
        return bundled.validation_size(spec.data.source, spec.data.validation_share)
    records = spec.data.n_training if spec.data.validation is None else spec.data.n_validation
    assert records is not None  # noqa: S101  the section was checked when it was made
    return records


def planning_problem(spec: StudySpec) -> Problem:
    """The problem as it is priced: from the study alone, no file opened."""
    return problem_of(spec, n_validation=n_validation(spec), training=_training_facts(spec))


def public_half(spec: StudySpec, folder: str | Path) -> PublicHalf:
    """Read and fit the public training set.

    Raises:
        StudyInvalid: the training data cannot be used as the study says.
    """
    if spec.data.trains_privately:
        return _declared_half(spec, folder)
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
    with suppress(FileNotFoundError):
        if (Path(folder) / shown).samefile(Path(folder) / str(spec.data.training)):
            raise StudyInvalid(
                f"{shown} is both the training file and the validation file",
                cause="one file was named twice, and a record in both is protected in neither",
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
    """Read the sensitive records, whatever their bytes, and seal them. Call it only after reserving.

    A folder of Parquet files is not read here: its parts are, one by one or by `workers`, whenever they are scored.
    """
    facts, score, encode = public.problem.training, public.problem.score, public.preprocessing.transform
    if facts is None:
        parts = parts_of(Path(folder) / str(spec.data.validation)) if spec.data.source is None else ()
        if parts:
            return PartitionedObjective(parts, public.preprocessing, score, n_validation(spec), workers)
        table = _validation_table(spec, folder)
        data.check_record_count(table.n_records, n_validation(spec))
        return Objective(Sensitive(encode(table)), score)
    trained_on, _ = _training_table(spec, folder)
    data.check_record_count(trained_on.n_records, facts.n_records, shown_as="the training set", key="n_training")
    training = Sensitive(encode(trained_on))
    if spec.data.source is None and spec.data.validation is None:
        return Objective(training, score, training)
    table = _validation_table(spec, folder)
    data.check_record_count(table.n_records, n_validation(spec))
    return Objective(Sensitive(encode(table)), score, training)


def _declared_half(spec: StudySpec, folder: str | Path) -> PublicHalf:
    """The public half of a study whose training set is sensitive: the header, and what the study declares."""
    if spec.data.source is not None:
        columns, target = tuple(_training_table(spec, folder)[0].columns), BUNDLED_TARGET
        bounds = spec.data.bounds or bundled.public_facts(spec.data.source)[1]
    else:
        shown = str(spec.data.training)
        columns = tuple(data.read_header(Path(folder) / shown, sensitive=True, shown_as=shown).columns)
        target, bounds = str(spec.data.target), spec.data.bounds or {}
    facts = _training_facts(spec)
    assert facts is not None  # noqa: S101  the caller asked for it
    declared = Preprocessing.public(columns, target, labels=facts.classes, bounds=bounds, bias=spec.model.bias)
    facts = replace(facts, feature_names=declared.feature_names)
    return PublicHalf(
        problem=problem_of(spec, n_validation=n_validation(spec), training=facts),
        preprocessing=declared,
        columns=columns,
        target=target,
        fingerprint="",  # a hash of sensitive records would tell whether a guess of them is right
    )


def _training_facts(spec: StudySpec) -> TrainingFacts | None:
    """What is public of a sensitive training set, from the study alone; None where the set is public."""
    if not spec.data.trains_privately:
        return None
    if spec.data.source is None:
        assert spec.data.n_training is not None  # noqa: S101  the section was checked when it was made
        assert spec.data.labels is not None  # noqa: S101
        return TrainingFacts(spec.data.n_training, spec.data.labels)
    n = bundled.n_records(spec.data.source) - n_validation(spec)
    return TrainingFacts(n, spec.data.labels or bundled.public_facts(spec.data.source)[0])


def _training_table(spec: StudySpec, folder: str | Path) -> tuple[Table, str]:
    if spec.data.source is not None:
        return bundled.load(spec.data.source, spec.data.validation_share)[0], BUNDLED_TARGET
    shown = str(spec.data.training)
    sensitive = spec.data.trains_privately
    return data.read_table(Path(folder) / shown, sensitive=sensitive, shown_as=shown), str(spec.data.target)


def _validation_table(spec: StudySpec, folder: str | Path) -> Table:
    if spec.data.source is not None:
        return bundled.load(spec.data.source, spec.data.validation_share)[1]
    shown = str(spec.data.validation)
    return data.read_table(Path(folder) / shown, sensitive=True, shown_as=shown)
