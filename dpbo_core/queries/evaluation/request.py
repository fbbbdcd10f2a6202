"""The request of an evaluation: of which model, by which groups, under which key. Only public files are read.

As the last step of a study: the model that a study will release is named by the study's own key, so that its
evaluation has a key, and a price, before the study has begun. Both are charged in one transaction, or neither is;
when the model is there, the evaluation takes its own reservation over.
"""

from dataclasses import dataclass
from pathlib import Path

from dpbo_core.errors import StudyInvalid
from dpbo_core.final_model import FinalModel
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.sources import MODEL, file_source
from dpbo_core.preparation.data_split import FileSplit
from dpbo_core.preparation.preconditions import check_accepted, check_policy
from dpbo_core.preparation.public_half import PublicHalf, left_out
from dpbo_core.preparation.resolve import ResolvedStudy, resolve
from dpbo_core.preparation.run import Run
from dpbo_core.privacy.release import Release
from dpbo_core.queries.evaluation.counting import FileTable, SensitiveTable
from dpbo_core.queries.evaluation.evaluated_model import (
    EvaluatedModel,
    file_model,
    model_at,
    read_model,
    released_model,
)
from dpbo_core.queries.evaluation.histogram_cells import Grouping
from dpbo_core.queries.evaluation.query import EvaluationQuery
from dpbo_core.queries.evaluation.report_kind import ExpectedErrors
from dpbo_core.queries.query import PrivateQuery, replay
from dpbo_core.queries.tuning.run import FollowUp
from dpbo_core.study_file import SensitiveData, StudySpec


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationRequest:
    """A query with the public half of what it is about, before any model is trained.

    Attributes:
        query: what is asked.
        table: the sensitive records.
        public: what was read of them.
        grouping: None for the whole alone.
        key: under which the ledger keeps the release.
        model: a saved one, or the release whose model will be trained.
        digest: of that model, which is public.
        folder: the folder that the study's data paths are relative to.
    """

    query: EvaluationQuery
    table: SensitiveTable
    public: PublicHalf
    grouping: Grouping | None
    key: QueryKey
    model: Release | FinalModel
    digest: str
    folder: str | Path = "."

    def evaluated_model(self) -> EvaluatedModel:
        """The model to evaluate, trained or read, with its predictions of the public records."""
        if isinstance(self.model, FinalModel):
            return file_model(self.query.spec, self.folder, self.model)
        return released_model(self.query.spec, self.public, self.model)


def expected_errors(query: EvaluationQuery, evaluated: EvaluatedModel, grouping: Grouping | None) -> ExpectedErrors:
    """The bin edges and the expected errors of the report's noise.

    Raises:
        StudyInvalid: the section asks for what a report of this kind does not have.
    """
    query.check_kind(evaluated.kind)
    return evaluated.kind.expected(evaluated.public, query.size(grouping), query.section.bins)


def request_of(spec: StudySpec, run: Run, model: str | Path | None, epsilon: float | None) -> EvaluationRequest:
    """The evaluation that a study asks for; only public files and the ledger are read.

    Raises:
        PolicyRefused: the training file, or the model's, is what a dataset is scored on.
    """
    check_policy(spec, run, *(() if model is None else (file_source(model, MODEL),)))
    resolved = resolve(spec, run.folder)
    query = EvaluationQuery.of(spec, resolved.problem, epsilon)
    split = FileSplit.of(spec, run)
    public, table = split.public(resolved.problem), FileTable(split)
    if model is None:
        return request_of_released(resolved, query, public, table, run)
    if isinstance(spec.data, SensitiveData):
        raise StudyInvalid(
            "a saved model cannot be evaluated by a study whose training set is sensitive",
            cause="what public records say of it would be read from the training file, and that is not public",
            remedy="evaluate the study's own model, or name a study with a public training file",
        )
    final, digest = read_model(model)
    grouping = query.grouping(final.preprocessing)
    return EvaluationRequest(query, table, public, grouping, query.key(digest, grouping), final, digest, run.folder)


def request_of_released(
    resolved: ResolvedStudy,
    query: EvaluationQuery,
    public: PublicHalf,
    table: SensitiveTable,
    run: Run,
) -> EvaluationRequest:
    """The evaluation of the model that the study released.

    Raises:
        StudyInvalid: it released nothing yet.
    """
    spec, study = resolved.spec, resolved.key(public.fingerprint)
    tuned, digest = replay(study, run), digest_of_released(study)
    if tuned is None:
        raise StudyInvalid(
            f"the study {spec.name!r} (edition {spec.edition}) has released nothing yet",
            cause="it was not tuned, or its file or its public training set was changed since",
            remedy="run dpbo tune first, or name a saved model",
        )
    grouping = query.grouping(public.preprocessing)
    return EvaluationRequest(query, table, public, grouping, query.key(digest, grouping), tuned, digest)


def digest_of_released(study: QueryKey) -> str:
    """The digest that stands for a study's released model, computable before the release."""
    return f"released by {study.fingerprint}"


def check_header(
    query: EvaluationQuery,
    table: SensitiveTable,
    public: PublicHalf,
    grouping: Grouping | None,
    needed: tuple[str, ...],
) -> None:
    """Refuse a sensitive table without the column of groups or a column that the model needs.

    Raises:
        StudyInvalid: it has not.
    """
    columns = table.columns(public)
    if grouping is not None and grouping.column not in columns:
        raise StudyInvalid(
            f"the validation set has no column {grouping.column!r}, which [evaluation] groups its records by",
            cause="a misspelt name, or the column was dropped",
            remedy="name the column as in the file's header"
            + (
                ", and under data.ignore if it is no feature" if grouping.column not in left_out(query.spec) else ""
            ),
        )
    missing = [name for name in needed if name not in columns]
    if missing:
        raise StudyInvalid(
            f"the validation set has no column {missing[0]!r}, which the model needs",
            cause="a model of another study, or the column was dropped",
            remedy="evaluate a model that was trained on these columns",
        )


def asks_for_evaluation(spec: StudySpec) -> bool:
    """Whether the study's [evaluation] states a price, so that it is evaluated after tuning."""
    return spec.evaluation is not None and spec.evaluation.epsilon is not None


def last_step(resolved: ResolvedStudy, run: Run) -> FollowUp:
    """The study's own evaluation as a follow-up that `open_study` reserves with it, after all its checks.

    Args:
        resolved: a study with [evaluation].
        run: in whose folder its data are.
    """

    def evaluation(public: PublicHalf) -> tuple[PrivateQuery, ...]:
        spec, problem = resolved.spec, public.problem
        query = EvaluationQuery.of(spec, problem, None)
        if not resolved.method.releases_hyperparameters:
            raise StudyInvalid(
                f"{resolved.method.kind} releases no hyperparameters, so that there is no model to evaluate",
                remedy="leave [evaluation] out, or choose a method that releases hyperparameters",
            )
        grouping = query.grouping(public.preprocessing)
        evaluated = model_at(spec, public, problem.candidates.points[0])  # any of them: which will be, nobody knows
        plan = query.plan(problem.unlisted)
        check_accepted(spec, plan, problem.unlisted)
        split = FileSplit(spec, run.folder)
        check_header(query, FileTable(split), public, grouping, evaluated.columns)
        useless = expected_errors(query, evaluated, grouping).warning
        key = query.key(digest_of_released(resolved.key(public.fingerprint)), grouping)
        return (query.priced(key, plan, split.sources(), useless=useless),)

    return evaluation
