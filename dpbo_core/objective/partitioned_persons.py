"""Persons' means over a folder of Parquet files: one pass, in which a person's records may lie in any parts.

| symbol | name here | meaning | shape |
|---|---|---|---|
| V = V_1 ∪ … ∪ V_p | `parts` | the files of the folder | p files |
| (S_p, c_p) | `PersonSums` | sums of the steps of p's records in a part, one a model, and their number | integers |

A worker is inside the curator's boundary: it reads its own parts and answers to the curator's process alone, where
the persons' sums add up and are sealed at once. No process outside that boundary sees a person's sum. The width of
an answer follows the number of persons in the part, to the next power of two, and nothing else.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpbo_core.data import Encoded, Preprocessing
from dpbo_core.data.addresses import Part
from dpbo_core.data.fetched import Contents
from dpbo_core.data.people import read_people
from dpbo_core.errors import Sealed
from dpbo_core.models.scores.union import Score
from dpbo_core.objective.in_memory import Paired, Scorable, Together
from dpbo_core.objective.kept_parts import KeptParts
from dpbo_core.objective.partitioned import KEPT_AT_MOST, SHOWN_AS, OneByOne, PartReader, Workers, bytes_of
from dpbo_core.objective.persons import NAME, Persons, PersonSums, means_of, n_columns, person_steps
from dpbo_core.privacy.sealing import attempted
from dpbo_core.privacy.sensitive import Opaque, Sensitive

Read = tuple[Encoded, Persons]


class PersonPartWorker:
    """What a worker is sent: the public map, the public models, the score, and the column of persons."""

    def __init__(
        self,
        reader: PartReader,
        column: str,
        score: Score,
        models: Sequence[Scorable],
        paired_with: Paired | None = None,
    ) -> None:
        self.reader, self.column, self.score, self.models = reader, column, score, tuple(models)
        self.paired_with = paired_with
        self._memory: tuple[KeptParts[Any] | None, int] = (None, 1)

    def keeping(self, kept: KeptParts[Any], n_processes: int) -> "PersonPartWorker":
        """The same work, in a process that keeps what it reads."""
        made = PersonPartWorker(self.reader, self.column, self.score, self.models, self.paired_with)
        made._memory = (kept, n_processes)
        return made

    def __call__(self, part: Part) -> bytes:
        """The persons' sums of one file; nothing at all where it failed. Never raises."""

        def scored() -> bytes:
            read: Read = self.reader.read(part, *self._memory, make=self._read, size=_size)
            records, people = read
            steps = person_steps(self.models, records, self.score, self.paired_with)
            return people.sums(steps, n_columns(self.models, self.paired_with)).to_bytes()

        return attempted(scored, b"")  # the curator's process says that something failed, and nothing else

    def _read(self, part: Contents) -> Read:
        return self.reader.encoded(part), Persons.of(read_people(part, self.column, shown_as=SHOWN_AS))


def _size(read: Read) -> int:
    """Bytes of so many records, whosever they are."""
    return bytes_of(read[0]) + read[0].n_records * (NAME + 8)


class PartitionedPersons(Opaque):
    """The sensitive half, on disk. Its parts are opened while models are scored, and at no other time."""

    __slots__ = ("_column", "_n_persons", "_parts", "_reader", "_score", "_workers")
    reads_files = True

    def __init__(
        self,
        parts: Sequence[Part],
        preprocessing: Preprocessing,
        column: str,
        score: Score,
        n_persons: int,
        workers: Workers | None = None,
        limit: float = KEPT_AT_MOST,
    ) -> None:
        self._parts, self._reader = tuple(parts), PartReader(preprocessing, int(limit * 1e9))
        self._column, self._score = column, score
        self._n_persons, self._workers = n_persons, workers or OneByOne()

    @property
    def training(self) -> None:
        """The training records are public."""
        return

    def pairs(self) -> Sensitive[int]:
        """Never asked for: a study whose score counts pairs is refused with n_persons."""
        raise TypeError("persons are averaged, and pairs are of records")

    def evaluate(self, model: Scorable) -> Sensitive[int]:
        """n_p·a + Σ_p (⌊S_p/c_p⌋ − a) over all parts, clamped, exactly.

        Raises:
            Sealed: a part could not be scored.
        """
        return self.evaluate_all((model,), again=True).sums[0]

    def paired(self, model: Scorable, reference: Scorable, clipped: int) -> Sensitive[int]:
        """The same of each record's clipped difference on the whole grid.

        Raises:
            Sealed: a part could not be scored.
        """
        return self.evaluate_all((model,), (reference, clipped), again=True).differences[0]

    def evaluate_all(
        self, models: Sequence[Scorable], paired_with: Paired | None = None, *, again: bool = False
    ) -> Together:
        """Both of many models, each part read once.

        Raises:
            Sealed: a part could not be scored.
        """
        reader = self._reader if again else replace(self._reader, limit=0)
        work = PersonPartWorker(reader, self._column, self._score, models, paired_with)
        answers = [answer for answer in self._workers.answers(work, self._parts) if answer]
        if len(answers) != len(self._parts):
            raise Sealed
        found = PersonSums.merged(answers, n_columns(models, paired_with))
        return means_of(found, len(models), self._n_persons, self._score)
