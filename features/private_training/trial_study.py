"""A study file with a trainer supplied by the user: a [trial] says what one training is declared to cost.

`dpbo plan` and `dpbo tune` hand such a file to `TrialStudy`, by the entry point group `dpbo.sections`. Code that
the file names by its import path runs only where the dataset's owner allowed it.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from dpbo.features.private_training.dp_sgd import DP_SGD
from dpbo.features.private_training.private_trials import KIND, PrivateTrials
from dpbo.features.private_training.trial_families import Declared, DpSgd, Event, Family, PureDp, Zcdp
from dpbo.features.private_training.trial_plan import TrialsRelease
from dpbo_core import data
from dpbo_core.data import bundled
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.data.table import Table
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.owners_ledger import Code, References
from dpbo_core.ledger.policy import unallowed_score
from dpbo_core.ledger.sources import PUBLIC_ROLE, Source, file_source, marks_of
from dpbo_core.methods.problem import DEFAULT_DELTA
from dpbo_core.models.scores.union import OF_CLASSES
from dpbo_core.study.query import QueryContext
from dpbo_core.study.section import PlainList, Section, limited, one_of, refuse_unknown, require
from dpbo_core.study.sections import BudgetSection, PrivacySection, SearchSection
from dpbo_core.study.spec import StudyHead, StudySpec, candidates_of, read_axes

Count = Annotated[int, limited("give the number of records, at least 1", ge=1)]
MECHANISMS = (DP_SGD.name, "pure", "zcdp", "event", "declared")
MEAN_TRIALS = 10  # where [search] gives no steps


class TrialData(Section):
    """[data]: a bundled set, or sensitive files; `training` may be a folder, which is handed over unread."""

    heading: ClassVar[str] = "data"
    sensitive: Literal["training"] = "training"
    source: str | None = None
    validation_share: Annotated[float, limited("choose a share between 0 and 1", gt=0, lt=1)] = 0.25
    training: str | None = None
    n_training: Count | None = None
    validation: str | None = None
    n_validation: Count | None = None
    target: str = "target"
    classes: PlainList | None = None
    public_validation: bool = False

    def check(self) -> None:
        """Refuse data that are neither a bundled set nor two files with their numbers of records."""
        files = (self.training, self.n_training, self.validation, self.n_validation)
        require(
            all(part is None for part in files) if self.source else None not in files,
            "[data] names neither a bundled set nor two files with their numbers of records",
            remedy='write source = "digits"; or training, n_training, validation and n_validation',
        )
        require(
            not (self.public_validation and self.source),
            "data.public_validation with a bundled set",
            remedy="give training and validation as files, or leave it out",
        )
        if self.classes is not None:
            require(
                len({isinstance(value, str) for value in self.classes}) == 1,
                "data.classes is no list of numbers or of texts",
                remedy='list every class, as in classes = ["no", "yes"]',
            )


class TrialMethod(Section):
    """[method]: the training function's import path, how many trainings run, and how."""

    heading: ClassVar[str] = "method"
    base: str
    run: Annotated[int | None, limited("run at least 1 training", ge=1)] = None
    timeout: Annotated[float | None, limited("give seconds above 0", gt=0)] = None
    workers: Annotated[int, limited("use at least 1", ge=1)] = 1
    people: Literal["disjoint"] | None = None

    def check(self) -> None:
        """Refuse a base that is no import path."""
        require(":" in self.base, f"method.base = {self.base!r}", remedy='write "package.module:function"')


class TrialSection(Section):
    """[trial]: the declared cost of one training; a setting is a number, or the name of an axis."""

    heading: ClassVar[str] = "trial"
    mechanism: str
    batch_size: float | str | None = None
    sampling_probability: float | str | None = None
    epochs: float | str | None = None
    steps: float | str | None = None
    event: str | None = None
    epsilon: float | str | None = None
    delta: float = 0.0
    score: str = OF_CLASSES

    def check(self) -> None:
        """Refuse a mechanism that is none of the declared costs, and a score that is no import path."""
        one_of("trial.mechanism", self.mechanism, MECHANISMS)
        require(
            self.score == OF_CLASSES or ":" in self.score,
            f"trial.score = {self.score!r}",
            remedy=f'write "package.module:function", or "{OF_CLASSES}"',
        )

    def family(self) -> Family:
        """Return the declared cost; the function of `event` is imported."""
        if self.mechanism == DP_SGD.name:
            return DpSgd(self.batch_size, self.sampling_probability, self.epochs, self.steps)
        if self.mechanism == "declared":
            require(self.epsilon is not None, '[trial] mechanism = "declared" needs epsilon')
            return Declared(self.epsilon or 0.0, self.delta)
        if self.mechanism == "event":
            from dpbo_core.models.import_path import function_at

            require(self.event is not None, '[trial] mechanism = "event" needs event, the path of a function')
            return Event(function_at(str(self.event).replace(":", ".")))
        return PureDp() if self.mechanism == "pure" else Zcdp()


