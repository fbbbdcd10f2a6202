"""The request of an evaluation, from public files: which model, by which groups, at which price, under which key.

As the last step of a study: the model that a study will release is named by the study's own key, so that its
evaluation has a key, and a price, before the study has begun. Both are charged in one transaction, or neither is;
when the model is there, the evaluation takes its own reservation over.

The key is of the dataset, the model's digest, ε, the edition, and what the table's cells mean. Costs and prevalence
are no part of it: they only say how to read a release. Asked again, a query has the same release, whatever another
version would bin or report.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from dpbo_core.data import Preprocessing
from dpbo_core.data.features import Category
from dpbo_core.data.header import column_count_text
from dpbo_core.data.values import canonical_text, written_text
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import MODEL_ROLE, Source, file_source
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.methods.contract import Draws, check_relation
from dpbo_core.methods.problem import Problem
from dpbo_core.privacy.amounts import allowed_units
from dpbo_core.privacy.guarantee import ROWWISE_PREDICTIONS, Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.release import PrivacyPlan, Release
from dpbo_core.report import KIND
from dpbo_core.report.counting import FileTable, SensitiveTable
from dpbo_core.report.evaluated_model import (
    EvaluatedModel,
    file_model,
    model_at,
    read_model,
    released_model,
    report_kind,
)
from dpbo_core.report.histogram_cells import OTHER_GROUP, PERSON_WEIGHT, Grouping, needed_columns
from dpbo_core.report.report_kind import ExpectedErrors, ReportKind, TableSize
from dpbo_core.study import EvaluationSection, StudySpec
from dpbo_core.study.data_files import left_out
from dpbo_core.study.data_split import FileSplit
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.preconditions import check_accepted, opening_cap
from dpbo_core.study.public_half import PublicHalf
from dpbo_core.study.query import PrivateQuery, fingerprint_of, replay
from dpbo_core.study.resolve import ResolvedStudy
from dpbo_core.study.run import Run
from dpbo_core.study.sections import no_epsilon
from dpbo_core.study.spec import changed_settings
from dpbo_core.study.tuning import ReadyStudy

DRAW_NAME = "histogram"
EVIDENCE = Evidence(
    Standing.STANDARD, "the discrete Laplace mechanism on one histogram (Dwork, McSherry, Nissim, Smith 2006)"
)


@dataclass(frozen=True)
class EvaluationQuery:
    """One evaluation, before any model is trained."""

    draw_name: ClassVar[str] = DRAW_NAME
    evidence: ClassVar[Evidence] = EVIDENCE

    spec: StudySpec
    problem: Problem  # its public facts
    epsilon: float  # ε of the report
    section: EvaluationSection  # [evaluation], or its defaults

    @classmethod
    def of(cls, spec: StudySpec, problem: Problem, epsilon: float | None) -> "EvaluationQuery":
        """Return the evaluation a study asks for, at `epsilon` unless None; refused without ε or validation set."""
        section = spec.evaluation or EvaluationSection()
        section = section if epsilon is None else section.replace(epsilon=float(epsilon))
        if section.epsilon is None:
            raise no_epsilon()
        if not spec.data.has_validation:
            raise StudyInvalid(
                "a study without a validation set has nothing to evaluate its model on",
                cause="on the records that it was trained on the figures would say nothing of others",
                remedy="leave [evaluation] out, or give validation and n_validation in [data]",
            )
        if not spec.model.trained:
            raise StudyInvalid(
                "a study of predictions made elsewhere has no model to evaluate",
                cause="it released which candidate is best; a report is of a model and of its features",
                remedy="leave [evaluation] out",
            )
        if allowed_units(section.epsilon) == 0:
            what = f"ε = {section.epsilon:g} is below the ledger's unit"
            raise StudyInvalid(what, remedy="raise evaluation.epsilon")
        return cls(spec, problem, section.epsilon, section)

    def check_kind(self, kind: type[ReportKind]) -> None:
        """Refuse an evaluation that asks for what this kind of report lacks, as bins of a multiclass one."""
        section, title = self.section, kind.title
        if self.spec.data.sensitive_training:
            title = "a privately trained model"
        costs = section.false_positive_cost is not None or section.prevalence is not None
        if costs and not kind.has_threshold:
            raise StudyInvalid(
                f"[evaluation] states costs or a prevalence, and a report of {title} has no threshold to choose",
                cause="they are of two classes",
                remedy="leave false_positive_cost, false_negative_cost and prevalence out",
            )
        if section.bins is not None and not kind.has_bins:
            raise StudyInvalid(
                f"evaluation.bins = {section.bins}, and a report of {title} has no bins",
                cause="it is the confusion matrix alone: no decision value is cut",
                remedy="leave evaluation.bins out; for a ROC curve make one class against the rest the target",
            )

    @property
    def weight(self) -> int:
        """The integer weight W of one person where each counts once, else 1."""
        return 1 if self.problem.n_persons is None else PERSON_WEIGHT

    @property
    def moved(self) -> int:
        """The ℓ₁ sensitivity of the histogram: 2 per record of one person, or 2·W where each person counts once."""
        if self.problem.n_persons is not None:
            return 2 * PERSON_WEIGHT
        return 2 * min(self.problem.max_records_per_person, self.problem.n_averaged)

    def size(self, grouping: Grouping | None) -> TableSize:
        """Return the public size of the histogram: how many records and groups are counted, and the noise scale."""
        n_groups = 1 if grouping is None else len(grouping.names)
        return TableSize(self.problem.n_averaged, self.scale, n_groups, self.problem.counted)

    @property
    def edition(self) -> str:
        """The evaluation's edition (name of a run's data and spend): the study's, then its own if that is not 1."""
        of_study, own = self.spec.edition, self.section.edition
        if own == "1":
            return of_study
        return own if of_study == "1" else f"{of_study}.{own}"

    @property
    def scale(self) -> float:
        """The scale b of the Laplace noise in each histogram cell, in records or persons."""
        return self.mechanism(1).spend(self.draw_name).noise_scale

    def mechanism(self, size: int) -> LaplaceHistogram:
        """Return the noise mechanism for a histogram of `size` cells; its price does not depend on their number."""
        return LaplaceHistogram(self.moved, allowed_units(self.epsilon), size, 1.0 / self.weight)

    def plan(self, unlisted: str) -> PrivacyPlan:
        """The evaluation's price and assumptions; `unlisted`: a part that may not predict row by row, or ""."""
        check_relation(self.problem)
        assumed = bool(unlisted) and not self.spec.model.enforced
        guarantee = PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=0.0,
            unit=self.problem.unit,
            relation=self.problem.relation,
            assumptions=(ROWWISE_PREDICTIONS.name,) if assumed else (),
            evidence=self.evidence,
            person=self.problem.person,
        )
        return PrivacyPlan(guarantee, (self.mechanism(1).spend(self.draw_name),))

    def draws(self, size: int) -> Draws:
        """Return the one noise draw to be made, of all `size` cells or sums: its price and its mechanism."""
        mechanism = self.mechanism(size)
        return ((mechanism.spend(self.draw_name), mechanism),)

    def priced(
        self, key: QueryKey, plan: PrivacyPlan, sources: tuple[Source, ...], size: int = 1, useless: str = ""
    ) -> PrivateQuery:
        """The evaluation as a query to charge: `size` cells of `sources`; `useless`: why it would be, or ""."""
        per_person = self.spec.privacy.max_records_per_person
        return PrivateQuery(
            key, plan, sources, opening_cap(self.spec), per_person, draws=self.draws(size), useless=useless
        )

    def grouping(self, fitted: Preprocessing) -> Grouping | None:
        """Return the column of groups and its public values; None if none is requested."""
        column = self.section.group
        if column is None:
            return None
        if column in (fitted.target, self.spec.data.target_column, self.spec.privacy.person):
            raise StudyInvalid(
                f"evaluation.group = {column!r} is the target, or the column of persons",
                remedy="name a column that sorts records into groups",
            )
        if self.section.groups is not None:
            read = written_text if column in fitted.text_columns else canonical_text
            listed: tuple[object, ...] = tuple(map(read, self.section.groups))
        else:
            public = [one for one in fitted.features if isinstance(one, Category) and one.name == column]
            listed = public[0].values if public else ()
        numbers = sorted({value for value in listed if isinstance(value, float) and value == value})
        texts = sorted({value for value in listed if isinstance(value, str)})
        if not listed or len(numbers) + len(texts) != len(listed) or OTHER_GROUP in texts:
            raise StudyInvalid(
                f"the groups of {column!r} are not stated by public data",
                cause="the column is no text of the public training set, or groups lists one twice, "
                f"or {OTHER_GROUP!r}",
                remedy='add groups = ["a", "b"]: its categories, each once; every other value is the group other',
            )
        return Grouping(column, (*numbers, *texts))

    def key(self, digest: str, grouping: Grouping | None) -> QueryKey:
        """Return the evaluation's key in the ledger, for the model with this digest."""
        spec, section = self.spec, self.section
        identity: dict[str, object] = {
            "dataset": spec.privacy.dataset,
            "model": digest,
            "epsilon": self.epsilon,
            "edition": section.edition,
            "bins": section.bins,
            "group": None if grouping is None else [grouping.column, *grouping.categories],
            "person": spec.privacy.person,
            "records": [self.problem.n_validation, self.problem.max_records_per_person],
        }
        if self.problem.n_persons is not None:
            identity["persons"] = self.problem.n_persons
        fingerprint = fingerprint_of([KIND, identity])
        return QueryKey(fingerprint, spec.privacy.dataset, f"{spec.name}/{KIND}", self.edition, KIND)


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationRequest:
    """A query with the public half of what it is about, before any model is trained."""

    query: EvaluationQuery  # what is asked
    table: SensitiveTable  # the sensitive records
    public: PublicHalf  # what was read of them
    grouping: Grouping | None  # None for the whole alone
    key: QueryKey  # under which the ledger keeps the release
    model: Release | FinalModel | None  # a saved one, or the release whose model will be trained; None before it
    digest: str  # of that model, which is public
    folder: str | Path = "."  # the folder that the study's data paths are relative to

    def evaluated_model(self) -> EvaluatedModel:
        """The model to evaluate, read if saved, else trained now, with its predictions of the public records."""
        if isinstance(self.model, FinalModel):
            return file_model(self.query.spec, self.folder, self.model)
        if self.model is None:
            raise TypeError("the study has released no model yet")
        return released_model(self.query.spec, self.public, self.model)


