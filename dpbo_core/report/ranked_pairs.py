"""Two models compared by how they rank pairs of a record of each class: four sums, and how far one unit moves them.

| symbol | name here | meaning | shape |
|---|---|---|---|
| n, w | `n_units`, `weight` | units, and a unit's weight: 1, or what a person's records share | integers |
| R_i | — | Σ over the other units' records of the other class of 2d, d in [−1, 1] | (m,) integers |
| H_u | — | ½Σ w_i R_i over the records of unit u | (n,) in steps of w² |
| 2C, V | `_sums` | ΣH_u, and ⌊ΣH_u²/(cnw²)⌋; c = 1 of records, 2 of persons | integers |
| κwP, κwQ | `_sums` | κ = ⌊n/4⌋; the weights of both classes | integers |
| Δ | `moved_by_a_unit` | 4nw² + 1, for each replaced record, or for one replaced person | integer |

*All four move by Δ at most, in ℓ₁.* Per w² and for C, ΣH²/2cn, κP/2 and κQ/2; doubled, a floor adds 1. Unit u has
M = Σm(u, v) pairs, and |h| ≤ m. Replacing u moves C by s ≤ M + M′, its own square by s(2max(M, M′) − s), and any
other H_v, |H_v| ≤ M_v, by at most m + m′. The sum is largest at s = M + M′. *Records* (c = 1): of the same class,
with Q of the other one, 2Q + 4PQ/2n ≤ 2Q(2 − Q/n) ≤ 2n; of another class, with N = n − 1 others,
N + (1.5N² + N)/2n + κ ≤ 2n. *Persons* (c = 2), with mean shares p, q of both classes, x + y ≤ 1 of one person and
b = E xy, over n: of the same shares at most 2q + bq + E[y²]p ≤ 2 (at a vertex of (x, y); b ≤ p, b + E y² ≤ q);
of other shares 1 + |p − q|/2 + pq + ½ ≤ 2; of a person who leaves 1.5q + q²p + ¼ ≤ 2. Tests enumerate small tables.
Of more persons than n the n with the smallest hashed names count: replacing one replaces at most one that counts.

A record whose class or person cannot be read is in no pair. A value that is not finite is in the lowest cell.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Table
from dpbo_core.data.addresses import Part
from dpbo_core.data.fetched import fetched
from dpbo_core.errors import Sealed
from dpbo_core.models.scoring.partitioned import FILE_NAME_SHOWN, SerialWorkers, Workers, pieces_of
from dpbo_core.privacy.sensitive import attempted
from dpbo_core.report.counting import TableCounter
from dpbo_core.report.difference import classes_factor
from dpbo_core.report.evaluated_model import ComparedModel
from dpbo_core.report.histogram_cells import Integers, PersonCells

N_SUMS = 4
NO_PAIR = 0  # code of a record that is in no pair
LARGEST_SUM, LARGEST_MOVE = 58, 44  # binary digits of n²w² and of nw²


def moved_by_a_unit(n_units: int, weight: int) -> int:
    """Return Δ, how far replacing one unit moves the four sums together, in whole steps."""
    return 4 * n_units * weight**2 + 1


def person_weight(n_persons: int) -> int:
    """Return w of a person: a power of two at which no sum exceeds 64 bits, and noise at a small ε none either."""
    digits = (max(1, n_persons) - 1).bit_length()
    return int(2 ** max(0, min(LARGEST_SUM // 2 - digits, (LARGEST_MOVE - digits) // 2)))


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PairCounter(TableCounter):
    """Sums over the pairs of the records, as two models rank them."""

    challenger: ComparedModel
    champion: ComparedModel
    n_units: int
    weight: int = 1
    of_persons: bool = False

    @property
    def size(self) -> int:
        """The number of sums."""
        return N_SUMS

    def histogram(self, table: Table) -> Integers:
        """Return the four sums of a table in which each record is a unit: as sensitive as the table."""
        return self._of_codes(self.codes(table, by_person=False))

    def persons_table(self, people: PersonCells, n_persons: int) -> Integers:
        """Return the four sums of at most n persons, each of whose weight is shared by that person's records."""
        owners = people.owners
        first = owners < n_persons
        codes, numbers, owners = people.cells[first], people.numbers[first], owners[first]
        records = np.bincount(owners, numbers).astype(np.int64)
        weights = numbers * (self.weight // records[owners])
        return self._sums(codes, weights, owners)

    def of_parts(self, parts: Sequence[Part], n_records: int, workers: Workers | None) -> Integers:
        """Return the four sums of the records of files, refused unless there are `n_records`."""
        workers = workers or SerialWorkers()
        parts = pieces_of(parts, workers)
        answers = [one for one in workers.answers(self.codes_of_part, parts) if one]
        codes = np.frombuffer(b"".join(answers), dtype="<i8").astype(np.int64)
        if len(answers) != len(parts) or len(codes) != n_records:
            raise Sealed
        return self._of_codes(codes)

    def sums(self, sums: Integers, most: int) -> Integers:  # noqa: ARG002  no sum exceeds 64 bits
        """Return the sums as they are."""
        return sums

    def codes(self, table: Table, *, by_person: bool) -> Integers:
        """Return a number for each record, (m,): of its class and its cell under each model; `NO_PAIR` without."""
        models = (self.challenger, self.champion)
        (a, labels), (b, others) = (one.ranks(table, by_person=by_person) for one in models)
        B = self.challenger.n_cells
        read = (labels == others) & ((labels == 0) | (labels == 1))
        return np.where(read, 1 + (labels * B + a) * B + b, NO_PAIR)

    def codes_of_part(self, part: Part) -> bytes:
        """Return the codes of one file's records, eight bytes each; none at all if that failed. Never raises.

        A worker is sent this method with its counter, which contains nothing sensitive.
        """

        def coded() -> bytes:
            table = self.read(fetched(part, display_name=FILE_NAME_SHOWN))
            return self.codes(table, by_person=False).astype("<i8").tobytes()

        return attempted(coded, b"")

    def _of_codes(self, codes: Integers) -> Integers:
        return self._sums(codes, np.ones(len(codes), dtype=np.int64), np.arange(len(codes), dtype=np.int64))

    def _sums(self, codes: Integers, weights: Integers, owners: Integers) -> Integers:
        """Return 2C, V, κwP and κwQ, (4,), of records with these codes, weights and units."""
        read = codes != NO_PAIR
        codes, weights, owners = codes[read] - 1, weights[read], owners[read]
        B, n, w = self.challenger.n_cells, self.n_units, self.weight
        second, models = codes // B**2 == 1, (codes // B % B, codes % B)
        R = np.zeros(len(codes), dtype=np.int64)
        for these, sign in ((second, 1), (~second, -1)):  # one is ranked above by those that it is not above
            for cells, part in zip(models, (sign, -sign), strict=True):
                R[these] += part * self._above(cells, owners, weights, these, B)
        twice_H = np.zeros(int(owners.max(initial=-1)) + 1, dtype=np.int64)
        np.add.at(twice_H, owners, weights * R)
        V = sum(one * one for one in twice_H.tolist()) // (4 * (2 if self.of_persons else 1) * n * w * w)
        classes = [classes_factor(n) * w * int(weights[these].sum()) for these in (second, ~second)]
        return np.array([int((weights * R)[second].sum()), V, *classes], dtype=np.int64)

    def _above(
        self, cells: Integers, owners: Integers, weights: Integers, these: NDArray[np.bool_], n_cells: int
    ) -> Integers:
        """Return twice the weight of other units' records of the other class below each of `these`, ties once."""
        others, their = cells[~these], weights[~these]
        above = _ranked(cells[these], others, their)
        if not self.of_persons:
            return above
        starts, keys = owners * n_cells, owners * n_cells + cells
        own = _ranked(keys[these], keys[~these], their) - _ranked(starts[these], keys[~these], their, ties=False)
        return above - own


def _ranked(keys: Integers, others: Integers, weights: Integers, *, ties: bool = True) -> Integers:
    """Return twice the weight of the `others` below each key, and once that of its equals if `ties`."""
    order = np.argsort(others, kind="stable")
    below = np.concatenate([[0], np.cumsum(weights[order])])
    left = np.searchsorted(others[order], keys, side="left")
    right = np.searchsorted(others[order], keys, side="right") if ties else left
    ranks: Integers = below[left] + below[right]
    return ranks
