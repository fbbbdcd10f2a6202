"""A validation set larger than memory: a folder of Parquet files, scored one at a time, here or by workers.

| symbol | name here | meaning | shape |
|---|---|---|---|
| V = V_1 ∪ … ∪ V_p | `parts` | the files of the folder, sorted by name | p files |
| L | `models` | models that score a part each time it is read | scalar ≥ 1 |
| S_j | `PartWorker(part)` | exact integer sums of the scores of V_j | (L,) integers |
| S | `evaluate_all(models)` | Σ S_j, the same integers as if V were one table | (L,) integers |
| h_j | `PartWorker(part)` | of pairs: records of V_j by class and cell; C₂ is formed of Σ h_j | (L, 2, B) |

Each record's score is rounded to the grid before it is summed, and a record's encoding depends on that record
alone, so the total is the single table's to the last bit, in whatever order the parts come. A worker is inside the
curator's boundary: it reads its own files and answers with integers, whose number is public, and a count, to the
curator's process alone. What it read it may keep, while that fits (`PartCache`).
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from dpbo_core import data
from dpbo_core.data import Encoded, Preprocessing
from dpbo_core.data.addresses import ObjectAddress, Part
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.errors import Sealed
from dpbo_core.models.scores.kinds import Integers, PairScore, pairs_of
from dpbo_core.models.scores.union import Score
from dpbo_core.models.scoring.in_memory import (
    ROWS_PER_BLOCK,
    SINGLE_MODEL,
    Half,
    Paired,
    ScorableModel,
    Totals,
    exact_totals,
    table_of_part,
)
from dpbo_core.privacy.sensitive import Opaque, Sensitive, attempted

if TYPE_CHECKING:
    from dpbo_core.data.fetched import Contents

T = TypeVar("T")
Work = TypeVar("Work")
Answer = tuple[int | Integers, int]  # what a part adds, and its number of records
PartAnswer = Callable[[Part], bytes | bytearray]
FILE_NAME_SHOWN = "a validation file"
CACHE_GIGABYTES = 2.0  # GB of encoded records, in all processes together, unless a study says otherwise


class PartCache(Opaque, Generic[T]):
    """The encoded blocks of parts that one process keeps, for one reader at a time. As sensitive as the records.

    Which parts are kept depends on the order of requests and on the parts' sizes, never on a record's content. A
    file that changed is read again, and a file that is gone raises, even if its content is cached.
    """

    __slots__ = ("_bytes", "_parts", "_reader")

    def __init__(self) -> None:
        self._reader, self._bytes = "", 0
        self._parts: dict[Part, tuple[tuple[int, ...], list[T]]] = {}

    def get(
        self, reader: str, part: Part, read: Callable[[], Iterable[T]], *, size: Callable[[T], int], limit: int
    ) -> Iterator[T]:
        """Yield a file's blocks by `read`; kept, if `limit` has room, until it changes or another `reader` asks."""
        if reader != self._reader:
            self._reader, self._bytes, self._parts = reader, 0, {}
        state = _state(part)
        cached = self._parts.get(part)
        if cached is not None and cached[0] == state:
            yield from cached[1]
            return
        if cached is not None:
            self._bytes -= sum(map(size, self._parts.pop(part)[1]))
        left, blocks = limit - self._bytes, list[T]()
        for block in read():
            left -= size(block)
            blocks = [*blocks, block] if left >= 0 else []
            yield block
            del block  # before the next one takes as much
        if left >= 0:
            self._bytes = limit - left
            self._parts[part] = (state, blocks)


def _state(part: Part) -> tuple[int, ...]:
    """Return the state by which a changed file is noticed: inode, times, size; OSError if the file is gone."""
    if isinstance(part, ObjectAddress):
        from dpbo_core.data.fetched import object_state

        return object_state(part)
    status = (part if isinstance(part, Path) else part.path).stat()
    return status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size


class PartWork(Protocol):
    """What is done with each part."""

    @property
    def n_numbers(self) -> int:
        """The public number of integers in the answer for one file (part), whatever the data."""

    def __call__(self, part: Part) -> Answer | None:
        """Return the answer; None if the part failed."""


@runtime_checkable
class CachingWork(Protocol):
    """Work that may find in its process's memory what it read before."""

    def with_cache(self, cached: PartCache[Any], n_processes: int) -> Self:
        """Return the same work with a cache of what it reads, whose memory limit `n_processes` processes share."""