class TrialStudy:
    """A study with a [trial], read from its tables."""

    def __init__(self, tables: Mapping[str, Any], folder: Path) -> None:
        sections = ("study", "privacy", "budget", "data", "method", "trial", "space", "search")
        refuse_unknown(tables, sections, "a study with [trial]")
        for name in ("study", "privacy", "data", "method", "space"):
            require(
                isinstance(tables.get(name), Mapping), f"the study has no [{name}] table", remedy=f"add [{name}]"
            )
        self.head, self.privacy = StudyHead.read(tables["study"]), PrivacySection.read(tables["privacy"])
        self.name, self.edition, self.folder = self.head.name, self.head.edition, folder
        require(
            self.head.method == KIND,
            f"study.method = {self.head.method!r} with a [trial]",
            remedy=f'write method = "{KIND}"',
        )
        self.budget = BudgetSection.read(tables["budget"]) if "budget" in tables else None
        self.data, self.method = TrialData.read(tables["data"]), TrialMethod.read(tables["method"])
        self.trial = TrialSection.read(tables["trial"])
        search = SearchSection.read(tables.get("search", {}))
        self.axes = SimpleNamespace(space=read_axes(tables["space"]), search=search)  # as a study has them

    @property
    def code(self) -> tuple[Code, ...]:
        """The import paths that the study names."""
        paths = {"method.base": self.method.base, "trial.score": self.trial.score, "trial.event": self.trial.event}
        return tuple(Code(key, path) for key, path in paths.items() if path is not None and path != OF_CLASSES)

    def check_code(self, ledger: PrivacyLedger | None) -> None:
        """Refuse code that the dataset's owner did not allow; nothing is imported."""
        for code in self.code:
            dataset, path = self.privacy.dataset, code.path.replace(":", ".")
            if ledger is None or not ledger.allows_score(dataset, path):
                raise unallowed_score(code.path, dataset, code.key)

    @cached_property
    def trials(self) -> PrivateTrials:
        """The search that the study states."""
        steps, budget = self.axes.search.steps or MEAN_TRIALS, self.budget
        n, m = self.sizes
        return PrivateTrials(
            self.method.base,
            candidates_of(cast("StudySpec", self.axes)),
            epsilon=self.privacy.epsilon,
            delta=DEFAULT_DELTA if self.privacy.delta is None else self.privacy.delta,
            neighbours=self.privacy.neighbours or "replace_one",
            dataset=self.privacy.dataset,
            budget=None if budget is None else (budget.epsilon, budget.delta),
            training=self.trial.family(),
            score=self.trial.score,
            trials=steps,
            run=self.method.run,
            people=self.method.people,
            public_validation=self.data.public_validation,
            workers=self.method.workers,
            timeout=self.method.timeout,
            accepts=self.head.accepts,
            n_training=n,
            n_validation=m,
            study=self.name,
            edition=self.edition,
        )

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """The public numbers of training and validation records."""
        if self.data.source is None:
            return int(self.data.n_training or 0), int(self.data.n_validation or 0)
        m = bundled.validation_size(self.data.source, self.data.validation_share)
        return bundled.n_records(self.data.source) - m, m

    @property
    def disjoint(self) -> bool:
        """Whether nobody is in both sets: dpbo divides a bundled set, or the study says it."""
        return self.data.source is not None or self.method.people == "disjoint"

    def check_files(self) -> None:
        """Refuse missing files, or other numbers of records than stated, by their headers."""
        for key in ("training", "validation") if self.data.source is None else ():
            file_name = getattr(self.data, key)
            if key == "validation" or not (self.folder / file_name).is_dir():
                header = data.read_header(self.folder / file_name, mode=SENSITIVE_FILE, display_name=file_name)
                stated = getattr(self.data, f"n_{key}")
                data.check_record_count(header.n_records, stated, display_name=file_name, key=f"n_{key}")
                require(self.data.target in header.columns, f"{file_name} has no column {self.data.target!r}")
            elif self.data.public_validation:
                own = {mark for file in (self.folder / file_name).rglob("*") for mark in marks_of(file)}
                public = str(self.data.validation)
                require(not own & marks_of(self.folder / public), f"{public} is in {file_name}, and is not public")

    def sources(self) -> tuple[Source, ...]:
        """Return the records, as the ledger knows them, which refuses a sensitive file as public."""
        if self.data.source is not None:
            return (Source("bundled", self.data.source),)
        return (
            file_source(
                self.folder / str(self.data.validation), PUBLIC_ROLE if self.data.public_validation else "records"
            ),
            file_source(self.folder / str(self.data.training), "training records"),
        )

    def load(self) -> tuple[Any, Any]:
        """Return the SENSITIVE training and validation records, read now; only after the charge."""
        if self.data.source is not None:
            training, validation = bundled.load(self.data.source, self.data.validation_share)
            return _arrays(training, bundled.TARGET, None), _arrays(validation, bundled.TARGET, None)
        return self._read(str(self.data.training)), self._read(str(self.data.validation))

    def _read(self, shown: str) -> Any:
        if (self.folder / shown).is_dir():
            return str((self.folder / shown).resolve())
        table = data.read_table(str(self.folder / shown), mode=SENSITIVE_FILE, display_name=shown)
        return _arrays(table, self.data.target, self.data.classes)

    def invented(self) -> tuple[Any, Any]:
        """Return invented records of the stated sizes and columns, for a rehearsal."""
        rng = np.random.default_rng(0)
        if self.data.source is not None:
            classes: tuple[Any, ...]
            classes, d = bundled.public_facts(self.data.source)[0], len(bundled.SETS[self.data.source].columns)
        else:
            file_name = str(self.data.training)
            require(
                not (self.folder / file_name).is_dir(),
                "a folder that is handed over unread cannot be invented",
                remedy="rehearse in Python: PrivateTrials(...).rehearse(records, validation_records)",
            )
            header = data.read_header(self.folder / file_name, mode=SENSITIVE_FILE, display_name=file_name)
            classes, d = self.data.classes or (0.0, 1.0), len(header.columns) - 1
        n, m = self.sizes
        return tuple((rng.random((size, d)), rng.choice(np.asarray(classes), size)) for size in (n, m))  # type: ignore[return-value]

    def search(self, context: QueryContext) -> TrialsRelease:
        """Charge and run the search, or return its recorded release."""
        if context.caller is not Caller.OWNER:
            context.ledger.check_allowed(self.privacy.dataset, References(self.sources(), self.code))
        self.check_code(context.ledger)
        self.check_files()
        divided = self.data.source is not None
        return self.trials.search(
            context, self.sizes, self.load, self.sources(), disjoint=self.disjoint, divided=divided
        )

    def plan(self, *, rehearse: bool) -> None:
        """Print what the search costs, after one training on invented records if asked."""
        from dpbo.features.private_training.trial_flow import print_plan

        print_plan(self, rehearse=rehearse)

    def tune(self, *, anyway: bool) -> None:
        """Run the search as a Prefect flow, and print its release."""
        from dpbo.features.private_training.trial_flow import print_tuned

        print_tuned(self, anyway=anyway)


def _arrays(table: Table, target: str, classes: PlainList | None) -> tuple[Any, Any]:
    """Return a table's features (m, d) and its target (m,), in types that no record decides.

    Numbers, NaN for what is none; with `classes` the target is one of them, the first for what is none.
    """
    columns = {name: values for name, values in table.columns.items() if name != target}
    X = np.column_stack([_numbers(values) for values in columns.values()])
    if classes is None:
        return X, _numbers(table.columns[target])
    numbers = {label: i for i, label in enumerate(classes)}
    return X, np.array(classes)[[numbers.get(value, 0) for value in table.columns[target]]]


def _numbers(values: Any) -> Any:
    """Return a column as float64, NaN if a value is no number."""
    if values.dtype != object:
        return np.asarray(values, dtype=np.float64)
    return np.array([value if isinstance(value, float) else np.nan for value in values], dtype=np.float64)
