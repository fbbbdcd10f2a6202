"""Predictions in memory: a table that was given, or what functions say of the records, asked after paying alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dpbo_core.data.files import no_core_dumps
from dpbo_core.data.frames import Frame
from dpbo_core.data.people import Person
from dpbo_core.data.predictions import Rows, rows_of
from dpbo_core.data.table import Table, table_of
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.sources import MEMORY, Source
from dpbo_core.methods.problem import Problem
from dpbo_core.models.isolated_estimator import contained
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.privacy.sensitive import attempted
from dpbo_core.sklearn_api.row_marks import RowMarks
from dpbo_core.sklearn_api.tables_in_memory import passed_twice, person_in_memory
from dpbo_core.study import StudySpec
from dpbo_core.study.headers import check_n_validation, check_person
from dpbo_core.study.prediction_half import check_prediction_columns, columns_of, prediction_half
from dpbo_core.study.public_half import PublicHalf, sealed_half

Functions = Mapping[str, Callable[[Any], Any]]


@dataclass(frozen=True, eq=False, repr=False)
class PredictionSplit:
    """Public and sensitive predictions in memory; before payment only the outside of the sensitive is looked at."""

    spec: StudySpec  # the study
    predictions: Any  # SENSITIVE, a `Frame`; or the records, where there are functions
    truth: Any  # SENSITIVE: what is right
    functions: Functions | None  # of the candidates; None where a table of predictions was given
    public_table: Table | None  # predictions for PUBLIC records, if there are any
    target: str  # the target's name in the study
    aliased: bool = False  # whether the call gave one table, or part of it, as both
    marks: RowMarks | None = None  # of rows that were sensitive before; None for a dataset that was declared public

    def public(self, problem: Problem) -> PublicHalf:
        """The public half of the split: candidates' names, public scores if any; rows once sensitive are refused.

        Raises:
            StudyInvalid: the public predictions were sensitive before, which is asked first.
        """
        if self.marks is not None and self.public_table is not None and not self.aliased:
            self.marks.check(self.public_table, self._row_names, shown_as="X_public")
        return prediction_half(self.spec, problem, self.public_table)

    def sources(self) -> tuple[Source, ...]:
        """The records' source as the ledger names it: tables in memory, without a path."""
        return (MEMORY,)

    def check(self, public: PublicHalf) -> None:
        """Refuse one table passed as public and sensitive, and, unless functions predict, bad columns or counts.

        Raises:
            StudyInvalid: it is not so. No record's content was looked at.
        """
        if self.aliased:
            raise passed_twice("X or y", beside="X_public or y_public")
        if not isinstance(self.predictions, Frame):
            return
        self.predictions.check_target(shown_as="X")
        check_person(self.spec, self.predictions.names, shown_as="X")
        check_prediction_columns(public, (*self.predictions.names, self.target), shown_as="X")
        check_n_validation(self.spec, self.predictions.n_records, shown_as="X")

    def sensitive(self, public: PublicHalf) -> Scorer:
        """After payment: seal the predictions, as passed or asked of the functions now; store hashes of rows."""
        no_core_dumps()
        people: list[Person] | None = None
        if isinstance(self.predictions, Frame):
            table = self.predictions.table(target_name=self.target, source="X")
            if self.spec.privacy.person is not None:
                people = [person_in_memory(value) for value in self.predictions.values(self.spec.privacy.person)]
        else:
            table = prediction_table(
                self.spec, self.functions or {}, self.predictions, self.truth, self.target, source="X"
            )
        if self.marks is not None:
            self.marks.remember(table, self._row_names)
        return sealed_half(self.spec, table, people, public)

    @property
    def _row_names(self) -> tuple[str, ...]:
        return (*(column for columns in columns_of(self.spec).values() for column in columns), self.target)


def prediction_table(
    spec: StudySpec,
    functions: Functions,
    records: Any,
    truth: Any,
    target: str,
    *,
    source: Literal["X", "X_public"],
) -> Table:
    """Each function's predictions and the target; one that fails leaves gaps on X, on X_public it is refused.

    Of the sensitive X nothing that a function raises, prints or warns is told. Where it fails it is asked again
    with one half of the records and with the other, and so on: a record that makes it fail is without a prediction,
    which scores the constant, and no other is.
    """
    values = list(truth)
    columns: dict[str, Any] = {}
    for name, names in columns_of(spec).items():
        width = len(names)
        with contained():
            predictions = _predicted(functions[name], records, 0, len(values), width)
            if predictions is None and source == "X":
                predictions = _by_halves(functions[name], records, len(values), width)
        if predictions is None:
            raise StudyInvalid(
                f"{name} does not predict the public records",
                cause=f"it raised, or what it returned has no {width} columns and one row a record",
                remedy="return one prediction a record, or of more than two classes a probability of each",
            )
        columns |= {column: [row[place] for row in predictions] for place, column in enumerate(names)}
    return table_of({**columns, target: values}, source=source)


def _predicted(function: Callable[[Any], Any], records: Any, start: int, length: int, width: int) -> Rows | None:
    """What `function` predicts for `length` records from `start`; None where it raises or has another shape."""
    return attempted(lambda: rows_of(function(_part(records, start, length)), length, width), None)


def _by_halves(function: Callable[[Any], Any], records: Any, n_records: int, width: int) -> Rows:
    """Predictions of a function that failed on all records, by ever smaller parts: gaps where it fails on one."""
    predictions: Rows = [[None] * width for _ in range(n_records)]
    failed = [(0, n_records)]
    while failed:
        start, length = failed.pop()
        if length > 1:
            for at, size in ((start, length // 2), (start + length // 2, length - length // 2)):
                part = _predicted(function, records, at, size, width)
                if part is None:
                    failed.append((at, size))
                else:
                    predictions[at : at + size] = part
    return predictions


def _part(records: Any, start: int, length: int) -> Any:
    if start == 0 and length == len(records):
        return records
    if hasattr(records, "iloc"):
        return records.iloc[start : start + length]
    if hasattr(records, "slice"):  # of Arrow and polars
        return records.slice(start, length)
    return records[start : start + length]
