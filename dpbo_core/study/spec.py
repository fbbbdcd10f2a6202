"""The whole study: its sections together, and its plain form in TOML and JSON.

[data] is a closed union (`data_kinds`), a class for each way of giving data, each with the keys it has: a training
set that is public, or predictions that were made elsewhere, or a training set that is sensitive.
"""

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Union

from pydantic import BeforeValidator, Field, PlainValidator, SerializeAsAny

from dpbo_core.data.content import json_form
from dpbo_core.errors import PolicyRefused, StudyInvalid
from dpbo_core.privacy.certified import QUERIES
from dpbo_core.privacy.guarantee import NeighboringRelation
from dpbo_core.privacy.named_parts import declared
from dpbo_core.search.search_space import Axis, CandidateSet, Categorical, Integer, Real, SearchSpace, grid, sobol
from dpbo_core.study.data_kinds import (
    BundledData,
    PersonFiles,
    PredictionTable,
    PublicFiles,
    SensitiveBundled,
    SensitiveFiles,
    SensitiveTraining,
)
from dpbo_core.study.data_section import DataSection
from dpbo_core.study.model import ModelSection, read_model
from dpbo_core.study.section import TUPLE_VALIDATOR, Name, Section, check_writable, one_of, refuse_unknown, require
from dpbo_core.study.sections import (
    AxisSection,
    BudgetSection,
    EvaluationSection,
    ObjectiveSection,
    PrivacySection,
    SearchSection,
    WatchSection,
)

SENSITIVE_SETS = ("validation", "training")
DATA_KINDS: tuple[type[DataSection], ...] = (  # each claims what those before it do not
    PredictionTable, SensitiveBundled, SensitiveFiles, SensitiveTraining, PersonFiles, BundledData, PublicFiles
)  # fmt: skip
AnyData: Any = Union[DATA_KINDS]  # noqa: UP007


def read_data(table: Any) -> DataSection:
    """Return the [data] section of a study, keys and types checked, as its kind: files, bundled set, and so on."""
    if isinstance(table, DataSection):
        return table
    require(isinstance(table, Mapping), "[data] is not a table")
    keys = dict.fromkeys(key for kind in reversed(DATA_KINDS) for key in kind.model_fields)
    refuse_unknown(table, tuple(keys), "[data]")
    settings = {key: value for key, value in table.items() if value is not None}
    if "predictions" not in settings:
        require("public" not in settings, "[data] gives public without predictions", remedy="remove it")
        if isinstance(settings.get("sensitive"), str):
            one_of("data.sensitive", settings["sensitive"], SENSITIVE_SETS)
    return next(kind for kind in DATA_KINDS if kind.claims(settings)).read(settings)


def read_axes(axes: Any) -> dict[str, AxisSection]:
    """Return the axes of [space] by name, each of which is named by its error."""
    require(isinstance(axes, Mapping), "[space] is not a table")
    read = {}
    for name, axis in axes.items():
        try:
            read[name] = AxisSection.read(axis)
        except StudyInvalid as error:
            what = error.what.replace("[space]", f"[space] {name}", 1)
            raise StudyInvalid(what, cause=error.cause, remedy=error.remedy) from None
    return read


class StudyHead(Section):
    """[study]: the study's name, its edition, its method, and the assumptions that it accepts."""

    heading: ClassVar[str] = "study"
    name: Name
    edition: Name = "1"
    method: str
    accepts: Annotated[tuple[str, ...], TUPLE_VALIDATOR] = ()