class Workers(Protocol):
    """Who scores partitions. Anything that maps a function over paths, inside the curator's boundary."""

    @property
    def n_processes(self) -> int:
        """The number of files (parts) that can be scored at once."""

    def map(self, work: PartWork, parts: Sequence[Part]) -> list[Answer | None]:
        """The integers that `work` computes of each part and its number of records, in any order; or None."""

    def answers(self, work: PartAnswer, parts: Sequence[Part]) -> Iterable[bytes | bytearray | None]:
        """Return the bytes that `work` computes of each file (part), as they come; None for one that was lost."""


class SerialWorkers(Opaque):
    """This process: one partition in memory at a time, and those that are kept."""

    __slots__ = ("_cache", "_n_sharing")

    def __init__(self, n_sharing: int = 1) -> None:
        """`n_sharing` processes share the limit of what is kept."""
        self._cache: PartCache[Any] = PartCache()
        self._n_sharing = n_sharing

    @property
    def n_processes(self) -> int:
        """The number 1: each file is scored by this process."""
        return 1

    def prepared(self, work: Work) -> Work:
        """Return the same work with this process's cache of read files, if it can use one."""
        return work.with_cache(self._cache, self._n_sharing) if isinstance(work, CachingWork) else work

    def map(self, work: PartWork, parts: Sequence[Part]) -> list[Answer | None]:
        """The integers that `work` computes of each part and its number of records, in order; None if it failed."""
        return [*map(self.prepared(work), parts)]

    def answers(self, work: PartAnswer, parts: Sequence[Part]) -> Iterable[bytes | bytearray | None]:
        """Return the bytes that `work` computes of each file (part), each when it is requested."""
        return map(self.prepared(work), parts)


def pieces_of(parts: Sequence[Part], workers: Workers) -> tuple[Part, ...]:
    """Return the files to hand out; if one, or fewer than the processes, each local file's row groups instead."""
    if len(parts) > 1 and len(parts) >= workers.n_processes:
        return tuple(parts)
    from dpbo_core.data.parquet_file import row_groups

    return tuple(chain.from_iterable(row_groups(part) if isinstance(part, Path) else (part,) for part in parts))