def expected_errors(query: EvaluationQuery, evaluated: EvaluatedModel, grouping: Grouping | None) -> ExpectedErrors:
    """The bin edges and the errors noise will leave in the report; settings its kind does not have are refused."""
    query.check_kind(evaluated.kind)
    return evaluated.kind.expected(evaluated.public, query.size(grouping), query.section.bins)


def unsaved_cost(model: str | Path | None) -> tuple[Source, ...]:
    """Return the source that evaluating a saved `model` reads beside its study's files; () for None."""
    return () if model is None else (file_source(model, MODEL_ROLE),)


def request_of(run: Run, model: str | Path | None, epsilon: float | None) -> EvaluationRequest:
    """Evaluation of a saved `model` or (None) the released one, refused if none is; only public data are read."""
    spec, public = run.spec, run.public
    query = EvaluationQuery.of(spec, run.problem, epsilon)
    if not isinstance(run.data, FileSplit):
        raise TypeError("a table in memory has a request of its own")
    table = FileTable(run.data)
    if model is None:
        return request_of_released(run, query, public, table)
    if spec.data.sensitive_training:
        raise StudyInvalid(
            "a saved model cannot be evaluated by a study whose training set is sensitive",
            cause="what public records say of it would be read from the training file, and that is not public",
            remedy="evaluate the study's own model, or name a study with a public training file",
        )
    final, digest = read_model(model)
    grouping = query.grouping(final.preprocessing)
    return EvaluationRequest(query, table, public, grouping, query.key(digest, grouping), final, digest, run.folder)