class StudySpec(StudyHead):
    """A whole study. `space` maps an axis name to its section; `options` are those of the chosen method."""

    privacy: Annotated[PrivacySection, BeforeValidator(PrivacySection.read)]
    data: Annotated[SerializeAsAny[DataSection], PlainValidator(read_data, json_schema_input_type=AnyData)]
    model: Annotated[ModelSection, BeforeValidator(read_model)]
    space: Annotated[dict[str, AxisSection], BeforeValidator(read_axes)]
    budget: Annotated[BudgetSection, BeforeValidator(BudgetSection.read)] | None = None
    search: Annotated[SearchSection, BeforeValidator(SearchSection.read)] = Field(default_factory=SearchSection)
    options: dict[str, Any] = Field(default_factory=dict)
    evaluation: Annotated[EvaluationSection, BeforeValidator(EvaluationSection.read)] | None = None
    watch: Annotated[WatchSection, BeforeValidator(WatchSection.read)] | None = None
    objective: Annotated[ObjectiveSection, BeforeValidator(ObjectiveSection.read)] | None = None

    def check(self) -> None:
        """Refuse sections that do not fit one another, and what a ledger could not write down."""
        check_writable(self.to_dict())
        self.data.check_study(self)
        if self.data.sensitive_training:
            return
        require(
            self.model.estimator != "softmax",
            "softmax is trained privately only, and the training set of this study is public",
            remedy='use estimator = "sklearn.linear_model.LogisticRegression", or [data] sensitive = "training"',
        )
        if self.model.linear:
            self._require_lambda_axis()
        person = self.privacy.person
        require(
            self.privacy.neighbours is None or self.data.person_count is None,
            f'privacy.neighbours = "{self.privacy.neighbours}" with data.n_persons',
            cause="where each person counts once, neighbours differ in all records of one person",
            remedy="leave neighbours out",
        )
        require(
            person is None or (self.data.names_people and person != self.data.target_column),
            f"privacy.person = {person!r} is the target, or there is no such column",
            cause="a bundled data set has no column of persons",
            remedy="name the column of the validation file that says whose record it is",
        )

    def _require_lambda_axis(self) -> None:
        require(
            set(self.space) == {"lambda"},
            f"[space] of a {self.model.estimator} model has the axes {', '.join(map(repr, self.space))}",
            cause="its only hyperparameter is the regularisation λ",
            remedy="keep one axis, lambda = { low = 1e-4, high = 10.0, log = true, points = 64 }",
        )
        axis = self.space["lambda"]
        ends = axis.values or axis.ends or ()
        require(
            all(isinstance(end, int | float) and math.isfinite(end) and end > 0 for end in ends),
            f"λ would take a value that is not a positive number ({', '.join(map(str, ends))})",
            cause="regularisation must be strictly positive, or the training objective is not strongly convex",
            remedy="raise low above 0; 1e-4 is usual",
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the study as plain tables, as in a study file; None is left out."""
        study = {"name": self.name, "edition": self.edition, "method": self.method, "accepts": list(self.accepts)}
        tables: dict[str, Any] = {"study": study}
        for name in SECTION_NAMES:
            section = getattr(self, name)
            if isinstance(section, Section):
                tables[name] = section.to_table()
            elif section is not None:
                tables[name] = {name: axis.to_table() for name, axis in section.items()}
        return tables | {"method": dict(self.options)}

    @property
    def asks_for_evaluation(self) -> bool:
        """Whether [evaluation] states a price, so that the study is evaluated after tuning."""
        return self.evaluation is not None and self.evaluation.epsilon is not None

    @property
    def compares(self) -> bool:
        """Whether [evaluation] asks for a comparison with a champion, instead of a report."""
        return self.evaluation is not None and self.evaluation.against is not None

    @property
    def tuned(self) -> "StudySpec":
        """The study without evaluation, watch, objective, editions, memory_limit, workers, one_pass and anyway."""
        return self.replace(
            evaluation=None,
            watch=None,
            objective=None,
            budget=None if self.budget is None else self.budget.replace(editions=None),
            data=self.data.lasting,
            search=self.search.replace(one_pass=None),
            privacy=self.privacy.replace(anyway=None),
        )

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> "StudySpec":
        """Return the study in plain tables, of a TOML file or of `to_dict`, with every key and type checked."""
        own = feature_sections(tables)
        require(
            not own,
            f"a study with {own} can be planned, tuned and shown, and nothing else",
            remedy="use dpbo plan, dpbo tune or dpbo show",
        )
        refuse_unknown(tables, TABLE_NAMES, "the study")
        for name in ("watch", "objective"):
            require(
                name not in tables or name in QUERIES,
                f"the study has [{name}], and this installation has no such feature",
                cause="it was left out when dpbo was built",
                remedy=f"install dpbo whole, or remove [{name}]",
            )
        for name in ("study", "privacy", "data", "model", "space"):
            require(name in tables, f"the study has no [{name}] table", remedy=f"add [{name}]")
        for name, table in tables.items():
            require(isinstance(table, Mapping), f"{name} is not a table", remedy=f"write it as [{name}]")
        check_writable(tables, texts=False)  # before a number becomes a double
        require(bool(tables["space"]), "[space] has no axis", remedy="name at least one hyperparameter")
        sections = {name: table for name, table in tables.items() if name not in ("study", "method")}
        return cls(**dict(StudyHead.read(tables["study"])), **sections, options=dict(tables.get("method", {})))


SECTION_NAMES = ("privacy", "budget", "data", "model", "space", "search", "evaluation", "watch", "objective")
TABLE_NAMES = ("study", *SECTION_NAMES, "method")  # of a study file
DEFAULT_GRID_POINTS = {1: 64, 2: 16, 3: 8}  # a numeric axis, by how many numeric axes there are


def feature_sections(tables: Mapping[str, Any]) -> list[str]:
    """Return the sections that an installed feature reads, in a study's tables."""
    return [name for name in tables if name not in TABLE_NAMES and name in declared("dpbo.sections")]


def space_of(spec: StudySpec) -> SearchSpace:
    """Return the search space that the study's [space] states: one axis for each hyperparameter."""
    conditions = {name: axis.condition for name, axis in spec.space.items() if axis.condition is not None}
    return SearchSpace({name: _axis(axis) for name, axis in spec.space.items()}, conditions)


def candidates_of(spec: StudySpec) -> CandidateSet:
    """Return the candidate set Λ: a grid over the axes or, with candidates = "sobol", evenly spread points."""
    space = space_of(spec)
    if spec.search.candidates == "sobol" and spec.space:
        return sobol(space, spec.search.n_candidates, seed=spec.search.seed)
    numeric = sum(axis.values is None for axis in spec.space.values())
    default = DEFAULT_GRID_POINTS.get(numeric, 4)
    points = {name: default if axis.points is None else axis.points for name, axis in spec.space.items()}
    return grid(space, points)


def _axis(section: AxisSection) -> Axis:
    if section.ends is None:
        return Categorical(section.values or ())
    low, high = section.ends
    return Integer(low, high, log=section.log) if section.integer else Real(low, high, log=section.log)


def relation_of(spec: StudySpec) -> NeighboringRelation:
    """Return which data sets are neighbours: with one person replaced with n_persons; else as [privacy] says."""
    averages_persons = spec.data.person_count is not None
    return NeighboringRelation.REPLACE_ONE_PERSON if averages_persons else spec.privacy.relation


LARGEST_STUDY, LONGEST_LINE = 2**16, 2**12  # bytes


def read_study(path: str | Path, *, frozen: str | None = None) -> StudySpec:
    """Return the study in a TOML file, checked; with `frozen`, the file's SHA-256, a changed one is refused.

    Args:
        path: of the file.
        frozen: SHA-256 of the file as its owner approved it (`study_digest`), or None for any.

    Raises:
        StudyInvalid: a missing or unreadable file, or anything in it that a study cannot hold.
        PolicyRefused: the file is not as it was approved.
    """
    return StudySpec.from_dict(study_tables(path, frozen=frozen))


def study_tables(path: str | Path, *, frozen: str | None = None) -> dict[str, Any]:
    """Return the tables of a study file as they are written; raises as `read_study`."""
    file_name = str(path)
    try:
        text = _study_text(Path(path))
        if frozen is not None and hashlib.sha256(text.encode()).hexdigest() != frozen:
            raise changed_study(file_name)
        return tomllib.loads(text)
    except OSError as error:
        problem = f"the study file {file_name!r} cannot be read ({(error.strerror or 'no reason given').lower()})"
    except UnicodeDecodeError:
        problem = f"the study file {file_name!r} is not UTF-8 text"
    except tomllib.TOMLDecodeError as error:
        problem = f"the study file {file_name!r} is not valid TOML: {error}"
    except (ValueError, RecursionError):  # a null byte in the path, a number of thousands of digits, deep nesting
        problem = f"the study file {file_name!r} is no study: over 64 KiB or 4,096 bytes a line, or nested too deep"
    raise StudyInvalid(problem, cause="a mistyped path or a syntax error", remedy="check the file named")


def study_digest(path: str | Path) -> str:
    """Return the SHA-256 of a study file, in hex; refused unless the file is a valid study."""
    read_study(path)
    return hashlib.sha256(_study_text(Path(path)).encode()).hexdigest()


def changed_settings(released: Mapping[str, Any], spec: StudySpec) -> str:
    """Return the settings of a released study that the study `spec` changed, as text; "" if there are none."""
    before, now = (
        {f"{section}.{key}": json.dumps(value) for section, keys in tables.items() for key, value in keys.items()}
        for tables in (released, json_form(spec.tuned.to_dict()))
    )
    changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    return ", ".join(f"{key} = {before.get(key, 'not set')}" for key in changed)


def changed_study(shown: str) -> PolicyRefused:
    """Return the error for a study file that was changed since its schedule was served."""
    return PolicyRefused(
        f"the study file {shown!r} is not the one that was served",
        cause="it was changed after dpbo serve started, or the run names another file",
        remedy="change it back, or stop dpbo serve and start it again with the new one",
    )


def _study_text(path: Path) -> str:
    """Return the text of a study file; ValueError if it is large: long dotted keys take quadratic time to parse."""
    with path.open("rb") as file:
        raw = file.read(LARGEST_STUDY + 1)
    if len(raw) > LARGEST_STUDY or max(map(len, raw.splitlines()), default=0) > LONGEST_LINE:
        raise ValueError
    return raw.decode("utf-8-sig")  # editors of Windows begin a file with a byte-order mark