@dataclass(frozen=True, eq=False, repr=False)
class PartReader:
    """The public way in which a part's file becomes encoded records, and how much of them may be cached."""

    preprocessing: Preprocessing  # the public map
    limit: int = 0  # bytes of encoded records that all processes together may keep
    # random, so that what is kept for one set of records answers for no other
    name: str = field(default_factory=lambda: secrets.token_hex(16))

    def without_cache(self) -> Self:
        """Return the same reader without a cache, for the last time that files are read."""
        return replace(self, limit=0)

    def encoded(self, part: "Contents") -> Encoded:
        """Return one file's encoded records; no record makes it raise, but a wrong header or a missing file."""
        mode = SENSITIVE_FILE.of_map(self.preprocessing)
        return self.preprocessing.transform(data.read_table(part, mode=mode, display_name=FILE_NAME_SHOWN))

    def blocks(self, part: "Contents") -> Iterator[Encoded]:
        """Yield one file's encoded records in blocks; raises at damage, where `encoded` marks records as broken."""
        mode = SENSITIVE_FILE.of_map(self.preprocessing)
        tables = data.read_blocks(part, mode=mode, display_name=FILE_NAME_SHOWN, rows_multiple=ROWS_PER_BLOCK)
        yield from map(self.preprocessing.transform, tables)

    def read(
        self,
        part: Part,
        cached: PartCache[T] | None,
        n_processes: int,
        *,
        make: Callable[["Contents"], Iterable[T]],
        size: Callable[[T], int],
    ) -> Iterable[T]:
        """Return the blocks that `make` gives for a part, from this process's cache, or read now."""
        from dpbo_core.data.fetched import fetched

        def read() -> Iterable[T]:
            return make(fetched(part, display_name=FILE_NAME_SHOWN))

        if cached is None:
            return read()
        return cached.get(self.name, part, read, size=size, limit=self.limit // n_processes)


CELL_BYTES_FACTOR = 16  # times the pointer to it: an object, and a text of some length


def memory_bytes(records: Encoded) -> int:
    """Return the bytes of memory that these encoded records take, from their shape alone."""
    width = CELL_BYTES_FACTOR if records.X.dtype == object else 1
    return width * records.X.nbytes + records.labels.nbytes + records.broken.nbytes + 8 * records.n_records


def bytes_a_record(preprocessing: Preprocessing) -> int:
    """Return the bytes of memory that one encoded record will take, before any is read."""
    return 8 * preprocessing.n_features * (1 if preprocessing.columns is None else CELL_BYTES_FACTOR) + 8 + 1 + 8


class PartTask:
    """What a worker is sent: the public preprocessing, the models and the score. Nothing in it is sensitive."""

    def __init__(
        self, reader: PartReader, score: Score, models: Sequence[ScorableModel], paired_with: Paired | None = None
    ) -> None:
        self.reader, self.score, self.models, self.paired_with = reader, score, tuple(models), paired_with
        self._memory: tuple[PartCache[Any] | None, int] = (None, 1)

    def with_cache(self, cached: PartCache[Any], n_processes: int) -> Self:
        """Return the same work with a cache, for a process that keeps what it reads."""
        made = copy(self)
        made._memory = (cached, n_processes)
        return made


class PartWorker(PartTask):
    """The sums of a part, or its tables of pairs. No model at all asks for the records of each class."""

    @property
    def n_numbers(self) -> int:
        """How many integers a file's answer has: by model 1, 2 if paired, or 2B of pairs; 2 without models."""
        if not self.models:
            return 2
        if isinstance(self.score, PairScore):
            return 2 * self.score.n_cells * len(self.models)
        return len(self.models) * (1 if self.paired_with is None else 2)

    def __call__(self, part: Part) -> Answer | None:
        """Return one file's integers and number of records; None, and no error for a worker's log, if it failed."""
        # a file that is damaged is read whole: only then is it known which records are to be broken
        for make in (self.reader.blocks, lambda file: [self.reader.encoded(file)]):
            answer = attempted(partial(self._scored, part, make), None)
            if answer is not None:
                return answer
        return None  # the curator's process says that something failed, and nothing else

    def _scored(self, part: Part, make: Callable[["Contents"], Iterable[Encoded]]) -> Answer:
        added, n_records = np.zeros(self.n_numbers, dtype=np.int64), 0
        for records in self.reader.read(part, *self._memory, make=make, size=memory_bytes):
            if not self.models or isinstance(self.score, PairScore):
                added += table_of_part(records, self.score, self.models).ravel()
            else:
                sums, differences = exact_totals(self.models, records, self.score, self.paired_with)
                added += np.array([*sums, *differences], dtype=np.int64)
            n_records += records.n_records
            del records  # before the next block takes as much
        return (added if len(added) > 1 else int(added[0])), n_records


class PartitionedObjective(Half):
    """The sensitive half, on disk. Its parts are opened while models are scored, and at no other time.

    What was read is kept while it fits and models are left to be scored on it.
    """

    __slots__ = ("_n_records", "_parts", "_reader", "_score", "_workers")
    reads_files = True

    def __init__(
        self,
        parts: Sequence[Part],
        reader: PartReader,
        score: Score,
        n_records: int,
        workers: Workers | None = None,
    ) -> None:
        self._reader, self._score, self._n_records = reader, score, n_records
        self._workers = workers or SerialWorkers()
        self._parts = pieces_of(parts, self._workers)

    def pairs(self) -> Sensitive[int]:
        """Return the sealed 2PQ, P and Q the numbers of records of the two classes in all files, read for it."""
        return Sensitive(pairs_of(self._sums_over_parts((), None, models_left=SINGLE_MODEL).reshape(2, -1))[1])

    def totals(self, models: Sequence[ScorableModel], paired_with: Paired | None, *, models_left: int) -> Totals:
        """Return each model's exact score over all files, unsealed, and sum of differences from `paired_with`."""
        added, n = self._sums_over_parts(models, paired_with, models_left=models_left), len(models)
        if isinstance(self._score, PairScore):
            return [pairs_of(table)[0] for table in added.reshape(n, 2, -1)], []
        return added[:n].tolist(), added[n:].tolist()

    def _sums_over_parts(
        self, models: Sequence[ScorableModel], paired_with: Paired | None, *, models_left: int
    ) -> Integers:
        """Return the unsealed sum of the workers' answers for all files; Sealed if a file or record is missing."""
        reader = self._reader if models_left else self._reader.without_cache()
        mapped = self._workers.map(PartWorker(reader, self._score, models, paired_with), self._parts)
        answers = [answer for answer in mapped if answer is not None]
        if len(answers) != len(self._parts) or sum(n for _, n in answers) != self._n_records:
            raise Sealed
        return sum((np.atleast_1d(total) for total, _ in answers), np.zeros(1, dtype=np.int64))
