"""Who scores the parts of a folder: processes of this machine, or a Dask cluster that others run (extra `dask`).

Processes of this machine (`dpbo_core.models.scoring.processes`) are requested by the study, or by `--workers`. A
cluster (`standing_cluster`) was looked at first, and each of its workers looks at itself again before it scores,
since it may have come later. Nothing of a partition is kept by Dask: its answer is bytes of one width (where
persons are averaged, a power of two of entries), which are forgotten when they arrive. A worker has one part at a
time, first of those that it scored before and may have cached (`PartCache`); the public models are sent with it,
since what is sent to all beforehand waits for one that hangs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbo_core.data.addresses import ObjectAddress, Part
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.methods.contract import Method
from dpbo_core.models.scoring.partitioned import Answer, CachingWork, PartAnswer, PartCache, PartWork
from dpbo_core.models.scoring.processes import Processes, answers_of_all
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import is_partitioned, validation_parts
from dpbo_core.study.spec import read_study

if TYPE_CHECKING:
    from dpbo.flows.workers.standing_cluster import StandingCluster

LOOK, LOOKS = 5.0, 12  # seconds between looks for workers, and how many may find none before all is given up
INTEGER_BYTES = 16  # bytes of an integer; a sum is below 2**127 by far


class DaskWorkers:
    """Scores parts on a cluster, which may still be joined; the answer of a worker that was lost is None."""

    def __init__(
        self, joined: Callable[[], Any], task: "Callable[..., bytes | bytearray | None] | None" = None
    ) -> None:
        """`joined` waits for a client; `task` is what a worker runs on a part, `answer_if_fit` where None."""
        from dpbo.flows.workers.standing_cluster import processor

        self._joined, self._task = joined, task or partial(answer_if_fit, own_packages(), processor())
        self._last_workers: dict[Any, object] = {}

    @property
    def n_processes(self) -> int:
        """How many workers the cluster has now; waits until it is joined."""
        return len(self._joined().nthreads())

    def wait(self, parts: Sequence[Part] = ()) -> None:
        """Wait for the cluster, and refuse a worker that cannot read every part (file) of a folder."""
        blind = blind_workers(self._joined(), parts)
        if blind:
            raise StudyInvalid(
                blind[0],
                cause="another folder is mounted there, or its user may not read this one",
                remedy="mount the folder on every worker's host, readable; nothing was charged by this run",
            )

    def map(self, work: PartWork, parts: Sequence[Part]) -> list[Answer | None]:
        """Return the answers of `work` (a sum, how many records) in any order; None if part or worker failed."""
        n = work.n_numbers
        return [
            None if answer is None else from_one_width(answer, n_numbers=n)
            for answer in self.answers(FixedWidthWork(work), parts)
        ]

    def answers(self, work: PartAnswer, parts: Sequence[Part]) -> Iterator[bytes | bytearray | None]:
        """Yield the answers of `work` for all parts, in bytes, in any order; None if a worker was lost."""
        client = self._joined()
        places = [part if isinstance(part, ObjectAddress) else part.resolve() for part in parts]
        addresses = sorted(client.nthreads())
        beside = [_DaskWorker(client, self._task, address, len(addresses)) for address in addresses]
        here = None if addresses else lambda _: None
        yield from answers_of_all(work, places, beside, here, self._last_workers)


class _DaskWorker:
    """One Dask worker of a cluster, by its address, that scores parts; another takes its place if it is lost."""

    def __init__(
        self, client: Any, task: Callable[..., bytes | bytearray | None], address: str, n_workers: int
    ) -> None:
        self._client, self._task, self._address, self._n_workers = client, task, address, n_workers
        self._is_lost = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DaskWorker) and other._address == self._address

    def __hash__(self) -> int:
        return hash(self._address)

    def ready(self, patience: float) -> bool:  # noqa: ARG002  it waited for its client
        """Always True: the worker joined the cluster before this object was made."""
        return True

    def __call__(self, work: Any, part: Part) -> bytes | bytearray | None:
        """Return the answer for a part; None if it was lost with its worker, or the scheduler, and from then on."""
        if self._is_lost:
            return None
        futures, answers = [], []
        try:
            futures.append(self._client.submit(
                self._task, work, part, self._n_workers, pure=False, workers=[self._address],
                allow_other_workers=True,
            ))  # fmt: skip
            self._wait_for(futures[0])
            answers = self._client.gather(futures, errors="skip")
        except BaseException:  # noqa: BLE001, S110  a cancelled future is no Exception; the curator's process says it
            pass
        for future in futures:  # not cancelled: of that the scheduler would tell a client that may be leaving
            future.release()
        self._is_lost = not answers
        return answers[0] if answers else None

    def _wait_for(self, future: Any) -> None:
        from distributed import wait

        alone = 0
        while alone < LOOKS:
            with suppress(TimeoutError), self._client.as_current():
                wait([future], timeout=LOOK)
                return
            alone = 0 if self._client.nthreads() else alone + 1
        raise TimeoutError


def blind_workers_here(client: Any) -> Iterator[str]:
    """Yield a sentence about each worker that cannot read the files of some study in the current folder."""
    for path in sorted(Path().glob("*.toml")):
        with suppress(StudyInvalid):  # no study, or one that cannot be run
            yield from blind_workers(client, validation_parts(read_study(path), path.parent))


def blind_workers(client: Any, parts: Sequence[Part]) -> list[str]:
    """Return a sentence about each worker of a cluster that cannot read every one of a folder's files."""
    places = [part.resolve() for part in parts if isinstance(part, Path)]
    unread = client.run(unreadable, places) if places else {}
    return [
        f"worker {worker} cannot read {n} of the {len(places)} parts in {places[0].parent}"
        for worker, n in unread.items()
        if n
    ]