def request_of_released(
    run: Run, query: EvaluationQuery, public: PublicHalf, table: SensitiveTable
) -> EvaluationRequest:
    """Return the evaluation of the model that a study released, on `table`, with its ledger key."""
    tuned, digest = replay(run.key, run.context), digest_of_released(run.key)
    if tuned is None:
        raise not_released(run.spec, run.ledger)
    grouping = query.grouping(public.preprocessing)
    return EvaluationRequest(query, table, public, grouping, query.key(digest, grouping), tuned, digest, run.folder)


def not_released(spec: StudySpec, ledger: PrivacyLedger) -> StudyInvalid:
    """The error to raise where something needs a study's release: it has none, or its file was changed since."""
    name = f"{spec.name!r} (edition {spec.edition})"
    released = ledger.study_as_released(spec.privacy.dataset, spec.name, spec.edition)
    if released is None:
        return StudyInvalid(
            f"the study {name} has released nothing yet",
            cause="it was not tuned",
            remedy="run dpbo tune first; dpbo evaluate can be given a saved model",
        )
    then = changed_settings(released, spec)
    return StudyInvalid(
        f"the study {name} was released with {then or 'another public training set'}",
        cause=f"the {'study' if then else 'training'} file was changed after the release",
        remedy="change it back; or give the study a new edition, and tune that, which spends budget again",
    )


