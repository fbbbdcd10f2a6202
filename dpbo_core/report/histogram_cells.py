"""The cells of a report's histogram, and which of them a record falls into: a function of that record alone.

| symbol | name here | meaning | shape |
|---|---|---|---|
| K | `n_cells` | cells of one group, of a report's kind (`HistogramCells`) | scalar ≥ 1 |
| g | `groups` | public categories, and one more for every other value; one alone without a column | G |
| — | `kind_cells` | 0 for what cannot be read, else 1 to K | (m,) |
| — | `with_groups` | 0 for what cannot be read, else g·K + the cell of its kind | (m,) |

ONE cell for all that cannot be read or is a person's surplus: with two of them a person's records could move from
one to the other by the thousand. Replacing one record takes it out of one cell and puts it into another, so at most
k replaced records move the table by 2k in ℓ₁.

Where each person counts once, however many records that person has:

| symbol | name here | meaning | shape |
|---|---|---|---|
| W | `PERSON_WEIGHT` | of one person, 2²⁴ | integer |
| c_p | — | records of person p, those that cannot be read among them | integer ≥ 1 |
| (p, j, n_pj) | `PersonCells` | person p's records in cell j, and their number | integers |
| n_p | `n_persons` | public, as the caller states | scalar ≥ 1 |
| N_j | `table` | Σ_p n_pj·⌊W/c_p⌋ for j ≥ 1, and N_0 = n_p·W − Σ_j N_j | (C,) integers |

The first cell takes what cannot be read, the persons who are not there, and what rounding leaves. A person, present
or not, so gives whole numbers ≥ 0 to the cells that sum to W: all W to the first one where there are no records.
Replacing all records of one person by those of one person not otherwise present, or of nobody, exchanges one such
row for another: the table moves by 2W in ℓ₁ at most and by √2·W in ℓ₂, however many records either has, and sums to
n_p·W always. More persons than n_p make the first cell negative, and change nothing else: clamped at 0 it would
move no further, but the sum would be n_p·W no more. Every cell is clamped to ±2⁶⁰, so that no table is out of the
mechanism's range. The rows of parts add up by person, so one pass over the parts gives the integers of one table.
"""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Encoded, Preprocessing, Table
from dpbo_core.data.values import Value, positions, shown
from dpbo_core.models.estimators import FittedEstimator, Scorable
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.linear.fit import LinearModel, SoftmaxModel
from dpbo_core.models.scores.kinds import RecordScore, Scores, Verb
from dpbo_core.models.scoring.persons import NAME_BYTES, Persons

Integers = NDArray[np.int64]

OTHER_GROUP = "other"
RECORDS_PER_BLOCK = 16_384  # records that are compared with all edges at once
PERSON_WEIGHT = GRID
MAX_CELL_WEIGHT = 2**60
ENTRY_BYTES = NAME_BYTES + 16  # with the cell and the number


