"""The sensitive half where each person counts once, by the mean of that person's records.

| symbol | name here | meaning | shape |
|---|---|---|---|
| p_i | `people[i]` | the person of record i; None if there is none | (m,) |
| s_i | `person_steps` | record i's score in whole steps of 2⁻²⁴·G | (m,) integers in [0, 2²⁴] |
| (S_p, c_p) | `PersonSums` | sums of the steps of person p's records, one a model, and their number | integers |
| n_p | `n_persons` | public, as the caller states | scalar ≥ 1 |
| a | `absent` | what a person who is absent scores: φ(0) under a margin score, 0 under any other | steps |
| f | `total` | n_p·a + Σ_p (⌊S_p/c_p⌋ − a), clamped to [0, n_p·2²⁴] | integer |

Each mean is a whole number of steps from 0 to 2²⁴, by integers alone, so replacing all records of one person by
those of one person not otherwise present, or of nobody, moves the sum by at most 2²⁴, however many records either
has; the clamp moves no sum further. Under a margin score a person, present or absent, is within [φ(−‖w‖), φ(‖w‖)]
like one record, so what is proved of R holds here too. A record without a readable person is nobody's and adds
nothing. How many records and persons there are is as private as what they hold: neither is compared, shown or a
reason to fail.

(S_p, c_p) of parts add up, so one pass over a folder of Parquet files gives the same integer as one table, wherever
a person's records lie. A worker is inside the curator's boundary: it reads its own parts and answers to the
curator's process alone, where the persons' sums add up and are sealed at once. No process outside that boundary
sees a person's sum. The width of an answer follows the number of persons in the part, to the next power of two, and
nothing else.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpbo_core.data import Encoded
from dpbo_core.data.addresses import Part
from dpbo_core.data.fetched import Contents
from dpbo_core.data.people import Person, read_people
from dpbo_core.errors import Sealed
from dpbo_core.models.integer_sums import EQUAL_SCORE, GRID, stretched, to_grid
from dpbo_core.models.scores.union import MarginScore, Score
from dpbo_core.models.scoring.in_memory import ROWS_PER_BLOCK, Half, Paired, ScorableModel, Totals
from dpbo_core.models.scoring.partitioned import (
    FILE_NAME_SHOWN,
    PartReader,
    PartTask,
    SerialWorkers,
    Workers,
    memory_bytes,
    pieces_of,
)
from dpbo_core.privacy.sensitive import Sensitive, attempted

Integers = NDArray[np.int64]
NAME_BYTES = 32  # bytes of a person's name: a hash, so that every name is as wide
NUMBER_BYTES = 8  # bytes of a sum, or of a count
N_EXPECTED_PERSONS = 2**18  # persons for whom room is made at once, before there are more
MIN_MODELS_PER_READING = 16  # models of a reading, whatever the limit of memory


@dataclass(frozen=True, eq=False, repr=False)
class Persons:
    """Which records are whose."""

    names: NDArray[np.uint8]  # (P, 32) bytes, one row a person
    of_record: NDArray[np.intp]  # (m,) the row of each record's person; −1 for nobody

    @classmethod
    def of(cls, people: Sequence[Person]) -> "Persons":
        """Return the distinct persons, by hashed names, and the index of each record's; −1 is nobody's."""
        rows: dict[str, int] = {}
        owners = [-1 if person is None else rows.setdefault(person, len(rows)) for person in people]
        texts = (person.encode("utf-8", "surrogatepass") for person in rows)  # what Python read may be no UTF-8
        hashed = b"".join(hashlib.blake2b(text, digest_size=NAME_BYTES).digest() for text in texts)
        return cls(np.frombuffer(hashed, dtype=np.uint8).reshape(-1, NAME_BYTES), np.array(owners, dtype=np.intp))

    def sums(self, steps: Iterable[Integers], n_models: int) -> "PersonSums":
        """Return each person's sum of scores and number of records (S_p, c_p), from blocks of records' scores."""
        # one row a model, since adding into a contiguous row is faster; transposed at the end
        sums, at = np.zeros((n_models, len(self.names)), dtype=np.int64), 0
        for block in steps:
            owners = self.of_record[at : at + len(block)]
            at += len(block)
            for total, scored in zip(sums, block[owners >= 0].T, strict=True):
                np.add.at(total, owners[owners >= 0], scored)
        counted = self.of_record[self.of_record >= 0]
        counts = np.bincount(counted, minlength=len(self.names)).astype(np.int64)
        return PersonSums(self.names, sums.T, counts)


@dataclass(frozen=True, eq=False, repr=False)
class PersonSums:
    """(S_p, c_p) of every person with a record: as sensitive as the records."""

    names: NDArray[np.uint8]  # (P, 32) bytes
    sums: Integers  # (P, L) whole steps, one column a model
    counts: Integers  # (P,) at least 1

    def totals(self, n_persons: int, absent: int = 0) -> list[int]:
        """Return, for each model, n_p·a + Σ_p (⌊S_p/c_p⌋ − a), clamped to [0, n_p·2²⁴], a = `absent` steps.

        It is the sum of the persons' mean scores, each rounded down to whole steps, if all n_p have records.
        """
        moves = np.zeros(self.sums.shape[1], dtype=np.int64)
        for at in range(0, len(self.counts), ROWS_PER_BLOCK):
            block = slice(at, at + ROWS_PER_BLOCK)
            moves += (self.sums[block] // self.counts[block, None] - absent).sum(axis=0)
        return [min(max(0, n_persons * absent + moved), n_persons * GRID) for moved in moves.tolist()]

    def to_bytes(self) -> bytearray:
        """Return the persons' sums as bytes, padded to a power of two in number so that the length tells little."""
        P, L = self.sums.shape
        answer = bytearray((1 << max(0, P - 1).bit_length()) * _entry(L).itemsize)
        table = np.frombuffer(answer, dtype=_entry(L))
        table["name"][:P] = self.names.view(f"S{NAME_BYTES}").ravel()
        table["numbers"][:P, :L], table["numbers"][:P, L] = self.sums, self.counts
        return answer


