"""The whole study: its sections together, and its plain form in TOML and JSON.

[data] is a closed union, one frozen dataclass for each way of giving data, each with the keys it has: a training
set that is public, or predictions that were made elsewhere (`public_data`), or one that is sensitive
(`sensitive_data`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from dpbo_core.privacy.declared_query import check_sections
from dpbo_core.privacy.unit import NeighboringRelation, PrivacyUnit
from dpbo_core.search.candidates import CandidateSet, grid, sobol
from dpbo_core.search.search_space import Axis, Categorical, Integer, Real, SearchSpace
from dpbo_core.study.model import ModelSection, PredictionsSection, read_model
from dpbo_core.study.public_data import (
    BundledData,
    PersonFiles,
    PredictionTable,
    PublicData,
    PublicFiles,
    read_predictions,
    read_public,
)
from dpbo_core.study.query_sections import EvaluationSection, ObjectiveSection, WatchSection
from dpbo_core.study.reading import (
    check_name,
    check_numbers,
    check_texts,
    one_of,
    read_section,
    refuse_unknown,
    require,
    to_table,
    typed_values,
    union_hints,
)
from dpbo_core.study.search_section import SearchSection
from dpbo_core.study.sections import AxisSection, BudgetSection, PrivacySection
from dpbo_core.study.sensitive_data import SensitiveBundled, SensitiveData, read_sensitive

SENSITIVE = ("validation", "training")

Bundled = BundledData | SensitiveBundled
DataSection = PublicData | SensitiveData | PredictionTable


def read_data(table: Any) -> DataSection:
    """The [data] section of a study, keys and types checked, as its kind: files, bundled set, and so on.

    Raises:
        StudyInvalid: they are none.
    """
    settings = typed_values(union_hints(get_args(DataSection)), table, "[data]")
    settings = {key: value for key, value in settings.items() if value is not None}
    if "predictions" in settings:
        return read_predictions(settings)
    require("public" not in settings, "[data] gives public without predictions", remedy="remove it")
    if "sensitive" in settings:
        one_of("data.sensitive", settings["sensitive"], SENSITIVE)
    return read_sensitive(settings) if settings.get("sensitive") == "training" else read_public(settings)


CANDIDATE = "candidate"  # the one axis of a study of predictions


@dataclass(frozen=True)
class StudySpec:
    """A whole study. `space` maps an axis name to its section; `options` are those of the chosen method."""

    name: str
    method: str
    privacy: PrivacySection
    data: DataSection
    model: ModelSection
    space: Mapping[str, AxisSection]
    edition: str = "1"
    accepts: tuple[str, ...] = ()
    budget: BudgetSection | None = None
    search: SearchSection = field(default_factory=SearchSection)
    options: Mapping[str, Any] = field(default_factory=dict)
    evaluation: EvaluationSection | None = None
    watch: WatchSection | None = None
    objective: ObjectiveSection | None = None

    def __post_init__(self) -> None:
        check_name("study.name", self.name)
        check_name("study.edition", self.edition)
        check_numbers(self.to_dict(), "")
        check_texts(self.to_dict(), "")
        require(all(isinstance(name, str) for name in self.accepts), "study.accepts is not a list of names")
        if isinstance(self.data, SensitiveData):
            self._check_private_training(self.data)
            return
        self._check_predictions()
        require(
            self.model.estimator != "softmax",
            "softmax is trained privately only, and the training set of this study is public",
            remedy='use estimator = "sklearn.linear_model.LogisticRegression", or [data] sensitive = "training"',
        )
        if self.model.linear:
            self._require_lambda_axis()
        person = self.privacy.person
        require(
            person is None
            or (isinstance(self.data, PublicFiles | PersonFiles | PredictionTable) and person != self.data.target),
            f"privacy.person = {person!r} is the target, or there is no such column",
            cause="a bundled data set has no column of persons",
            remedy="name the column of the validation file that says whose record it is",
        )
        if isinstance(self.data, PersonFiles):
            self._require_person_column(self.data)

    def _check_predictions(self) -> None:
        """Refuse a study of predictions whose estimator, candidates' names or labels do not fit its table."""
        table, scored = isinstance(self.data, PredictionTable), isinstance(self.model, PredictionsSection)
        require(
            table == scored,
            'estimator = "predictions" and [data] predictions go together, and the study has one of them',
            cause="a table of predictions is scored as it is; a model is trained on a training file",
            remedy='write [data] predictions = "file.csv" and [model] estimator = "predictions", or neither',
        )
        if not isinstance(self.data, PredictionTable):
            return
        axis = self.space.get(CANDIDATE)
        names = axis.values if axis is not None and len(self.space) == 1 and axis.when is None else None
        require(
            names is not None
            and all(isinstance(name, str) and name.strip() == name != "" for name in names)
            and len(set(names)) == len(names),
            "[space] of a table of predictions names its candidates, and this one does not",
            cause="its one axis is `candidate`, whose values are the candidates' names, each once",
            remedy=f'write {CANDIDATE} = {{ values = ["small", "large"] }}',
        )
        require(
            self.model.regression == (self.data.labels is None),
            f"the score {self.model.score_name!r} "
            + ("is of numbers, and data.labels names classes" if self.data.labels else "is of classes"),
            cause="nothing is read from a sensitive table, so that the classes must be said",
            remedy="remove labels" if self.data.labels else 'add labels = ["no", "yes"] to [data]',
        )

    def _require_person_column(self, data: PersonFiles) -> None:
        """Refuse n_persons without a column of persons, or beside a limit of records per person."""
        require(
            self.privacy.person is not None,
            f"data.n_persons = {data.n_persons} without privacy.person",
            cause="each person's mean counts once, and no column says whose a record is",
            remedy='add person = "column" to [privacy], or give n_validation in the place of n_persons',
        )
        require(
            self.privacy.max_records_per_person == 1,
            f"privacy.max_records_per_person = {self.privacy.max_records_per_person} beside data.n_persons",
            cause="all records of a person count, as their mean, so nothing limits their number",
            remedy="leave max_records_per_person out; or give n_validation, and at most so many of each count",
        )

    def _check_private_training(self, data: SensitiveData) -> None:
        """Refuse, for a sensitive training set, a model without private training and anything about persons."""
        require(
            self.model.estimator in ("logistic", "softmax"),
            f"{self.model.estimator} cannot be trained privately here",
            cause="the training set is sensitive, so training itself must be differentially private",
            remedy='use estimator = "logistic" (two classes) or "softmax"',
        )
        two = data.labels is None or len(data.labels) == 2
        require(
            self.model.estimator == "softmax" or two,
            f"a logistic model separates two classes, and data.labels names {len(data.labels or ())}",
            remedy='use estimator = "softmax"',
        )
        require(
            self.privacy.person is None,
            f"privacy.person = {self.privacy.person!r} with a sensitive training set",
            cause="private training protects one record of the training set and one of the validation set",
            remedy="leave person out, and leave one record a person in each file",
        )
        require(
            self.privacy.max_records_per_person == 1,
            f"privacy.max_records_per_person = {self.privacy.max_records_per_person} with a sensitive training set",
            cause="private training protects one record of the training set and one of the validation set",
            remedy="leave one record a person in each file, and leave the key out",
        )

    def _require_lambda_axis(self) -> None:
        """Refuse a linear model's [space] unless its only axis is `lambda`, with positive values."""
        require(
            set(self.space) == {"lambda"},
            f"[space] of a {self.model.estimator} model has the axes {', '.join(map(repr, self.space))}",
            cause="its only hyperparameter is the regularisation λ",
            remedy="keep one axis, lambda = { low = 1e-4, high = 10.0, log = true, points = 64 }",
        )
        axis = self.space["lambda"]
        ends = axis.values or axis.ends or ()
        ok = all(isinstance(end, int | float) and math.isfinite(end) and end > 0 for end in ends)
        require(
            ok,
            f"λ would take a value that is not a positive number ({', '.join(map(str, ends))})",
            cause="regularisation must be strictly positive, or the training objective is not strongly convex",
            remedy="raise low above 0; 1e-4 is usual",
        )

    def to_dict(self) -> dict[str, Any]:
        """The study as plain tables, as in a study file; None is left out."""
        study = {"name": self.name, "edition": self.edition, "method": self.method, "accepts": list(self.accepts)}
        tables: dict[str, Any] = {"study": study, "privacy": to_table(self.privacy)}
        if self.budget is not None:
            tables["budget"] = to_table(self.budget)
        tables |= {"data": to_table(self.data), "model": to_table(self.model)}
        tables["space"] = {name: to_table(axis) for name, axis in self.space.items()}
        tables |= {"search": to_table(self.search), "method": dict(self.options)}
        asked = {"evaluation": self.evaluation, "watch": self.watch, "objective": self.objective}
        return tables | {name: to_table(section) for name, section in asked.items() if section is not None}

    @property
    def asks_for_evaluation(self) -> bool:
        """Whether [evaluation] states a price, so that the study is evaluated after tuning."""
        return self.evaluation is not None and self.evaluation.epsilon is not None

    @property
    def tuned(self) -> "StudySpec":
        """The study without evaluation, watch, objective, editions, memory_limit, workers, one_pass and anyway."""
        budget = None if self.budget is None else replace(self.budget, editions=None)
        data = self.data
        if isinstance(data, PublicFiles | PersonFiles):
            data = replace(data, memory_limit=None, workers=None)
        search, privacy = replace(self.search, one_pass=None), replace(self.privacy, anyway=None)
        return replace(
            self,
            evaluation=None,
            watch=None,
            objective=None,
            budget=budget,
            data=data,
            search=search,
            privacy=privacy,
        )

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> "StudySpec":
        """The study in plain tables, of a TOML file or of `to_dict`, with every key and type checked."""
        sections = ("study", "privacy", "budget", "data", "model", "space", "search", "method")
        of_features = ("watch", "objective")
        refuse_unknown(tables, (*sections, "evaluation", *of_features), "the study")
        check_sections(name for name in of_features if name in tables)
        for name in ("study", "privacy", "data", "model", "space"):
            require(name in tables, f"the study has no [{name}] table", remedy=f"add [{name}]")
        for name, table in tables.items():
            require(isinstance(table, Mapping), f"{name} is not a table", remedy=f"write it as [{name}]")
        check_numbers(tables, "")  # before a number becomes a double
        head = dict(tables["study"])
        refuse_unknown(head, ("name", "edition", "method", "accepts"), "[study]")
        for key in ("name", "method"):
            require(isinstance(head.get(key), str), f"[study] has no {key}, or it is not text", remedy=f"add {key}")
        edition, accepts = head.get("edition", "1"), head.get("accepts", [])
        quoted = edition if type(edition) is int and 0 <= edition < 10**9 else 1
        require(isinstance(edition, str), "study.edition is not text", remedy=f'write edition = "{quoted}"')
        ok = isinstance(accepts, list | tuple) and all(isinstance(item, str) for item in accepts)
        require(ok, "study.accepts is not a list of names", remedy='write accepts = ["gp_prior"]')
        require(bool(tables["space"]), "[space] has no axis", remedy="name at least one hyperparameter")
        space = {
            name: read_section(AxisSection, axis, f"[space] {name}") for name, axis in dict(tables["space"]).items()
        }

        def optional(kind: type, name: str) -> Any:
            """The section `name`, checked; None where the study has none."""
            return read_section(kind, tables[name], f"[{name}]") if name in tables else None

        return cls(
            name=head["name"],
            method=head["method"],
            edition=edition,
            accepts=tuple(accepts),
            privacy=read_section(PrivacySection, tables["privacy"], "[privacy]"),
            budget=optional(BudgetSection, "budget"),
            data=read_data(tables["data"]),
            model=read_model(tables["model"]),
            space=space,
            search=read_section(SearchSection, tables.get("search", {}), "[search]"),
            options=dict(tables.get("method", {})),
            evaluation=optional(EvaluationSection, "evaluation"),
            watch=optional(WatchSection, "watch"),
            objective=optional(ObjectiveSection, "objective"),
        )


