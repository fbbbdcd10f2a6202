"""A validation set larger than memory: a folder of Parquet files, scored one at a time, here or by workers.

| symbol | name here | meaning | shape |
|---|---|---|---|
| V = V_1 ∪ … ∪ V_p | `parts` | the files of the folder, sorted by name | p files |
| S_j | `score_part(part, …)` | exact integer sum of the scores of V_j | integer |
| S | `evaluate(model)` | Σ S_j, the same integer as if V were one table | integer |
| h_j | `score_part(part, …)` | of pairs: records of V_j by class and cell; C₂ is formed of Σ h_j | (2, B) |

Each record's score is rounded to the grid before it is summed, and a record's encoding depends on that record
alone, so the total is the single table's to the last bit, in whatever order the parts come. A worker is inside the
curator's boundary: it reads its own files and answers with integers, whose number is public, and a count, to the
curator's process alone.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from dpbo_core import data
from dpbo_core.data import Preprocessing
from dpbo_core.data.addresses import Place
from dpbo_core.errors import Sealed
from dpbo_core.models.scores.pairs import Integers, PairScore, pairs_of
from dpbo_core.models.trainer import Score
from dpbo_core.objective.in_memory import Scorable, paired_sum, part_of
from dpbo_core.privacy.sealing import attempted
from dpbo_core.privacy.sensitive import Opaque, Sensitive

Answer = tuple[int | Integers, int]  # what a part adds, and its number of records
PartAnswer = Callable[[Path], bytes]


class PartWork(Protocol):
    """What is done with each part."""

    @property
    def n_numbers(self) -> int:
        """How many numbers its answer adds, public: an answer is as wide whatever is in it."""
        ...

    def __call__(self, part: Path) -> Answer | None:
        """The answer; None where the part failed."""
        ...


class Workers(Protocol):
    """Who scores partitions. Anything that maps a function over paths, inside the curator's boundary."""

    def map(self, work: PartWork, parts: Sequence[Path]) -> list[Answer | None]:
        """`work` on every part, in any order; a part that was lost is None."""
        ...

    def answers(self, work: PartAnswer, parts: Sequence[Path]) -> list[bytes | None]:
        """The same of work that answers in bytes, which are sent as they are."""
        ...


class OneByOne:
    """This process: one partition in memory at a time."""

    def map(self, work: PartWork, parts: Sequence[Path]) -> list[Answer | None]:
        """Apply a function to every part, one after the other, in order."""
        return [work(part) for part in parts]

    def answers(self, work: PartAnswer, parts: Sequence[Path]) -> list[bytes | None]:
        """The same of work that answers in bytes."""
        return [work(part) for part in parts]


def parts_of(path: Place) -> tuple[Path, ...]:
    """The Parquet files of a folder, by name; empty for anything else."""
    if not isinstance(path, Path):
        return ()
    try:
        return tuple(sorted(path.glob("*.parquet"))) if path.is_dir() else ()
    except OSError:  # no name a file could have: whoever opens it says so
        return ()


class PartWorker:
    """What a worker is sent: the public map, the public model (or two, paired) and the score. Nothing sensitive."""

    def __init__(
        self,
        preprocessing: Preprocessing,
        score: Score,
        model: Scorable | None,
        paired_with: tuple[Scorable, int] | None = None,
    ) -> None:
        self.preprocessing, self.score, self.model, self.paired_with = preprocessing, score, model, paired_with

    @property
    def n_numbers(self) -> int:
        """One for a sum, 2B for a table of pairs, 2 for the records of each class."""
        if self.model is None:
            return 2
        return 2 * self.score.n_cells if isinstance(self.score, PairScore) else 1

    def __call__(self, part: Path) -> Answer | None:
        """What one file adds, and its records. Never raises: an error here would be written to a worker's log."""

        def scored() -> Answer:
            table = data.read_table(part, sensitive=True, shown_as="a validation file")
            records = self.preprocessing.transform(table)
            if self.model is None or self.paired_with is None:
                return part_of(records, self.score, self.model), table.n_records
            return paired_sum(self.model, *self.paired_with, records, self.score), table.n_records

        return attempted(scored, None)  # the curator's process says that something failed, and nothing else


class PartitionedObjective(Opaque):
    """The sensitive half, on disk. Its parts are opened while a model is scored, and at no other time."""

    __slots__ = ("_n_records", "_parts", "_preprocessing", "_score", "_workers")

    def __init__(
        self,
        parts: Sequence[Path],
        preprocessing: Preprocessing,
        score: Score,
        n_records: int,
        workers: Workers | None = None,
    ) -> None:
        self._parts, self._preprocessing, self._score = tuple(parts), preprocessing, score
        self._n_records, self._workers = n_records, workers or OneByOne()

    @property
    def training(self) -> None:
        """The training records are public."""
        return

    def evaluate(self, model: Scorable) -> Sensitive[int]:
        """The exact integer sum, or count of pairs, over all parts.

        Raises:
            Sealed: a part could not be scored, or the parts no longer hold m records.
        """
        added = self._added(PartWorker(self._preprocessing, self._score, model))
        return Sensitive(pairs_of(added.reshape(2, -1))[0] if isinstance(added, np.ndarray) else added)

    def pairs(self) -> Sensitive[int]:
        """2PQ, from the labels of all parts.

        Raises:
            Sealed: as `evaluate`.
        """
        added = self._added(PartWorker(self._preprocessing, self._score, None))
        return Sensitive(pairs_of(np.asarray(added).reshape(2, -1))[1])

    def paired(self, model: Scorable, reference: Scorable, clipped: int) -> Sensitive[int]:
        """The exact integer sum of the clipped differences over all parts; of record scores alone.

        Raises:
            Sealed: a part could not be scored, or the parts no longer hold m records.
        """
        work = PartWorker(self._preprocessing, self._score, model, (reference, clipped))
        return Sensitive(int(self._added(work)))

    def _added(self, work: PartWorker) -> int | Integers:
        found = self._workers.map(work, self._parts)
        answers = [answer for answer in found if answer is not None]
        if len(answers) != len(self._parts) or sum(n for _, n in answers) != self._n_records:
            raise Sealed
        return sum(total for total, _ in answers)
