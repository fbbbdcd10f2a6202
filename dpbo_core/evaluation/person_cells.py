"""The histogram where each person counts once, however many records that person has.

| symbol | name here | meaning | shape |
|---|---|---|---|
| W | `WEIGHT` | of one person, 2²⁴ | integer |
| c_p | — | records of person p, those that cannot be read among them | integer ≥ 1 |
| (p, j, n_pj) | `PersonCells` | person p's records in cell j, and their number | integers |
| n_p | `n_persons` | public, on the caller's word | scalar ≥ 1 |
| N_j | `table` | Σ_p n_pj·⌊W/c_p⌋ for j ≥ 1, and N_0 = n_p·W − Σ_j N_j | (C,) integers |

The first cell takes what cannot be read, the persons who are not there, and what rounding leaves. A person, present
or not, so gives whole numbers ≥ 0 to the cells that sum to W: all W to the first one where there are no records.
Replacing all records of one person by those of one person not otherwise present, or of nobody, exchanges one such
row for another: the table moves by 2W in ℓ₁ at most and by √2·W in ℓ₂, however many records either has, and sums to
n_p·W always. More persons than n_p make the first cell negative, and change nothing else: clamped at 0 it would
move no further, but the sum would be n_p·W no more. Every cell is clamped to ±2⁶⁰, so that no table is out of the
mechanism's range.

The rows of parts add up by person, so one pass over the parts gives the same integers as one table.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.models.scores.grid import GRID
from dpbo_core.objective.persons import NAME, Persons

Integers = NDArray[np.int64]
WEIGHT = GRID
MOST = 2**60
ENTRY = NAME + 16  # with the cell and the number


@dataclass(frozen=True, eq=False, repr=False)
class PersonCells:
    """How many records of each person lie in each cell: as sensitive as the records.

    Attributes:
        names: (E, 32) bytes of the persons, one row an entry; a person has an entry for each cell with records.
        cells: (E,).
        numbers: (E,) at least 1.
    """

    names: NDArray[np.uint8]
    cells: Integers
    numbers: Integers

    @classmethod
    def of(cls, people: Persons, cells: Integers) -> "PersonCells":
        """From the cell (m,) of every record; records of nobody are left out."""
        counted = people.of_record >= 0
        return cls._added(
            people.names[people.of_record[counted]], cells[counted], np.ones(counted.sum(), dtype=np.int64)
        )

    @classmethod
    def merged(cls, answers: Iterable[bytes]) -> "PersonCells":
        """What `to_bytes` made of each part, added up by person and cell."""
        table = np.frombuffer(b"".join(answers), dtype=np.uint8).reshape(-1, ENTRY)
        numbers = np.ascontiguousarray(table[:, NAME:]).view("<i8").astype(np.int64)
        filled = numbers[:, 1] > 0  # an entry that only fills the width counts no record
        return cls._added(table[filled, :NAME], numbers[filled, 0], numbers[filled, 1])

    def to_bytes(self) -> bytes:
        """For the curator's process: entries of one width, as many as the next power of two."""
        numbers = np.stack([self.cells, self.numbers], axis=1).astype("<i8")
        raw = np.concatenate([self.names, numbers.view(np.uint8).reshape(-1, 16)], axis=1).tobytes()
        return raw.ljust(ENTRY << max(0, len(self.names) - 1).bit_length(), b"\0")

    def table(self, size: int, n_persons: int, weight: int = WEIGHT) -> Integers:
        """N, (size,), exactly.

        Args:
            size: C, cells.
            n_persons: n_p.
            weight: W.
        """
        _, owners = np.unique(_keys(self.names), return_inverse=True)
        records = np.zeros(int(owners.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(records, owners, self.numbers)
        found = np.zeros(size, dtype=np.int64)
        np.add.at(found, self.cells, self.numbers * (weight // records[owners]))
        found[0] = n_persons * weight - found[1:].sum()
        return np.clip(found, -MOST, MOST)

    @classmethod
    def _added(cls, names: NDArray[np.uint8], cells: Integers, numbers: Integers) -> "PersonCells":
        """One entry for each person and cell that has records."""
        _, first, owners = np.unique(_keys(names), return_index=True, return_inverse=True)
        pairs, entries = np.unique(np.stack([owners, cells]), axis=1, return_inverse=True)
        found = np.zeros(pairs.shape[1], dtype=np.int64)
        np.add.at(found, entries.ravel(), numbers)
        return cls(names[first[pairs[0]]], pairs[1].astype(np.int64), found)


def _keys(names: NDArray[np.uint8]) -> NDArray[np.void]:
    return np.ascontiguousarray(names).view(np.dtype((np.void, NAME))).ravel()