def unreadable(places: Sequence[Path]) -> int:
    """Return the number of `places` that this process may not read, or that are not there."""
    return sum(not os.access(place, os.R_OK) for place in places)


class FixedWidthWork:
    """Work on a part whose answers have one width in bytes, whatever they are."""

    def __init__(self, work: PartWork) -> None:
        self.work = work

    def with_cache(self, memory: PartCache[Any], n_processes: int) -> "FixedWidthWork":
        """This work with `memory` as the cache of the files (parts) that one of `n_processes` workers reads."""
        return (
            FixedWidthWork(self.work.with_cache(memory, n_processes))
            if isinstance(self.work, CachingWork)
            else self
        )

    def __call__(self, part: Part) -> bytes:
        """Return the bytes of the answer for `part`."""
        return of_one_width(self.work, part, n_numbers=self.work.n_numbers)


def answer_if_fit(
    versions: dict[str, str], kind: str, work: PartAnswer, part: Part, n_workers: int
) -> bytes | bytearray | None:
    """Return the answer of `work` for a part, on a Dask worker that others started; None if the worker is unfit.

    It is unfit if its package `versions` or its `kind` of processor differ from the curator's. A cached part is not
    read again.
    """
    from distributed import get_worker

    from dpbo.flows.workers.standing_cluster import worker_problems

    worker = get_worker()
    if own_packages() != versions or worker_problems(kind, worker):
        return None
    return (work.with_cache(_memory(worker), n_workers) if isinstance(work, CachingWork) else work)(part)


def own_packages() -> dict[str, str]:
    """Return the versions in this process of the packages that a worker must share."""
    from distributed.versions import get_package_info

    from dpbo.flows.workers.standing_cluster import COMPARED_PACKAGES, packages

    return packages({"packages": get_package_info(COMPARED_PACKAGES)})


def _memory(worker: Any) -> PartCache[Any]:
    from dpbo.flows.workers.standing_cluster import MEMORY_ATTRIBUTE

    if not hasattr(worker, MEMORY_ATTRIBUTE):
        setattr(worker, MEMORY_ATTRIBUTE, PartCache())
    memory: PartCache[Any] = getattr(worker, MEMORY_ATTRIBUTE)
    return memory


def of_one_width(work: Callable[[Part], Answer | None], part: Part, *, n_numbers: int = 1) -> bytes:
    """Return the answer for a part (a sum of `n_numbers`, how many records; or None) as bytes of one fixed width.

    Others can see how many bytes are sent, so a failed part sends as many as any other.
    """
    answer = work(part)
    total, n_records = (0, 0) if answer is None else answer
    if n_numbers > 1:
        added = np.zeros(n_numbers, dtype="<i8") if answer is None else np.asarray(total, dtype="<i8").ravel()
        body = added.tobytes()
    else:
        body = int(total).to_bytes(INTEGER_BYTES, "little", signed=True)
    head = (int(answer is not None), int(n_records))
    return b"".join(number.to_bytes(INTEGER_BYTES, "little", signed=True) for number in head) + body


def from_one_width(raw: bytes | bytearray, *, n_numbers: int = 1) -> Answer | None:
    """The answer (sum of `n_numbers`, how many records) in bytes of `of_one_width`; None if the part failed."""
    there, n_records = (
        int.from_bytes(raw[i * INTEGER_BYTES : (i + 1) * INTEGER_BYTES], "little", signed=True) for i in range(2)
    )
    body = raw[2 * INTEGER_BYTES :]
    if not there:
        return None
    if n_numbers == 1:
        return int.from_bytes(body, "little", signed=True), n_records
    return np.frombuffer(body, dtype="<i8").astype(np.int64), n_records


Scorers = Processes | DaskWorkers


@contextmanager
def workers(study: StudySpec, folder: str, method: Method | None = None) -> Iterator[Scorers | None]:
    """Return a context with the workers that score a study's files: a Dask cluster, own processes, or None.

    None means this process; it is used whenever `method` hides how often it evaluates.
    """
    if method is not None and method.hides_evaluations:
        yield None
        return
    if is_partitioned(study, folder):
        from dpbo.flows.workers.standing_cluster import standing_cluster

        cluster = standing_cluster()
        if cluster is not None:
            with on_cluster(cluster) as joined:
                yield joined
            return
    files = study.data.divided
    with closing(Processes((files and files.workers) or 1)) as own:
        yield own if own.n_processes > 1 else None


@contextmanager
def on_cluster(cluster: "StandingCluster") -> Iterator[DaskWorkers]:
    """Context with the workers of a cluster that others run, which is joined in the background."""
    with ExitStack() as running, ThreadPoolExecutor(1) as aside:
        gone = False
        try:
            yield DaskWorkers(aside.submit(cluster.joined, running).result)
        except Sealed:
            gone = not cluster.is_listening()
            if not gone:
                raise
        if gone:
            raise Sealed(
                f"the Dask scheduler at {cluster.address} is gone",
                cause="it was ended, or the network to it was",
                remedy="start it and its workers; the reservation stands; run again",
            ) from None
