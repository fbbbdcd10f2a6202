"""The split of a study's data, wherever they come from: what is fitted to the public one, what is sealed.

Of a training set that is a folder of Parquet files (`half_of_parts`, linear models only) the files are read three
times, a few columns or one file in memory at once: for centres and scales, for the quantile of the rows' lengths
(all lengths at once, 8 bytes each, so that it is exact), and for the rows. Map, rows and models are those of one
table, by the same sums in the same order; the fingerprint covers the files' content in the order of their names.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpbo_core import data
from dpbo_core.data import Preprocessing, Table
from dpbo_core.errors import Sealed
from dpbo_core.ledger.policy import unallowed_score
from dpbo_core.ledger.sources import Source
from dpbo_core.methods.problem import Problem
from dpbo_core.models.baseline import constant_margin, constant_score, person_weights
from dpbo_core.models.linear.fast_exact_scores import StoredRows, stored
from dpbo_core.models.linear.fit import LinearTrainer, check_two_classes
from dpbo_core.models.scores.kinds import PairScore
from dpbo_core.models.scoring.in_memory import Objective, Scorer
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import LinearSection, StudySpec
from dpbo_core.study.data_files import check_n_validation, left_out
from dpbo_core.study.named_score import margin_score, score_on
from dpbo_core.study.trained_models import memory_limit

if TYPE_CHECKING:
    from dpbo_core.data.people import Person
    from dpbo_core.data.table_parts import TableParts
    from dpbo_core.models.estimator_trainer import Factory
    from dpbo_core.models.prototype import Prototype


@dataclass(frozen=True)
class PublicHalf:
    """The problem with its training set, what was fitted on it, and the PUBLIC training data's fingerprint."""

    problem: Problem
    preprocessing: Preprocessing
    columns: tuple[str, ...]
    target: str
    fingerprint: str


class DataSplit(Protocol):
    """Where a study's two halves come from: files, or tables in memory."""

    def public(self, problem: Problem) -> PublicHalf:
        """Return the public half for the problem: the preprocessing fitted, and a trainer of models."""

    def sources(self) -> tuple[Source, ...]:
        """Return the files or tables that the study is charged for or reads as public, as the ledger knows them."""

    def check(self, public: PublicHalf) -> None:
        """Refuse what can be refused by headers, sizes and names, without a record's content."""

    def sensitive(self, public: PublicHalf) -> Scorer:
        """Return a sealed scorer of the sensitive records. Call it only after the charge."""


class TableSplit(DataSplit, Protocol):
    """A split whose public half is a table of features, to try a model of somebody else's on."""

    def public_table(self) -> Table:
        """Return the public records in one table, with raw cells if the sensitive table is read with them."""

    def hints(self) -> Mapping[str, Any] | None:
        """Return the library's type of each column of a public data frame, empty for an array; None for a file."""


@dataclass(frozen=True)
class OwnParts:
    """What a study's caller made, and its file can at most name."""

    factory: "Prototype | None" = None  # of estimators; by the study's import path where None
    function: Callable[[Any, Any], float] | None = None  # the user's score function: nothing is imported here
    sample_weight: NDArray[np.float64] | None = None  # (n,) of training records, for an estimator; alike where None


def fitted_half(
    spec: StudySpec, problem: Problem, table: Table, fitted: Preprocessing, own: OwnParts
) -> PublicHalf:
    """Return the public half of a study: the preprocessing `fitted` to its public `table`, and a fresh trainer.

    A study that names a score function is refused unless it was handed in.
    """
    if spec.model.own_score and own.function is None:
        raise unallowed_score(spec.model.score_name, spec.privacy.dataset)
    problem, weights = _weighed(problem, table)
    table, model = table.without(left_out(spec)), spec.model
    encoded = fitted.transform(table)
    if isinstance(model, LinearSection):
        problem = linear_problem(model, problem, encoded.X, encoded.labels, weights)
    else:
        from dpbo_core.models.estimator_trainer import EstimatorTrainer
        from dpbo_core.models.estimators import EstimatorFactory

        score = score_on(model, fitted.classes, own.function)
        constant = constant_score(score, encoded.truth, weights, n_classes=len(fitted.classes))
        problem = replace(problem, score=score, baseline=constant)
        made: Factory = own.factory or EstimatorFactory(
            model.estimator,
            model.params,
            spec.search.seed,
            model.regression,
            decode=problem.candidates.space.meant,
        )
        trainer = EstimatorTrainer(
            encoded.X,
            encoded.truth,
            replace(made, columns=fitted.columns),
            score,
            listed=not problem.unlisted,
            enforced=model.enforced,
            weights=own.sample_weight,
        )
        problem = replace(problem, trainer=trainer)
    if isinstance(problem.score, PairScore):
        problem = replace(problem, positives=float((encoded.labels == 1).mean()))
    return PublicHalf(
        problem=problem,
        preprocessing=fitted,
        columns=tuple(table.columns),
        target=fitted.target,
        fingerprint=data.fingerprint(table),
    )


