"""An evaluation's query: what is counted, for which price, and the key under which the ledger keeps its release.

The key is of the dataset, the model's digest, ε, the edition, and what the table's cells mean. Costs and prevalence
are no part of it: they only say how to read a release. Asked again, a query has the same release, whatever another
version would bin or report.
"""

from dataclasses import dataclass, replace

from dpbo_core.data import Preprocessing
from dpbo_core.data.features import Category
from dpbo_core.data.values import canonical
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.charge import QueryKey
from dpbo_core.ledger.sources import Source
from dpbo_core.mechanisms.histogram import LaplaceHistogram
from dpbo_core.methods.contract import Draws
from dpbo_core.preparation.preconditions import opening_cap
from dpbo_core.privacy.amounts import allowed_units
from dpbo_core.privacy.assumption import ROWWISE_PREDICTIONS
from dpbo_core.privacy.guarantee import Evidence, PrivacyGuarantee, Standing
from dpbo_core.privacy.plan import PrivacyPlan
from dpbo_core.problem.problem import Problem
from dpbo_core.queries.evaluation import KIND
from dpbo_core.queries.evaluation.histogram_cells import OTHER, WEIGHT, Grouping
from dpbo_core.queries.evaluation.report_kind import ReportKind, TableSize
from dpbo_core.queries.query import PrivateQuery, fingerprint_of
from dpbo_core.study_file import (
    BundledData,
    EvaluationSection,
    PersonFiles,
    PredictionTable,
    PublicFiles,
    SensitiveBundled,
    SensitiveData,
    SensitiveFiles,
    SensitiveTraining,
    StudySpec,
)
from dpbo_core.study_file.evaluation import no_epsilon

DRAW = "histogram"
EVIDENCE = Evidence(
    Standing.STANDARD, "the discrete Laplace mechanism on one histogram (Dwork, McSherry, Nissim, Smith 2006)"
)


