"""The cells of the histogram, and which of them a record falls into: a function of that record alone.

| symbol | name here | meaning | shape |
|---|---|---|---|
| s | `values` | decision values: margins, probabilities of the larger class, or decision_function's | (m,) |
| e | `edges` | public, ascending: a record is above an edge where s > e | (B − 1,) |
| B | `n_bins` | bins, from the lowest values to the highest | scalar ≥ 1 |
| g | `groups` | public categories, and one more for every other value; one alone without a column | G |
| — | `places` | 0 for what cannot be read, else 1 + y·B + bin | (m,) |
| — | `cells` | 0 for what cannot be read, else 1 + g·2B + y·B + bin | (m,) |

Of several classes a place is 1 + y·C + ŷ (`ClassPlace`), of a regression 1 + the bin of ŷ − y (`ErrorPlace`).

ONE cell for all that cannot be read or is a person's surplus: with two of them a person's records could move from
one to the other by the thousand. Replacing one record takes it out of one cell and puts it into another, so at most
k replaced records move the table by 2k in ℓ₁.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Encoded, Preprocessing, Table
from dpbo_core.data.values import Value, positions
from dpbo_core.models.by_content import scores_by_content
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel
from dpbo_core.models.outcome import Verb
from dpbo_core.models.scores.record import Jumps, Scores
from dpbo_core.models.scores.regression_error import as_numbers
from dpbo_core.objective.in_memory import Scorable

Integers = NDArray[np.int64]
OTHER = "other"
BLOCK = 16_384  # records that are compared with all edges at once


@dataclass(frozen=True)
class Grouping:
    """A column of the table and its public categories, numbers in their order, then texts in theirs."""

    column: str
    categories: tuple[Value, ...]

    def of(self, table: Table) -> Integers:
        """The group of each record, (m,); the last for every value that is not listed."""
        found = positions(table.columns[self.column], self.categories)
        return np.where(found < 0, len(self.categories), found)


@dataclass(frozen=True)
class Place(Jumps):
    """An estimator's record scored by the number of its place, so that whatever scores records can count them.

    Attributes:
        edges: public, ascending.
        verb: which of the estimator's outcomes is the decision value.
    """

    edges: tuple[float, ...]
    verb: Verb

    @property
    def n_cells(self) -> int:
        """Of one group, 2·B."""
        return 2 * (len(self.edges) + 1)

    @property
    def needs(self) -> Verb:
        """Probabilities, or decision values."""
        return self.verb

    @property
    def score_range(self) -> float:
        """The last place, 2B."""
        return float(2 * (len(self.edges) + 1))

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """The places of records, (k,)."""
        values = outcome[:, -1] if outcome.ndim == 2 else outcome
        return placed(values, np.asarray(truth), self.edges).astype(np.float64)


@dataclass(frozen=True)
class ClassPlace(Jumps):
    """A record's place among several classes: 0 for a class that is none of them, else 1 + y·C + ŷ.

    Attributes:
        n_classes: C.
    """

    n_classes: int

    @property
    def edges(self) -> tuple[float, ...]:
        """None: no values are cut."""
        return ()

    @property
    def n_cells(self) -> int:
        """Of one group, C²."""
        return self.n_classes**2

    @property
    def score_range(self) -> float:
        """The last place, n_cells."""
        return float(self.n_cells)

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """The places of records, (k,); every record is compared with every class."""
        given, labels = as_numbers(outcome), np.asarray(truth)
        predicted, true = (
            sum((one == c) * (c + 1) for c in range(self.n_classes)) for one in (given, labels)
        )  # 0 for none
        known = (np.asarray(predicted) > 0) & (np.asarray(true) > 0)
        return np.where(known, (true - 1) * self.n_classes + predicted, 0).astype(np.float64)


@dataclass(frozen=True)
class ErrorPlace(Jumps):
    """A record's place by its signed error ŷ − y: 0 where that is NaN, else 1 + bin.

    Attributes:
        edges: public, ascending, in the target's unit; a record is above an edge where its error is.
    """

    edges: tuple[float, ...]

    @property
    def n_cells(self) -> int:
        """Of one group, B."""
        return len(self.edges) + 1

    @property
    def score_range(self) -> float:
        """The last place, n_cells."""
        return float(self.n_cells)

    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """The places of records, (k,)."""
        with np.errstate(all="ignore"):
            errors = as_numbers(outcome) - np.asarray(truth, dtype=np.float64)
        return placed(errors, np.zeros(len(errors), dtype=np.int64), self.edges).astype(np.float64)


AnyPlace = Place | ClassPlace | ErrorPlace


def placed(values: NDArray[np.float64], labels: NDArray[Any], edges: tuple[float, ...]) -> Integers:
    """The place of each record, (k,): 0 without a usable label or with NaN for a decision value.

    Args:
        values: (k,), infinite where they like.
        labels: (k,) 0 or 1; anything else cannot be read.
        edges: ascending.
    """
    limits = np.array(edges, dtype=np.float64)
    bins = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), BLOCK):  # by comparisons: a search's duration would depend on the values
        part = slice(start, start + BLOCK)
        bins[part] = (values[part, None] > limits).sum(axis=1)
    known = ((labels == 0) | (labels == 1)) & ~np.isnan(values)
    return np.where(known, 1 + np.where(labels == 1, len(edges) + 1, 0) + bins, 0)


def places(model: Scorable, records: Encoded, how: AnyPlace, *, by_content: bool = False) -> Integers:
    """The place of each record under a public model, (m,). Never raises on account of a record.

    With `by_content` it is a function of that record alone to the last bit, and not of where it stands nor of how
    many others there are, which may differ where a person leaves.
    """
    if isinstance(how, ClassPlace) and not isinstance(model, FittedEstimator):
        found = how.of(_classes(model, records), records.labels).astype(np.int64)
    elif isinstance(model, LinearModel):  # which has two classes
        found = placed(model.margins(records.X, np.ones(records.n_records)), records.labels, how.edges)
    elif isinstance(model, SoftmaxModel):
        raise TypeError("a softmax model names classes, and has no decision value")
    else:
        scores = scores_by_content if by_content else FittedEstimator.scores
        found = np.rint(scores(model, records.X, records.truth, how)).astype(np.int64)
    return np.where(records.broken | (records.labels < 0), 0, found)


def _classes(model: LinearModel | SoftmaxModel, records: Encoded) -> NDArray[np.int64]:
    if isinstance(model, SoftmaxModel):
        return model.predicted(records.X)
    return (model.margins(records.X, np.ones(records.n_records)) > 0.0).astype(np.int64)


def cells(found: Integers, groups: Integers | None, n_bins: int, n_classes: int = 2) -> Integers:
    """The cell of each record, (m,), from its place, of n_classes·n_bins, and its group."""
    if groups is None:
        return found
    return np.where(found > 0, found + groups * (n_classes * n_bins), 0)


def needed(fitted: Preprocessing) -> tuple[str, ...]:
    """The columns that a model needs of a table, the target last."""
    return *(feature.name for feature in fitted.features), fitted.target


def only_needed(table: Table, fitted: Preprocessing) -> Table:
    """The table without all others."""
    return table.without(set(table.columns) - set(needed(fitted)))
