"""Persons' means over a folder of Parquet files: one pass, in which a person's records may lie in any parts.

| symbol | name here | meaning | shape |
|---|---|---|---|
| V = V_1 ∪ … ∪ V_p | `parts` | the files of the folder | p files |
| (S_p, c_p) | `PersonSums` | sum of the steps of person p's records in one part, and their number | integers |

A worker is inside the curator's boundary: it reads its own parts and answers to the curator's process alone, where
the persons' sums add up and are sealed at once. No process outside that boundary sees a person's sum. The width of
an answer follows the number of persons in the part, to the next power of two, and nothing else.
"""

from collections.abc import Sequence
from pathlib import Path

from dpbo_core import data
from dpbo_core.data import Preprocessing
from dpbo_core.data.people import read_people
from dpbo_core.errors import Sealed
from dpbo_core.models.trainer import Score
from dpbo_core.objective.in_memory import Scorable
from dpbo_core.objective.paired import EQUAL, stretched
from dpbo_core.objective.partitioned import OneByOne, Workers
from dpbo_core.objective.persons import Persons, PersonSums, absent_steps, record_steps
from dpbo_core.privacy.sealing import attempted
from dpbo_core.privacy.sensitive import Opaque, Sensitive

_SHOWN_AS = "a validation file"


class PersonPartWorker:
    """What a worker is sent: the public map, the public model or two, the score, and the column of persons."""

    def __init__(
        self,
        preprocessing: Preprocessing,
        column: str,
        score: Score,
        model: Scorable,
        paired_with: tuple[Scorable, int] | None = None,
    ) -> None:
        self.preprocessing, self.column, self.score, self.model = preprocessing, column, score, model
        self.paired_with = paired_with

    def __call__(self, part: Path) -> bytes:
        """The persons' sums of one file; nothing at all where it failed. Never raises."""

        def scored() -> bytes:
            table = data.read_table(part, sensitive=True, shown_as=_SHOWN_AS)
            people = Persons.of(read_people(part, self.column, shown_as=_SHOWN_AS))
            records = self.preprocessing.transform(table)
            steps = record_steps(self.model, records, self.score)
            if self.paired_with is not None:
                reference, clipped = self.paired_with
                steps = stretched(steps, record_steps(reference, records, self.score), clipped)
            return people.sums(steps).to_bytes()

        return attempted(scored, b"")  # the curator's process says that something failed, and nothing else


class PartitionedPersons(Opaque):
    """The sensitive half, on disk. Its parts are opened while a model is scored, and at no other time."""

    __slots__ = ("_column", "_n_persons", "_parts", "_preprocessing", "_score", "_workers")

    def __init__(
        self,
        parts: Sequence[Path],
        preprocessing: Preprocessing,
        column: str,
        score: Score,
        n_persons: int,
        workers: Workers | None = None,
    ) -> None:
        self._parts, self._preprocessing, self._column, self._score = tuple(parts), preprocessing, column, score
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
        work = PersonPartWorker(self._preprocessing, self._column, self._score, model)
        return self._total(work, absent_steps(self._score))

    def paired(self, model: Scorable, reference: Scorable, clipped: int) -> Sensitive[int]:
        """The same of each record's clipped difference on the whole grid.

        Raises:
            Sealed: a part could not be scored.
        """
        work = PersonPartWorker(self._preprocessing, self._column, self._score, model, (reference, clipped))
        return self._total(work, EQUAL)

    def _total(self, work: PersonPartWorker, absent: int) -> Sensitive[int]:
        answers = [answer for answer in self._workers.answers(work, self._parts) if answer]
        if len(answers) != len(self._parts):
            raise Sealed
        return Sensitive(PersonSums.merged(answers).total(self._n_persons, absent))
