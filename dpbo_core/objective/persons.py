"""The sensitive half where each person counts once, by the mean of that person's records.

| symbol | name here | meaning | shape |
|---|---|---|---|
| p_i | `people[i]` | the person of record i; None where there is none | (m,) |
| s_i | `record_steps` | record i's score in whole steps of 2⁻²⁴·G | (m,) integers in [0, 2²⁴] |
| (S_p, c_p) | `PersonSums` | sum of the steps of person p's records, and their number | integers |
| n_p | `n_persons` | public, on the caller's word | scalar ≥ 1 |
| a | `absent` | what a person who is absent scores: φ(0) under a margin score, 0 under any other | steps |
| f | `total` | n_p·a + Σ_p (⌊S_p/c_p⌋ − a), clamped to [0, n_p·2²⁴] | integer |

Each mean is a whole number of steps from 0 to 2²⁴, by integers alone, so replacing all records of one person by
those of one person not otherwise present, or of nobody, moves the sum by at most 2²⁴, however many records either
has; the clamp moves no sum further. Under a margin score a person, present or absent, is within [φ(−‖w‖), φ(‖w‖)]
like one record, so what is proved of R holds here too. A record without a readable person is nobody's and adds
nothing. How many records and persons there are is as private as what they hold: neither is compared, shown or a
reason to fail.

(S_p, c_p) of parts add up, so one pass over the parts gives the same integer as one table.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Encoded
from dpbo_core.data.people import Person
from dpbo_core.models.by_content import scores_by_content
from dpbo_core.models.estimators import FittedEstimator
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.scores.grid import GRID, to_grid
from dpbo_core.models.scores.pairs import PairScore
from dpbo_core.models.scores.union import MarginScore
from dpbo_core.models.trainer import Score
from dpbo_core.objective.in_memory import BLOCK, Scorable
from dpbo_core.objective.paired import EQUAL, stretched
from dpbo_core.privacy.sensitive import Opaque, Sensitive

Integers = NDArray[np.int64]
NAME = 32  # bytes of a person's name: a hash, so that every name is as wide
ENTRY = NAME + 16  # with the sum and the count


@dataclass(frozen=True, eq=False, repr=False)
class Persons:
    """Which records are whose.

    Attributes:
        names: (P, 32) bytes, one row a person.
        of_record: (m,) the row of each record's person; −1 for nobody.
    """

    names: NDArray[np.uint8]
    of_record: NDArray[np.intp]

    @classmethod
    def of(cls, people: Sequence[Person]) -> "Persons":
        """From the person of every record."""
        rows: dict[str, int] = {}
        found = [-1 if person is None else rows.setdefault(person, len(rows)) for person in people]
        hashed = b"".join(hashlib.blake2b(_text(person), digest_size=NAME).digest() for person in rows)
        return cls(np.frombuffer(hashed, dtype=np.uint8).reshape(-1, NAME), np.array(found, dtype=np.intp))

    def sums(self, steps: Integers) -> "PersonSums":
        """(S_p, c_p) of every person, from the steps (m,) of every record."""
        counted = self.of_record >= 0
        owners, sums = self.of_record[counted], np.zeros(len(self.names), dtype=np.int64)
        np.add.at(sums, owners, steps[counted])
        counts = np.bincount(owners, minlength=len(self.names)).astype(np.int64)
        return PersonSums(self.names, sums, counts)


@dataclass(frozen=True, eq=False, repr=False)
class PersonSums:
    """(S_p, c_p) of every person with a record: as sensitive as the records.

    Attributes:
        names: (P, 32) bytes.
        sums: (P,) whole steps.
        counts: (P,) at least 1.
    """

    names: NDArray[np.uint8]
    sums: Integers
    counts: Integers

    def total(self, n_persons: int, absent: int = 0) -> int:
        """The sum of the means, each rounded down, and of `absent` for those not there; in [0, n_p·2²⁴].

        Args:
            n_persons: n_p.
            absent: steps that a person without records scores, in [0, 2²⁴].
        """
        found = n_persons * absent + int((self.sums // self.counts - absent).sum())
        return min(max(0, found), n_persons * GRID)

    def to_bytes(self) -> bytes:
        """For the curator's process: entries of one width, as many as the next power of two."""
        numbers = np.stack([self.sums, self.counts], axis=1).astype("<i8")
        raw = np.concatenate([self.names, numbers.view(np.uint8).reshape(-1, 16)], axis=1).tobytes()
        return raw.ljust(ENTRY << max(0, len(self.names) - 1).bit_length(), b"\0")

    @classmethod
    def merged(cls, answers: Iterable[bytes]) -> "PersonSums":
        """What `to_bytes` made of each part, added up by person."""
        table = np.frombuffer(b"".join(answers), dtype=np.uint8).reshape(-1, ENTRY)
        numbers = np.ascontiguousarray(table[:, NAME:]).view("<i8").astype(np.int64)
        filled = numbers[:, 1] > 0  # an entry that only fills the width counts no record
        keys = np.ascontiguousarray(table[filled, :NAME]).view(np.dtype((np.void, NAME))).ravel()
        names, owners = np.unique(keys, return_inverse=True)
        found = np.zeros((len(names), 2), dtype=np.int64)
        np.add.at(found, owners, numbers[filled])
        return cls(names.view(np.uint8).reshape(-1, NAME), found[:, 0], found[:, 1])


