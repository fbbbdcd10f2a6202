"""A study on tables in memory: its data split, and the [model] that its estimator and its scores are."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor

from dpbo_core.data import Preprocessing
from dpbo_core.data.files import disable_core_dumps
from dpbo_core.data.frames import Frame
from dpbo_core.data.people import Person, person_identifier
from dpbo_core.data.table import Table
from dpbo_core.data.values import canonical_text, plain_value, shown
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.sources import MEMORY_SOURCE, Division, Source
from dpbo_core.methods.problem import Problem
from dpbo_core.models.prototype import Prototype, function_name
from dpbo_core.models.scores.union import SCORES
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.sklearn_api.arguments import number_of
from dpbo_core.sklearn_api.row_marks import RowMarks
from dpbo_core.study import ModelSection, StudySpec
from dpbo_core.study.data_files import check_n_validation, check_names
from dpbo_core.study.model import read_model
from dpbo_core.study.public_half import OwnParts, PublicHalf, fitted_half, fitted_map, named_map, sealed_half

N_BINARY_CLASSES = 2  # classes, of which pairs can be counted


@dataclass(frozen=True, eq=False, repr=False)
class FrameSplit:
    """The public and the sensitive table of a search in memory.

    Before the charge, only the shape and the column names of `validation` are used, and no value.
    """

    spec: StudySpec  # the study
    training: Frame  # public
    validation: Frame  # sensitive
    prototype: Prototype  # the estimator
    target: str  # the target's name in the study
    score: Any = None  # the user's score function, if there is one
    aliased: bool = False  # whether the call gave one table, or part of it, as both
    beside: tuple[str, ...] = ()  # columns of the validation table alone, which are no features
    division: Division | None = None  # how one table was divided into the two; None if two were given
    marks: RowMarks | None = None  # of rows that were sensitive before; None for a dataset that was declared public
    weights: NDArray[np.float64] | None = None  # (n,) of the public rows, where they count differently in training

    @property
    def takes_columns(self) -> bool:
        """Whether the estimator is given a data frame's own columns, as a Pipeline is, and not numbers."""
        return self.training.named and self.prototype.takes_columns

    def public_table(self) -> Table:
        """Return the public records as a table of numbers, with a data frame's cells as they were passed."""
        return self.training.table_with_cells(target_name=self.target, source="X", texts=None)

    def hints(self) -> Mapping[str, Any] | None:
        """Return the type that pandas, say, gives each column of the public table; empty if it is no data frame."""
        return self.training.hints()

    def public(self, problem: Problem) -> PublicHalf:
        """Return the public half: the fitted preprocessing and a trainer."""
        read = self.training.table_with_cells if self.takes_columns else self.training.table
        table = read(target_name=self.target, source="X", texts=None)
        if self.marks is not None and not self.aliased:  # first, so that no message quotes a once sensitive value
            self.marks.check(table, self._row_names, display_name="X")
        if self.takes_columns:
            fitted = named_map(self.spec, table, self.target, self.training.hints())
        else:
            fitted = fitted_map(self.spec, table, self.target)
        own = OwnParts(self.prototype, self.score, self.weights)
        public = fitted_half(self.spec, problem, table, fitted, own)
        weights = [] if self.weights is None else [hashlib.sha256(self.weights.tobytes()).hexdigest()]
        identity = "\n".join([public.fingerprint, self.prototype.identity(), *weights])
        return replace(public, fingerprint=hashlib.sha256(identity.encode()).hexdigest())

    def sources(self) -> tuple[Source, ...]:
        """Return the records' source as the ledger names it: tables in memory, and the share that split them."""
        return (replace(MEMORY_SOURCE, division=self.division),)

    def check(self, public: PublicHalf) -> None:
        """Refuse bad column names or numbers of records, or one table passed as both public and sensitive."""
        if self.aliased:
            raise passed_twice("X_validation or y_validation", beside="the public X or y")
        self.validation.check_target(display_name="X_validation")
        names = [name for name in self.validation.names if name not in self.beside]
        check_names(self.spec, (*names, self.target), public.columns, display_name="X_validation")
        check_n_validation(self.spec, self.validation.n_records, display_name="X_validation")

    def sensitive(self, public: PublicHalf) -> Scorer:
        """Return a sealed scorer of the validation records, and store keyed hashes of them, after the charge."""
        return sealed_half(self.spec, *self.records(public.preprocessing), public)

    def records(self, fitted: Preprocessing | None = None) -> tuple[Table, list[Person] | None]:
        """Return the SENSITIVE records, not sealed, and the person of each (None if the study names no persons).

        Call it only after the ledger has reserved the charge, and seal the result. Keyed hashes of the rows are
        stored. Raw cells are kept if the preprocessing that was `fitted` takes the table's own columns.
        """
        disable_core_dumps()
        people: list[Person] | None = None
        if self.spec.privacy.person is not None:
            people = [person_in_memory(value) for value in self.validation.values(self.spec.privacy.person)]
        named = fitted is not None and fitted.columns is not None
        read = self.validation.table_with_cells if self.takes_columns or named else self.validation.table
        texts = frozenset() if fitted is None else fitted.text_columns
        table = read(target_name=self.target, source="X_validation", texts=texts)
        if self.marks is not None:
            self.marks.remember(table, self._row_names)
        return table, people

    @property
    def _row_names(self) -> tuple[str, ...]:
        return (*self.training.names, self.target)