@dataclass(frozen=True)
class Grouping:
    """A column of the table and its public categories, numbers in their order, then texts in theirs."""

    column: str
    categories: tuple[Value, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the groups of records as shown to people, the last for all unlisted values."""
        return *map(shown, self.categories), OTHER_GROUP

    def of(self, table: Table) -> Integers:
        """Return the index of each record's group, (m,); the last for every value that is not listed."""
        places = positions(table.columns[self.column], self.categories)
        return np.where(places < 0, len(self.categories), places)


@dataclass(frozen=True)
class HistogramCells(RecordScore):
    """The assignment of records to cells: a score, so that an estimator's records are counted as if scored."""

    edges: tuple[float, ...]  # between the bins, public and ascending; none if no values are cut

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """The number K of histogram cells of one group, without the one for unreadable records."""

    @property
    def score_range(self) -> float:
        """The number K of histogram cells: the largest score of a record, which is scored by its cell's number."""
        return float(self.n_cells)

    @abstractmethod
    def of(self, outcome: NDArray[Any], truth: NDArray[Any]) -> Scores:
        """Each record's histogram cell, (k,), from the estimator's output and the truth for it; 0 if unreadable."""


def class_bins(values: NDArray[np.float64], labels: NDArray[Any], edges: tuple[float, ...]) -> Integers:
    """Each record's histogram cell by class and bin of its value, (k,): 1 + label·B + bin, or 0 if unreadable.

    A label other than 0 or 1 cannot be read, nor can NaN for a value; a record is above an edge where its value is.
    """
    limits = np.array(edges, dtype=np.float64)
    bins = np.empty(len(values), dtype=np.int64)
    for start in range(0, len(values), RECORDS_PER_BLOCK):
        part = slice(start, start + RECORDS_PER_BLOCK)
        bins[part] = (values[part, None] > limits).sum(axis=1)  # a search's duration would depend on the values
    readable = ((labels == 0) | (labels == 1)) & ~np.isnan(values)
    return np.where(readable, 1 + np.where(labels == 1, len(edges) + 1, 0) + bins, 0)


def kind_cells(model: Scorable, records: Encoded, cells: HistogramCells, *, by_person: bool) -> Integers:
    """Each record's cell in this kind of report under a public model, (m,); 0 if unreadable, and no record raises.

    By person it is a function of that record alone to the last bit, and not of where it stands nor of how many
    others there are, which may differ where a person leaves.
    """
    if isinstance(model, FittedEstimator):
        scores = model.scores_by_content if by_person else model.scores
        numbers = np.rint(scores(records.X, records.truth, cells)).astype(np.int64)
    else:
        numbers = cells.of(_outcome(model, records, cells.needs), records.labels).astype(np.int64)
    return np.where(records.broken | (records.labels < 0), 0, numbers)


def _outcome(model: LinearModel | SoftmaxModel, records: Encoded, verb: Verb) -> NDArray[Any]:
    """What the method `verb` of a linear or softmax model gives for each record, (m,), each row by itself."""
    if isinstance(model, SoftmaxModel):
        if verb != "predict":
            raise TypeError("a softmax model names classes, and has no decision value")
        return model.predicted(records.X)
    margins = model.margins(records.X, np.ones(records.n_records))  # of two classes
    return (margins > 0.0).astype(np.int64) if verb == "predict" else margins


def with_groups(cells: Integers, groups: Integers | None, n_cells: int) -> Integers:
    """Return each record's cell among all groups', (m,), from that within its group; 0 (unreadable) stays."""
    return cells if groups is None else np.where(cells > 0, cells + groups * n_cells, 0)


def needed_columns(fitted: Preprocessing) -> tuple[str, ...]:
    """Return the columns of a table that a model needs: its features in their order, then the target."""
    return *(feature.name for feature in fitted.features), fitted.target


def only_needed(table: Table, fitted: Preprocessing) -> Table:
    """Return the table with only the columns that a model needs: its features and the target."""
    return table.without(set(table.columns) - set(needed_columns(fitted)))


@dataclass(frozen=True, eq=False, repr=False)
class PersonCells:
    """How many records of each person lie in each cell: as sensitive as the records."""

    # (E, 32) bytes of the persons, one row an entry; a person has an entry for each cell with records
    names: NDArray[np.uint8]
    cells: Integers  # (E,)
    numbers: Integers  # (E,) at least 1

    @classmethod
    def of(cls, people: Persons, cells: Integers) -> "PersonCells":
        """Return each person's counts from the cell (m,) of every record; records without a person are left out."""
        counted = people.of_record >= 0
        return cls._added(
            people.names[people.of_record[counted]], cells[counted], np.ones(counted.sum(), dtype=np.int64)
        )

    @classmethod
    def merged(cls, answers: Iterable[bytes | bytearray]) -> "PersonCells":
        """Return each person's counts over several files, from what `to_bytes` made of each file's."""
        table = np.frombuffer(b"".join(answers), dtype=np.uint8).reshape(-1, ENTRY_BYTES)
        numbers = np.ascontiguousarray(table[:, NAME_BYTES:]).view("<i8").astype(np.int64)
        filled = numbers[:, 1] > 0  # an entry that only fills the width counts no record
        return cls._added(table[filled, :NAME_BYTES], numbers[filled, 0], numbers[filled, 1])

    def to_bytes(self) -> bytes:
        """Each person's counts as bytes, padded to a power of two in number so that the length tells little."""
        numbers = np.stack([self.cells, self.numbers], axis=1).astype("<i8")
        raw = np.concatenate([self.names, numbers.view(np.uint8).reshape(-1, 16)], axis=1).tobytes()
        return raw.ljust(ENTRY_BYTES << max(0, len(self.names) - 1).bit_length(), b"\0")

    @property
    def owners(self) -> Integers:
        """The index of each entry's person, (E,), in the order of the persons' names."""
        return np.unique(_sortable_names(self.names), return_inverse=True)[1].astype(np.int64)

    def table(self, size: int, n_persons: int, weight: int = PERSON_WEIGHT) -> Integers:
        """The histogram of `size` cells, each person's `weight` shared among that person's; absent ones in 0."""
        owners = self.owners
        records = np.zeros(int(owners.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(records, owners, self.numbers)
        weights = np.zeros(size, dtype=np.int64)
        np.add.at(weights, self.cells, self.numbers * (weight // records[owners]))
        weights[0] = n_persons * weight - weights[1:].sum()
        return np.clip(weights, -MAX_CELL_WEIGHT, MAX_CELL_WEIGHT)

    @classmethod
    def _added(cls, names: NDArray[np.uint8], cells: Integers, numbers: Integers) -> "PersonCells":
        _, first, owners = np.unique(_sortable_names(names), return_index=True, return_inverse=True)
        pairs, entries = np.unique(np.stack([owners, cells]), axis=1, return_inverse=True)
        sums = np.zeros(pairs.shape[1], dtype=np.int64)
        np.add.at(sums, entries.ravel(), numbers)
        return cls(names[first[pairs[0]]], pairs[1].astype(np.int64), sums)


def _sortable_names(names: NDArray[np.uint8]) -> NDArray[np.void]:
    return np.ascontiguousarray(names).view(np.dtype((np.void, NAME_BYTES))).ravel()