def digest_of_released(study: QueryKey) -> str:
    """Return the digest of the model that a study releases, known before the release: it follows from the key."""
    return f"released by {study.fingerprint}"


def check_header(
    query: EvaluationQuery,
    table: SensitiveTable,
    public: PublicHalf,
    grouping: Grouping | None,
    needed: tuple[str, ...],
) -> None:
    """Refuse a sensitive table without the column of groups or a column that the model needs."""
    columns = table.columns(public)
    if grouping is not None and grouping.column not in columns:
        feature = grouping.column not in left_out(query.spec)
        raise StudyInvalid(
            f"the validation set has no column {grouping.column!r}, which [evaluation] groups its records by",
            cause="a misspelt name, or the column was dropped",
            remedy=f"name the column as in the header{', and under data.ignore if it is no feature' * feature}",
        )
    missing = [name for name in needed if name not in columns]
    if missing:
        private = query.spec.data.sensitive_training  # whose header is what the model's names are from
        lacking = column_count_text(len(missing)) if private else f"the column {missing[0]!r}"
        raise StudyInvalid(
            f"the validation set lacks {lacking}, which the model needs",
            cause="a model of another study, or the column was dropped",
            remedy="evaluate a model that was trained on these columns",
        )


def check_report(
    study: ResolvedStudy, public: PublicHalf, folder: str | Path
) -> tuple[EvaluationQuery, Grouping | None]:
    """Return the report that a study asks for and its groups, refused as its charge would be; trains nothing."""
    query = EvaluationQuery.of(study.spec, public.problem, None)
    if not study.method.releases_hyperparameters:
        raise StudyInvalid(
            f"{study.method.kind} releases no hyperparameters, so that there is no model to evaluate",
            remedy="leave [evaluation] out, or choose a method that releases hyperparameters",
        )
    grouping, fitted = query.grouping(public.preprocessing), public.preprocessing
    if query.section.against is None:
        query.check_kind(report_kind(fitted, private=study.problem.training is not None))
        unlisted = public.problem.unlisted
        check_accepted(study.spec.accepts, query.plan(unlisted), unlisted)
        check_header(query, FileTable(FileSplit(study.spec, folder)), public, grouping, needed_columns(fitted))
    else:
        from dpbo_core.report.comparison import check_champion

        check_champion(query, public, folder)
    return query, grouping


def of_a_candidate(
    study: ResolvedStudy, public: PublicHalf, folder: str | Path
) -> tuple[EvaluationQuery, EvaluatedModel, Grouping | None]:
    """Return a study's evaluation before tuning: query, the first candidate's model as a stand-in, groups."""
    query, grouping = check_report(study, public, folder)
    return query, model_at(study.spec, public, public.problem.candidates.points[0]), grouping


def own_evaluation(ready: ReadyStudy) -> PrivateQuery:
    """Return the evaluation that a study asks for in its [evaluation], to be charged together with the study.

    It is checked on the model of one candidate, trained on the public half.
    """
    run, public = ready.run, ready.public
    query, evaluated, grouping = of_a_candidate(run.study, public, run.folder)
    if query.section.against is not None:
        from dpbo_core.report.comparison import own_comparison

        return own_comparison(ready, query, evaluated)
    useless = expected_errors(query, evaluated, grouping).warning
    key = query.key(digest_of_released(run.key), grouping)
    sources = FileSplit(run.spec, run.folder).sources()
    return query.priced(key, query.plan(public.problem.unlisted), sources, useless=useless)