def person_in_memory(value: object) -> Person:
    """Return the person that a cell names; None for a missing cell, and for an integer of 2⁵³ or more.

    pandas turns a column of integers into doubles if one cell is missing, and doubles do not distinguish such large
    integers. They name nobody in either case, so that no record changes what another one's cell means.
    """
    value = plain_value(value)
    return None if isinstance(value, int | np.integer) and abs(int(value)) >= 2**53 else person_identifier(value)


def passed_twice(sensitive: str, *, beside: str) -> StudyInvalid:
    """Return the error to raise where one table was passed as both the sensitive and the public one."""
    return StudyInvalid(
        f"{sensitive} is, or shares its memory with, {beside}",
        cause="the same table was passed twice, and a record in both is protected in neither",
        remedy="split the records into two tables that share no person",
    )


def model_section(search: Any, training: Frame) -> ModelSection:
    """Return the [model] section of a `PrivateSearch`: its estimator's name, its score and that one's public range.

    If the score needs shares of more than two classes and none are given, those of the public y are used.
    """
    several = len(set(map(canonical_text, np.asarray(training.target).tolist()))) > N_BINARY_CLASSES
    shares, function = search.class_shares, search.scoring if callable(search.scoring) else None
    declared = SCORES.get(search.scoring) if isinstance(search.scoring, str) else None
    if declared is not None and "class_shares" in declared.allows and shares is None and several:
        shares = class_shares(training)
    low, high = (
        (None, None)
        if search.score_bounds is None
        else (number_of("score_bounds", end) for end in search.score_bounds)
    )
    table = {
        "estimator": f"{type(search.estimator).__module__}.{type(search.estimator).__name__}",
        "score": search.scoring if function is None else function_name(function),
        "standardize": False,
        "class_shares": None
        if shares is None
        else {str(name): number_of("class_shares", share) for name, share in shares.items()},
        "error_bound": None if search.error_bound is None else number_of("error_bound", search.error_bound),
        "score_low": low,
        "score_high": high,
        "task": "regression" if function is not None and is_regressor(search.estimator) else None,
        "rowwise": search.rowwise,
    }
    return read_model({key: value for key, value in table.items() if value is not None})


def class_shares(training: Frame) -> dict[str, float]:
    """Return the share of each class among the PUBLIC training records."""
    counts = Counter(canonical_text(value) for value in np.asarray(training.target).tolist())
    return {shown(value): count / training.n_records for value, count in counts.items()}