@dataclass(frozen=True)
class EvaluationQuery:
    """One evaluation, before any model is trained.

    Attributes:
        spec: the study.
        problem: its public facts.
        epsilon: ε of the report.
        section: [evaluation], or its defaults.
        data: the study's, with a validation set.
    """

    spec: StudySpec
    problem: Problem
    epsilon: float
    section: EvaluationSection
    data: PublicFiles | PersonFiles | BundledData | SensitiveFiles | SensitiveBundled

    @classmethod
    def of(cls, spec: StudySpec, problem: Problem, epsilon: float | None) -> "EvaluationQuery":
        """The evaluation that the study's [evaluation] asks for; `epsilon` replaces its own if given.

        Raises:
            StudyInvalid: no ε is stated, or one that is no privacy level, or what is asked is not there yet.
        """
        section = spec.evaluation or EvaluationSection()
        section = section if epsilon is None else replace(section, epsilon=float(epsilon))
        if section.epsilon is None:
            raise no_epsilon()
        if isinstance(spec.data, SensitiveTraining):
            raise StudyInvalid(
                "a study without a validation set has nothing to evaluate its model on",
                cause="on the records that it was trained on the figures would say nothing of others",
                remedy="leave [evaluation] out, or give validation and n_validation in [data]",
            )
        if isinstance(spec.data, PredictionTable):
            raise StudyInvalid(
                "a study of predictions made elsewhere has no model to evaluate",
                cause="it released which candidate is best; a report is of a model and of its features",
                remedy="leave [evaluation] out",
            )
        if allowed_units(section.epsilon) == 0:
            raise StudyInvalid(
                f"ε = {section.epsilon:g} is below the ledger's unit", remedy="raise evaluation.epsilon"
            )
        return cls(spec, problem, section.epsilon, section, spec.data)

    def check_kind(self, kind: type[ReportKind]) -> None:
        """Refuse an evaluation that asks for what a report of this kind does not have.

        Raises:
            StudyInvalid: something is.
        """
        section, title = self.section, kind.title
        if isinstance(self.data, SensitiveData):
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
        return 1 if self.problem.n_persons is None else WEIGHT

    @property
    def moved(self) -> int:
        """The ℓ₁ sensitivity Δ of the table to one unit's records: 2·min(k, m), or 2W of persons."""
        if self.problem.n_persons is not None:
            return 2 * WEIGHT
        return 2 * min(self.problem.max_records_per_person, self.problem.n_averaged)

    def size(self, grouping: Grouping | None) -> TableSize:
        """The number of counted records and groups, and the noise scale."""
        n_groups = 1 if grouping is None else len(grouping.names)
        return TableSize(self.problem.n_averaged, self.scale, n_groups, self.problem.counted)

    @property
    def edition(self) -> str:
        """The edition of the evaluation: the study's, then its own where that is not 1."""
        of_study, own = self.spec.edition, self.section.edition
        if own == "1":
            return of_study
        return own if of_study == "1" else f"{of_study}.{own}"

    @property
    def scale(self) -> float:
        """The scale b of the noise in each cell, in records or persons."""
        return self.mechanism(1).spend(DRAW).noise_scale

    def mechanism(self, size: int) -> LaplaceHistogram:
        """The mechanism for a table of `size` cells; its price does not depend on their number."""
        return LaplaceHistogram(self.moved, allowed_units(self.epsilon), size, 1.0 / self.weight)

    def plan(self, unlisted: str) -> PrivacyPlan:
        """The price of the evaluation; `unlisted` names a part of the model that may not predict row by row."""
        assumed = bool(unlisted) and not self.spec.model.enforced
        guarantee = PrivacyGuarantee(
            epsilon=self.epsilon,
            delta=0.0,
            unit=self.problem.unit,
            relation=self.problem.relation,
            assumptions=(ROWWISE_PREDICTIONS.name,) if assumed else (),
            evidence=EVIDENCE,
            person=self.problem.person,
        )
        return PrivacyPlan(guarantee, (self.mechanism(1).spend(DRAW),))

    def draws(self, size: int) -> Draws:
        """The one draw of the plan."""
        mechanism = self.mechanism(size)
        return ((mechanism.spend(DRAW), mechanism),)

    def priced(
        self, key: QueryKey, plan: PrivacyPlan, sources: tuple[Source, ...], size: int = 1, useless: str = ""
    ) -> PrivateQuery:
        """The private query of a table of `size` cells on the records of `sources`."""
        per_person = self.spec.privacy.max_records_per_person
        return PrivateQuery(
            key, plan, sources, opening_cap(self.spec), per_person, draws=self.draws(size), useless=useless
        )

    def grouping(self, fitted: Preprocessing) -> Grouping | None:
        """The column of groups with its public categories: those listed, or those of the public training set.

        Raises:
            StudyInvalid: the column cannot be one of groups, or nothing public says its categories.
        """
        column = self.section.group
        if column is None:
            return None
        target = fitted.target if isinstance(self.data, BundledData | SensitiveBundled) else self.data.target
        if column in (fitted.target, target, self.spec.privacy.person):
            raise StudyInvalid(
                f"evaluation.group = {column!r} is the target, or the column of persons",
                remedy="name a column that sorts records into groups",
            )
        if self.section.groups is not None:
            listed: tuple[object, ...] = tuple(canonical(value) for value in self.section.groups)
        else:
            public = [one for one in fitted.features if isinstance(one, Category) and one.name == column]
            listed = public[0].values if public else ()
        numbers = sorted({value for value in listed if isinstance(value, float) and value == value})
        texts = sorted({value for value in listed if isinstance(value, str)})
        if not listed or len(numbers) + len(texts) != len(listed) or OTHER in texts:
            raise StudyInvalid(
                f"nothing public says what the groups of {column!r} are",
                cause=f"the column is no text of the public training set, or groups lists one twice, or {OTHER!r}",
                remedy='add groups = ["a", "b"]: its categories, each once; every other value is the group other',
            )
        return Grouping(column, (*numbers, *texts))

    def key(self, digest: str, grouping: Grouping | None) -> QueryKey:
        """The evaluation's key in the ledger, for the model with this digest."""
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
        return QueryKey(
            fingerprint_of([KIND, identity]), spec.privacy.dataset, f"{spec.name}/{KIND}", self.edition, KIND
        )