def _weighed(problem: Problem, table: Table) -> tuple[Problem, NDArray[np.float64]]:
    """Return the problem, and each PUBLIC record's weight in the baseline: equal, or equal for each person."""
    name, weights = problem.person, None
    if problem.n_persons is not None and name is not None and name in table.columns:
        from dpbo_core.data.people import person_identifier

        weights = person_weights([person_identifier(cell) for cell in table.cells_of(name)])
    if weights is None:
        return problem, np.ones(table.n_records)
    return replace(problem, baseline_by="persons"), weights


def named_map(spec: StudySpec, table: Table, target: str, hints: Mapping[str, Any] | None = None) -> Preprocessing:
    """Return the preprocessing for an estimator that takes the public `table`'s own columns as a data frame."""
    columns = table.without(left_out(spec))
    named = Preprocessing.named(columns, target, regression=spec.model.regression, hints=hints)
    return replace(named, ignored=left_out(spec))


def fitted_map(spec: StudySpec, table: "Table | TableParts", target: str) -> Preprocessing:
    """Return the study's preprocessing into features, fitted to a public `table`."""
    model = spec.model
    fitted = Preprocessing.fit(
        table.without(left_out(spec)),
        target,
        standardize=model.standardize,
        clip_quantile=model.clip_quantile,
        bias=model.bias,
        unit_ball=model.linear,
        regression=model.regression,
        missing="mean" if spec.data.fills_gaps else "refuse",
    )
    return replace(fitted, ignored=left_out(spec))


def linear_problem(
    model: LinearSection,
    problem: Problem,
    X: NDArray[np.float64] | StoredRows,
    labels: NDArray[np.int64],
    weights: NDArray[np.float64],
) -> Problem:
    """Return the problem with a trainer of linear models on rows X (n, d), and a baseline by weights (n,)."""
    score = margin_score(model)
    trainer = LinearTrainer.of(X, labels, model.estimator, score=score, tolerance=model.tolerance)
    return replace(problem, baseline=constant_margin(score, labels, weights), trainer=trainer)


def sealed_half(spec: StudySpec, table: Table, people: "Sequence[Person] | None", public: PublicHalf) -> Scorer:
    """Return a sealed scorer of the validation `table`; `people` is each record's person, or None.

    A person's records beyond the limit score a constant or, if the study says so, each person counts once.
    """
    n_persons = spec.data.person_count
    if n_persons is not None:
        if people is None or len(people) != table.n_records:
            raise Sealed  # how many records there are is not said
        from dpbo_core.models.scoring.persons import PersonObjective, Persons

        records = Sensitive(public.preprocessing.transform(table))
        return PersonObjective(records, Sensitive(Persons.of(people)), public.problem.score, n_persons)
    counted = counted_records(spec, table, people)
    return Objective(Sensitive(public.preprocessing.transform(counted)), public.problem.score)


def counted_records(spec: StudySpec, table: Table, people: "Sequence[Person] | None") -> Table:
    """Return the `table`, checked for size, with records beyond a person's limit, or of nobody, marked broken."""
    check_n_validation(spec, table.n_records)
    if people is None:
        return table
    from dpbo_core.data.people import surplus_mask

    data.check_record_count(len(people), table.n_records)
    return table.with_broken(surplus_mask(people, spec.privacy.max_records_per_person))


def half_of_parts(spec: StudySpec, problem: Problem, table: "TableParts", target: str) -> PublicHalf:
    """Read a public training table in many files: the study's public half, with a trainer of linear models."""
    model, table = spec.model, table.without(left_out(spec))
    if not isinstance(model, LinearSection):
        raise TypeError("an estimator is trained on records in memory")
    fitted = fitted_map(spec, table, target)
    check_two_classes(len(fitted.classes), model.estimator)
    from dpbo_core.data.table_parts import PartsFingerprint

    fingerprint, of_parts = PartsFingerprint(), list[NDArray[np.int64]]()

    def signed_rows() -> Iterator[NDArray[np.float64]]:
        """Yield each file's rows z_i = y_i·x_i, (n_j, d); its labels and fingerprint are stored on the way."""
        for part in table.parts():
            fingerprint.add(part)
            encoded = fitted.transform(part)
            of_parts.append(encoded.labels)
            yield encoded.X * np.where(encoded.labels == 1, 1.0, -1.0)[:, None]

    Z = stored(signed_rows(), (table.n_records, fitted.n_features), memory_limit(spec))
    labels = np.concatenate(of_parts)
    rows = StoredRows(Z, np.where(labels == 1, 1.0, -1.0), memory_limit(spec))
    problem = linear_problem(model, problem, rows, labels, np.ones(len(labels)))
    if isinstance(problem.score, PairScore):
        problem = replace(problem, positives=float((labels == 1).mean()))
    return PublicHalf(
        problem=problem,
        preprocessing=fitted,
        columns=table.columns,
        target=target,
        fingerprint=fingerprint.hexdigest(),
    )
