"""`PrivateSelection`: which of several models made elsewhere is best on SENSITIVE records, differentially private.

The models are anybody's: PyTorch's, a vendor's, a language model behind a door. dpbo sees what they said of every
record, inside the curator's boundary, and the records' truth: in a table, or from functions that are asked after
paying alone. Nothing is trained; what comes out is a name and a noisy score.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator

from dpbo_core.data.aliasing import aliased
from dpbo_core.data.files import disable_core_dumps
from dpbo_core.data.frames import Frame, frame_of
from dpbo_core.data.people import Person
from dpbo_core.data.predictions import Rows, rows_of
from dpbo_core.data.table import Table, table_of
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.address import ledger_url
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import MEMORY_SOURCE, Source
from dpbo_core.methods.advice import AUTO, Advice, advise
from dpbo_core.methods.problem import Problem
from dpbo_core.models.isolated_estimator import contained
from dpbo_core.models.scores.union import OF_CLASSES
from dpbo_core.models.scoring.in_memory import Scorer
from dpbo_core.privacy.release import bounded_score, score_interval
from dpbo_core.privacy.sensitive import attempted
from dpbo_core.sklearn_api.arguments import number_of, python_door, whole_number_of
from dpbo_core.sklearn_api.row_marks import RowMarks
from dpbo_core.sklearn_api.search_study import described
from dpbo_core.sklearn_api.tables_in_memory import passed_twice, person_in_memory
from dpbo_core.study import AxisSection, PredictionTable, SearchSection, StudySpec
from dpbo_core.study.data_files import check_n_validation, check_person
from dpbo_core.study.data_kinds import CANDIDATE_AXIS
from dpbo_core.study.model import PREDICTIONS, read_model
from dpbo_core.study.prediction_half import check_prediction_columns, columns_of, prediction_half
from dpbo_core.study.public_half import PublicHalf, sealed_half
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import planning_problem, resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study

Functions = Mapping[str, Callable[[Any], Any]]
TARGET_WORDS = "the target"


@dataclass(frozen=True, eq=False, repr=False)
class PredictionSplit:
    """Public and sensitive predictions in memory.

    Before the charge, only the shape and the column names of the sensitive ones are used, and no value.
    """

    spec: StudySpec  # the study
    predictions: Any  # SENSITIVE, a `Frame`; or the records, where there are functions
    truth: Any  # SENSITIVE: what is right
    functions: Functions | None  # of the candidates; None if a table of predictions was given
    public_table: Table | None  # predictions for PUBLIC records, if there are any
    target: str  # the target's name in the study
    aliased: bool = False  # whether the call gave one table, or part of it, as both
    marks: RowMarks | None = None  # of rows that were sensitive before; None for a dataset that was declared public

    def public(self, problem: Problem) -> PublicHalf:
        """Return the public half: the candidates' names, and their public scores if there are any."""
        # first, so that no other message can quote a value that was sensitive in an earlier call
        if self.marks is not None and self.public_table is not None and not self.aliased:
            self.marks.check(self.public_table, self._row_names, display_name="X_public")
        return prediction_half(self.spec, problem, self.public_table)

    def sources(self) -> tuple[Source, ...]:
        """Return the records' source as the ledger names it: tables in memory, without a path."""
        return (MEMORY_SOURCE,)

    def check(self, public: PublicHalf) -> None:
        """Refuse one table passed as public and sensitive, and, unless functions predict, bad columns or counts."""
        if self.aliased:
            raise passed_twice("X or y", beside="X_public or y_public")
        if not isinstance(self.predictions, Frame):
            return
        self.predictions.check_target(display_name="X")
        check_person(self.spec, self.predictions.names, display_name="X")
        check_prediction_columns(public, (*self.predictions.names, self.target), display_name="X")
        check_n_validation(self.spec, self.predictions.n_records, display_name="X")

    def sensitive(self, public: PublicHalf) -> Scorer:
        """Return a sealed scorer of the predictions, which functions compute now. Call it only after the charge.

        Keyed hashes of the rows are stored, by which a later call recognises them as sensitive.
        """
        disable_core_dumps()
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
    """Return a table of each function's predictions for the records, and the target.

    A function that fails on the public records is refused. On the sensitive ones, whatever it raises, prints or
    warns is suppressed, because it may quote a record. There it is called again on each half of the records, and so
    on, so that only a record on which it fails alone has no prediction. Such a record gets a constant score.
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
    return attempted(lambda: rows_of(function(_part(records, start, length)), length, width), None)


def _by_halves(function: Callable[[Any], Any], records: Any, n_records: int, width: int) -> Rows:
    """Return the predictions of a function that failed on all records, by repeated halving; None where it fails."""
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


@dataclass(eq=False, repr=False)
class PrivateSelection(BaseEstimator):  # type: ignore[misc]
    """Choose among `candidates` by their predictions for sensitive records.

    You state, by the name "rowwise_predictions", that every prediction was computed from its record and public data
    alone, by a model that no sensitive record had a part in making.

    Args:
        candidates: the candidates' names, each a column of the predictions; or name → function, which is given the
            sensitive records and returns a prediction for each: a class, the probability of the second class,
            probabilities (m, C), or a number. A function that raises, or returns another number of them, is asked
            again with half of the records, and so on: a record that it fails on alone scores the constant.
        labels: the classes, public, sorted as scikit-learn does: a column of probabilities is of the second. None
            for a regression.
        scoring: as in `PrivateSearch`, by its name.
        epsilon: ε of this selection in total.
        delta: δ in total; 0 leaves the pure methods.
        dataset: the budget's name. Data that share people share a name.
        budget: (ε, δ) of the data set's cap, set at its first use; without any cap the ledger refuses.
        method: "auto" takes what the advice recommends, from public facts alone.
        n_steps: observations of a search; its usual number, mostly 20, where None.
        error_bound: E of an error or the log-loss: public.
        class_shares: public share of each class for the balanced accuracy.
        person: the column of the predictions that says whose record it is.
        max_records_per_person: k.
        options: of the method, as in a study's [method].
        accepts: assumptions you answer for, by name.
        study: the study's name in the ledger.
        edition: the same study asked twice gives the same release; new data or new predictions are a new edition.
        ledger: the ledger's URL; where None that of the command.

    Attributes:
        best_candidate_: the name released.
        best_score_: its released score, clipped to its range; `release_.value["score"]` has it as drawn.
        best_score_interval_: the 90% interval of that score, low before high; None if none is stated.
        guarantee_: the guarantee.
        release_: everything that was released.
        trajectory_: what each step released, for a method that releases its steps; else None.
        replayed_: whether all this had been released before, so that nothing was spent now.

    Example:
        >>> import pandas as pd
        >>> from dpbo_core import PrivateSelection
        >>> truth = [0, 1] * 200
        >>> predictions = pd.DataFrame({"good": truth, "bad": [0] * 400})
        >>> selection = PrivateSelection(
        ...     ["good", "bad"], labels=[0, 1], epsilon=1.0, dataset="clinic", budget=(5.0, 1e-5),
        ...     method="private_grid", accepts=("rowwise_predictions",),
        ... )
        >>> selection.fit(predictions, truth).best_candidate_
        'good'
    """

    candidates: Sequence[str] | Mapping[str, Callable[[Any], Any]]
    _: KW_ONLY
    epsilon: float
    dataset: str
    labels: Sequence[Any] | None = None
    scoring: str = OF_CLASSES
    delta: float = 0.0
    budget: tuple[float, float] | None = None
    method: str = AUTO
    n_steps: int | None = None
    error_bound: float | None = None
    class_shares: Mapping[str, float] | None = None
    person: str | None = None
    max_records_per_person: int = 1
    options: Mapping[str, Any] | None = None
    accepts: tuple[str, ...] = ()
    study: str = "PrivateSelection"
    edition: str = "1"
    ledger: str | None = None

    @python_door
    def fit(self, X: Any, y: Any, *, X_public: Any = None, y_public: Any = None) -> Self:
        """Score all candidates, choose one privately, charge the ledger for its name and score; a repeat is free.

        Args:
            X: SENSITIVE: the predictions, a pandas, polars or Arrow table with the candidates' columns (and
                `person`); or, where the candidates are functions, the records that they are given. m is public.
            y: SENSITIVE: what is right, (m,).
            X_public: the same for PUBLIC records, if there are any: methods that ask a public score can then run.
            y_public: what is right of those.

        Raises:
            StudyInvalid: something cannot be used as it is. Nothing inside a sensitive record is ever an error.
            BudgetRefused: the ledger said no; nothing was charged.
            AssumptionNotAccepted: `accepts` does not name "rowwise_predictions".
        """
        if (X_public is None) != (y_public is None):
            raise StudyInvalid("X_public and y_public go together", remedy="give both, or neither")
        functions = dict(self.candidates) if isinstance(self.candidates, Mapping) else None
        predictions = X
        if functions is None:
            predictions = frame_of(X, y, display_name="X", width=len(self._names()) + (self.person is not None))
        elif self.person is not None:
            raise StudyInvalid(
                "person names a column, and the candidates are functions of records",
                cause="what a function is given need not have columns",
                remedy="make a table of predictions with the column, and name the candidates",
            )
        spec = self._spec(
            len(y) if functions is not None else predictions.n_records, None if X_public is None else "X_public"
        )
        public = None
        if X_public is not None and functions is None:
            public = frame_of(X_public, y_public, display_name="X_public").table(
                target_name=TARGET_WORDS, source="X_public"
            )
        elif X_public is not None and functions is not None:
            public = prediction_table(spec, functions, X_public, y_public, TARGET_WORDS, source="X_public")
        shared = X_public is not None and aliased((X_public, y_public), (X, y))
        ledger = PrivacyLedger(ledger_url(self.ledger))
        marks = RowMarks.of(ledger, self.dataset)
        split = PredictionSplit(spec, predictions, y, functions, public, TARGET_WORDS, aliased=shared, marks=marks)
        result = open_study(Run.in_memory(resolve(spec), QueryContext(ledger), split)).run()
        release = result.release
        self.release_, self.guarantee_, self.replayed_ = release, release.guarantee, result.replayed
        self.best_candidate_: str = release.value["hyperparameters"][CANDIDATE_AXIS]
        self.best_score_, self.best_score_interval_ = bounded_score(release), score_interval(release)
        self.trajectory_ = release.value.get("trajectory")
        if result.replayed:
            warnings.warn(
                f"released on {release.released_at[:10]}; nothing was drawn or spent this time. "
                "For new data or new predictions give a new edition.",
                stacklevel=2,
            )
        return self

    def advise(self, *, n_validation: int, public: bool = False) -> Advice:
        """Return the price and the expected error of every selection method, from public facts. Charges nothing.

        Args:
            n_validation: the number of sensitive records.
            public: whether there will be public predictions too.
        """
        spec = self._spec(whole_number_of("n_validation", n_validation), "X_public" if public else None)
        return advise(planning_problem(spec), spec.method, spec.options)

    def _names(self) -> tuple[str, ...]:
        if isinstance(self.candidates, str) or not all(isinstance(name, str) for name in self.candidates):
            raise StudyInvalid("the candidates are no list of names", remedy='write ["small", "large"]')
        return tuple(self.candidates)

    def _spec(self, n_validation: int, public: str | None) -> StudySpec:
        model = {
            "estimator": PREDICTIONS,
            "score": self.scoring,
            "error_bound": None if self.error_bound is None else number_of("error_bound", self.error_bound),
            "class_shares": None if self.class_shares is None else dict(self.class_shares),
        }
        return described(
            self,
            data=PredictionTable(
                predictions="X",
                n_validation=n_validation,
                target=TARGET_WORDS,
                labels=None if self.labels is None else _labels_of(self.labels),
                public=public,
            ),
            model=read_model({key: value for key, value in model.items() if value is not None}),
            space={CANDIDATE_AXIS: AxisSection(values=self._names())},
            search=SearchSection(steps=None if self.n_steps is None else whole_number_of("n_steps", self.n_steps)),
            choice="candidate",
        )


def _labels_of(labels: Sequence[Any]) -> tuple[Any, ...]:
    plain = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    if not all(isinstance(label, bool | int | float | str) for label in plain):
        raise StudyInvalid("a label is neither a number nor a text", remedy="give labels = [0, 1], say")
    return plain