DEFAULT_POINTS = {1: 64, 2: 16, 3: 8}  # a numeric axis, by how many numeric axes there are


def space_of(spec: StudySpec) -> SearchSpace:
    """The search space that the study's [space] states: one axis for each hyperparameter."""
    conditions = {name: axis.condition for name, axis in spec.space.items() if axis.condition is not None}
    return SearchSpace({name: _axis(axis) for name, axis in spec.space.items()}, conditions)


def candidates_of(spec: StudySpec) -> CandidateSet:
    """The candidate set Λ: a grid over the axes, or, with candidates = "sobol", points spread over them evenly."""
    space = space_of(spec)
    if spec.search.candidates == "sobol" and spec.space:
        return sobol(space, spec.search.n_candidates, seed=spec.search.seed)
    numeric = sum(axis.values is None for axis in spec.space.values())
    default = DEFAULT_POINTS.get(numeric, 4)
    points = {name: default if axis.points is None else axis.points for name, axis in spec.space.items()}
    return grid(space, points)


def _axis(section: AxisSection) -> Axis:
    """The axis that a section of [space] states: of its listed values, or else from low to high."""
    if section.ends is None:
        return Categorical(section.values or ())
    low, high = section.ends
    return Integer(low, high, log=section.log) if section.integer else Real(low, high, log=section.log)


def unit_of(spec: StudySpec) -> PrivacyUnit:
    """Whom the study protects: a sensitive training record; else a person or, without `person`, a record."""
    if isinstance(spec.data, SensitiveData):
        return PrivacyUnit.TRAINING_RECORD
    return PrivacyUnit.VALIDATION_RECORD if spec.privacy.person is None else PrivacyUnit.PERSON


def relation_of(spec: StudySpec) -> NeighboringRelation:
    """Which data sets are neighbours: with one person replaced, where n_persons is stated; else one `unit_of`."""
    if isinstance(spec.data, PersonFiles):
        return NeighboringRelation.REPLACE_ONE_PERSON
    return NeighboringRelation.REPLACE_ONE