def _entry(n_models: int) -> np.dtype[np.void]:
    """Return the NumPy type of one person in an answer: name, sums, and number of records (0 in padding)."""
    return np.dtype([("name", f"S{NAME_BYTES}"), ("numbers", "<i8", (n_models + 1,))])


class AddedAnswers:
    """The sum, person by person, of the parts' `PersonSums`, added as their bytes come; one part at a time."""

    def __init__(self, n_models: int, n_persons: int) -> None:
        self._rows: dict[bytes, int] = {}
        self._numbers = np.zeros((min(n_persons, N_EXPECTED_PERSONS), n_models + 1), dtype=np.int64)

    def add(self, answer: bytes | bytearray) -> None:
        """Add the persons' sums in the answer for one file, which names each person once and ends with padding."""
        table = np.frombuffer(answer, dtype=_entry(self._numbers.shape[1] - 1))
        table = table[: np.count_nonzero(table["numbers"][:, -1])]
        rows = [self._rows.setdefault(name, len(self._rows)) for name in table["name"].tolist()]
        if len(self._rows) > len(self._numbers):
            larger = np.zeros((len(self._rows) * 3 // 2, self._numbers.shape[1]), dtype=np.int64)
            larger[: len(self._numbers)] = self._numbers
            self._numbers = larger
        for at in range(0, len(rows), ROWS_PER_BLOCK):
            self._numbers[rows[at : at + ROWS_PER_BLOCK]] += table["numbers"][at : at + ROWS_PER_BLOCK]

    def sums(self) -> PersonSums:
        """Return each person's sums over the answers added so far, in the order in which persons came."""
        numbers = self._numbers[: len(self._rows)]
        names = np.array([*self._rows], dtype=f"S{NAME_BYTES}").view(np.uint8).reshape(-1, NAME_BYTES)
        return PersonSums(names, numbers[:, :-1], numbers[:, -1])


class PersonObjective(Half):
    """The validation set with its score and its persons, sealed: n_p·a + Σ_p (⌊S_p/c_p⌋ − a), clamped."""

    __slots__ = ("_n_persons", "_persons", "_records", "_score")

    def __init__(
        self, records: Sensitive[Encoded], persons: Sensitive[Persons], score: Score, n_persons: int
    ) -> None:
        self._records, self._persons, self._score, self._n_persons = records, persons, score, n_persons

    def totals(self, models: Sequence[ScorableModel], paired_with: Paired | None, *, models_left: int) -> Totals:  # noqa: ARG002
        """Return each model's sum of persons' mean scores, unsealed, and of differences, or [] if not paired."""
        steps = person_steps(models, self._records.expose(), self._score, paired_with)
        sums = self._persons.expose().sums(steps, n_columns(models, paired_with))
        return means_of(sums, len(models), self._n_persons, self._score)


def n_columns(models: Sequence[ScorableModel], paired_with: Paired | None) -> int:
    """Return how many sums there are for each person: one a model, and one a paired difference."""
    return len(models) * (1 if paired_with is None else 2)


def means_of(persons: PersonSums, n_models: int, n_persons: int, score: Score) -> Totals:
    """Return each model's sum over persons of mean scores, and of mean paired differences, in steps."""
    sums, differences = persons.sums[:, :n_models], persons.sums[:, n_models:]
    return (
        PersonSums(persons.names, sums, persons.counts).totals(n_persons, absent_steps(score)),
        PersonSums(persons.names, differences, persons.counts).totals(n_persons, EQUAL_SCORE),
    )


def absent_steps(score: Score) -> int:
    """Return the score, in steps of the integer grid, of a person without records: that of an unreadable record."""
    constant = score.broken_score if isinstance(score, MarginScore) else 0.0
    return int(to_grid([constant], score.score_range, broken_score=0.0)[0])


def person_steps(
    models: Sequence[ScorableModel], records: Encoded, score: Score, paired_with: Paired | None = None
) -> Iterator[Integers]:
    """Yield blocks of records' integer scores, a column a model, then one for each one's clipped differences.

    A score is a function of the model and its record alone, to the last bit, whatever the record's position and the
    number of others.
    """
    for at in range(0, records.n_records, ROWS_PER_BLOCK):
        part = records.part(slice(at, at + ROWS_PER_BLOCK))
        steps = [model.order_independent_steps(part, score) for model in models]
        if paired_with is not None:
            reference = paired_with[0].order_independent_steps(part, score)
            steps += [stretched(one, reference, paired_with[1]) for one in steps]
        yield np.stack(steps, axis=1)


Read = tuple[Encoded, Persons]


class PersonPartWorker(PartTask):
    """What a worker is sent, with the column of persons; as `PartWorker` has it, nothing sensitive."""

    def __init__(
        self,
        reader: PartReader,
        column: str,
        score: Score,
        models: Sequence[ScorableModel],
        paired_with: Paired | None = None,
    ) -> None:
        super().__init__(reader, score, models, paired_with)
        self.column = column

    def __call__(self, part: Part) -> bytes | bytearray:
        """Return the persons' sums of one file; nothing at all where it failed. Never raises."""

        def scored() -> bytes | bytearray:
            read: Iterable[Read] = self.reader.read(
                part,
                *self._memory,
                make=self._records_and_persons,
                size=lambda it: memory_bytes(it[0]) + it[0].n_records * (NAME_BYTES + 8),
            )
            ((records, people),) = read
            steps = person_steps(self.models, records, self.score, self.paired_with)
            return people.sums(steps, n_columns(self.models, self.paired_with)).to_bytes()

        return attempted(scored, b"")  # the curator's process says that something failed, and nothing else

    def _records_and_persons(self, part: Contents) -> tuple[Read]:
        return (
            (self.reader.encoded(part), Persons.of(read_people(part, self.column, display_name=FILE_NAME_SHOWN))),
        )


class PartitionedPersons(Half):
    """The sensitive half, on disk. Its parts are opened while models are scored, and at no other time."""

    __slots__ = ("_column", "_n_persons", "_parts", "_reader", "_score", "_workers")
    reads_files = True

    def __init__(
        self,
        parts: Sequence[Part],
        reader: PartReader,
        column: str,
        score: Score,
        n_persons: int,
        workers: Workers | None = None,
    ) -> None:
        self._reader, self._column, self._score = reader, column, score
        self._n_persons, self._workers = n_persons, workers or SerialWorkers()
        self._parts = pieces_of(parts, self._workers)

    def totals(self, models: Sequence[ScorableModel], paired_with: Paired | None, *, models_left: int) -> Totals:
        """Return each model's sum of persons' means over all files, unsealed, and of differences, or []."""
        # as many models in one reading of the files as leave room for a sum of each person under each model
        at_once = max(
            MIN_MODELS_PER_READING,
            self._reader.limit // (NUMBER_BYTES * self._n_persons * n_columns((models[0],), paired_with)),
        )
        sums, differences = [], []
        for at in range(0, len(models), at_once):
            some = models[at : at + at_once]
            left = models_left + len(models) - at - len(some)
            totals = means_of(self._added(some, paired_with, left), len(some), self._n_persons, self._score)
            sums += totals[0]
            differences += totals[1]
        return sums, differences

    def _added(self, models: Sequence[ScorableModel], paired_with: Paired | None, models_left: int) -> PersonSums:
        reader = self._reader if models_left else self._reader.without_cache()
        work = PersonPartWorker(reader, self._column, self._score, models, paired_with)
        added, n_parts = AddedAnswers(n_columns(models, paired_with), self._n_persons), 0
        for answer in self._workers.answers(work, self._parts):
            if answer:
                added.add(answer)
                n_parts += 1
            del answer  # before the next one takes as much
        if n_parts != len(self._parts):
            raise Sealed
        return added.sums()