class PersonObjective(Opaque):
    """The validation set with its score and its persons, sealed."""

    __slots__ = ("_n_persons", "_persons", "_records", "_score")

    def __init__(
        self, records: Sensitive[Encoded], persons: Sensitive[Persons], score: Score, n_persons: int
    ) -> None:
        self._records, self._persons, self._score, self._n_persons = records, persons, score, n_persons

    @property
    def training(self) -> None:
        """The training records are public."""
        return

    def pairs(self) -> Sensitive[int]:
        """Never asked for: a study whose score counts pairs is refused with n_persons."""
        raise TypeError("persons are averaged, and pairs are of records")

    def evaluate(self, model: Scorable) -> Sensitive[int]:
        """n_p·a + Σ_p (⌊S_p/c_p⌋ − a), clamped, exactly; never raises on account of a record."""
        steps = record_steps(model, self._records.expose(), self._score)
        return Sensitive(self._persons.expose().sums(steps).total(self._n_persons, absent_steps(self._score)))

    def paired(self, model: Scorable, reference: Scorable, clipped: int) -> Sensitive[int]:
        """The same of each record's clipped difference on the whole grid; who is absent differs by nothing."""
        one, other = (record_steps(either, self._records.expose(), self._score) for either in (model, reference))
        found = self._persons.expose().sums(stretched(one, other, clipped))
        return Sensitive(found.total(self._n_persons, EQUAL))


def absent_steps(score: Score) -> int:
    """What a person without records scores, in steps: what a record scores that cannot be read."""
    constant = score.broken_score if isinstance(score, MarginScore) else 0.0
    return int(to_grid([constant], score.score_range, broken_score=0.0)[0])


def record_steps(model: Scorable, records: Encoded, score: Score) -> Integers:
    """Each record's score in whole steps, (m,), over plain records: of a sensitive set, as sensitive as they are.

    Element i is a function of the model and record i alone, to the last bit: not of where it stands, nor of how
    many others there are.
    """
    starts = range(0, records.n_records, BLOCK)
    blocks = [_block_steps(model, records.part(slice(at, at + BLOCK)), score) for at in starts]
    return np.concatenate([np.zeros(0, dtype=np.int64), *blocks])


def _block_steps(model: Scorable, records: Encoded, score: Score) -> Integers:
    if isinstance(model, LinearModel) and isinstance(score, MarginScore):
        scores = score.phi(model.margins(records.X, records.signs))
        return to_grid(scores, score.score_range, broken_score=score.broken_score)
    if isinstance(model, FittedEstimator) and not isinstance(score, MarginScore | PairScore):
        usable = ~records.broken & (records.labels >= 0)
        scores = np.where(usable, scores_by_content(model, records.X, records.truth, score), 0.0)
        return to_grid(scores, score.score_range, broken_score=0.0)
    raise TypeError("a linear model is scored by its margin, and no other model is")


def _text(person: str) -> bytes:
    """The bytes of a name; a text that Python read may hold what is no UTF-8."""
    return person.encode("utf-8", "surrogatepass")
