"""Dask for what one process is too small for: scoring partitions, and training candidates. Optional extra `dask`.

Workers are processes of this machine, inside the curator's boundary, reachable on the loopback alone and by who
holds this run's certificate: other users do not. They have no pages: Dask's would show to
every local user how many bytes an exact sum took and how often one was asked for. Nothing of a partition is kept by
Dask: its answer is bytes of one width (where persons are averaged, a power of two of entries), which are forgotten
when they arrive, and spilling is off. A worker scores the same parts whenever it is asked, so that those it could
keep (`PartCache`) are read once; the models are sent to it once for all its parts.

Or they are those of a cluster that stands (`standing_cluster`), which was looked at first; each looks at itself
again before it scores, since it may have come later.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from dpbo.flows.prefect_runtime.dask_fitness import own_packages, processor, worker_problems
from dpbo.flows.prefect_runtime.standing_cluster import MEMORY, StandingCluster, standing_cluster
from dpbo_core.data.addresses import Part
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.methods.contract import Method
from dpbo_core.scoring.partitioned import Answer, CachingWork, PartAnswer, PartCache, PartWork

if TYPE_CHECKING:
    from distributed import LocalCluster

SETTING = "DPBO_WORKERS"
LOOPBACK = "127.0.0.1"
CLUSTER: dict[str, Any] = {
    "host": LOOPBACK,
    "processes": True,
    "threads_per_worker": 1,  # scoring is exact in any order; one thread keeps memory to one partition a worker
    "memory_limit": 0,  # no limit, so nothing is ever paused, spilt to disk or killed by Dask
    "dashboard_address": f"{LOOPBACK}:0",  # it must listen somewhere; its own default is every interface
    "scheduler_kwargs": {"dashboard": False},
    "silence_logs": 50,  # a worker's log may quote what failed
}
SETTINGS: dict[str, Any] = {
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
    "distributed.comm.compression": False,  # packed bytes would be as many as what is in them says
    "distributed.worker.profile.enabled": False,  # it keeps where a worker was, a hundred times a second
    # Dask has a worker give every freed block back to the system, which then took a third of its time. Both
    # thresholds, since glibc no longer moves the one where the other is set.
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 2**28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 2**25,
    "distributed.nanny.pre-spawn-environ.MALLOC_ARENA_MAX": 1,
}
ONE_AT_A_TIME = Lock()
LOOK, LOOKS = 5.0, 12  # seconds between looks for workers, and how many may find none before all is given up
WIDTH = 16  # bytes of an integer; a sum is below 2**127 by far


def cluster(n_workers: int) -> "LocalCluster":
    """Start a cluster of `n_workers` processes and their scheduler, under SETTINGS."""
    import dask
    from distributed import LocalCluster, Security

    with ONE_AT_A_TIME, dask.config.set(SETTINGS):  # its settings are the process's
        return LocalCluster(n_workers=n_workers, security=Security.temporary(), **CLUSTER)


class DaskWorkers:
    """Scores parts on a cluster, which may still be starting; the answer of a worker that was lost is None."""

    def __init__(self, started: Callable[[], Any], task: "Callable[..., list[bytes]] | None" = None) -> None:
        """`started` waits for a client; `task` is what each worker runs, `answers_of` where None."""
        self._started, self._task = started, task or answers_of

    @property
    def _client(self) -> Any:
        """The Dask client of the cluster, started when it is first asked for."""
        return self._started()

    def wait(self, parts: Sequence[Part] = ()) -> None:
        """Wait until the workers have started, and ask each whether it can read every part of a folder.

        Raises:
            StudyInvalid: one cannot, and is named; or whatever keeps them from starting.
        """
        client = self._started()
        places = [part.resolve() for part in parts if isinstance(part, Path)]
        for worker, n_unread in client.run(unreadable, places).items() if places else ():
            if n_unread:
                raise StudyInvalid(
                    f"worker {worker} cannot read {n_unread} of the {len(places)} parts in {places[0].parent}",
                    cause="another folder is mounted there, or its user may not read this one",
                    remedy="mount the folder on every worker's host, readable; nothing was charged by this run",
                )

    def map(self, work: PartWork, parts: Sequence[Part]) -> list[Answer | None]:
        """The answers of `work` on every part; a part whose worker was lost has None."""
        n = work.n_numbers
        return [
            None if answer is None else from_one_width(answer, n_numbers=n)
            for answer in self.answers(OneWidth(work), parts)
        ]

    def answers(self, work: PartAnswer, parts: Sequence[Part]) -> list[bytes | None]:
        """The answers of `work` in bytes, part by part; one that was lost with its worker is left out.

        A worker is given every n-th part, the same whenever it is asked; another one takes its place if it is lost.
        """
        places, homes = (
            [part.resolve() if isinstance(part, Path) else part for part in parts],
            sorted(self._client.nthreads()),
        )
        n = len(homes)
        futures = [
            self._client.submit(
                self._task, work, places[i::n], n, pure=False, workers=[home], allow_other_workers=True
            )
            for i, home in enumerate(homes)
        ]
        try:
            self._wait_for(futures)
            return [answer for of_worker in self._client.gather(futures, errors="skip") for answer in of_worker]
        finally:
            self._client.cancel(futures)

    def _wait_for(self, futures: Sequence[Any]) -> None:
        """Wait until the futures are done; Dask itself would wait for ever where no worker is left.

        Raises:
            TimeoutError: there was none for so many looks.
        """
        from distributed import wait

        alone = 0
        while alone < LOOKS:
            with suppress(TimeoutError), self._client.as_current():
                wait(futures, timeout=LOOK)
                return
            alone = 0 if self._client.nthreads() else alone + 1
        raise TimeoutError


def unreadable(places: Sequence[Path]) -> int:
    """The number of `places` that this process may not read, or that are not there."""
    return sum(not os.access(place, os.R_OK) for place in places)


class OneWidth:
    """Work on a part whose answers have one width in bytes, whatever they are."""

    def __init__(self, work: PartWork) -> None:
        self.work = work

    def with_cache(self, memory: PartCache[Any], n_processes: int) -> "OneWidth":
        """This work, caching the parts that its process reads in `memory`."""
        return OneWidth(self.work.with_cache(memory, n_processes)) if isinstance(self.work, CachingWork) else self

    def __call__(self, part: Part) -> bytes:
        """The bytes of the answer for `part`."""
        return of_one_width(self.work, part, n_numbers=self.work.n_numbers)


def answers_of(work: PartAnswer, parts: Sequence[Part], n_workers: int) -> list[bytes]:
    """The answers of one of `n_workers` workers for its parts; a cached part is not read again."""
    if isinstance(work, CachingWork):
        work = work.with_cache(_memory(), n_workers)
    return [work(part) for part in parts]


def answers_if_fit(
    versions: dict[str, str], kind: str, work: PartAnswer, parts: Sequence[Part], n_workers: int
) -> list[bytes]:
    """The answers of a worker that others started; none where it turns out unfit.

    `versions` and `kind` are the packages and the processor of the curator's host.
    """
    fit = own_packages() == versions and not worker_problems(kind, _worker())
    return answers_of(work, parts, n_workers) if fit else []


def checked() -> Callable[..., list[bytes]]:
    """The function `answers_if_fit` bound to this host's packages and processor."""
    return partial(answers_if_fit, own_packages(), processor())


def _worker() -> Any:
    """The Dask worker that runs in this process."""
    from distributed import get_worker

    return get_worker()


def _memory() -> PartCache[Any]:
    """The cache of parts of this worker; it ends with it."""
    worker = _worker()
    if not hasattr(worker, MEMORY):
        setattr(worker, MEMORY, PartCache())
    memory: PartCache[Any] = getattr(worker, MEMORY)
    return memory


def of_one_width(work: Callable[[Part], Answer | None], part: Part, *, n_numbers: int = 1) -> bytes:
    """The answer of `work` on a part, padded to one width, since others can see how many bytes are sent.

    Bytes are the whole answer, its presence too: a part that failed is as wide as one that did not. What adds more
    than one number adds `n_numbers` counts of records.
    """
    answer = work(part)
    total, n_records = (0, 0) if answer is None else answer
    if n_numbers > 1:
        added = np.zeros(n_numbers, dtype="<i8") if answer is None else np.asarray(total, dtype="<i8").ravel()
        body = added.tobytes()
    else:
        body = int(total).to_bytes(WIDTH, "little", signed=True)
    head = (int(answer is not None), int(n_records))
    return b"".join(number.to_bytes(WIDTH, "little", signed=True) for number in head) + body


def from_one_width(raw: bytes, *, n_numbers: int = 1) -> Answer | None:
    """The answer in bytes that `of_one_width` wrote; None where the part failed."""
    there, n_records = (int.from_bytes(raw[i * WIDTH : (i + 1) * WIDTH], "little", signed=True) for i in range(2))
    body = raw[2 * WIDTH :]
    if not there:
        return None
    if n_numbers == 1:
        return int.from_bytes(body, "little", signed=True), n_records
    return np.frombuffer(body, dtype="<i8").astype(np.int64), n_records


def workers_for(method: Method) -> int | StandingCluster:
    """The workers that may score for a study of this method: none if it hides its number of evaluations."""
    return 0 if method.traits.hides_evaluations else scorers()


def scorers() -> int | StandingCluster:
    """The workers that score parts: DPBO_DASK's cluster, or a number of local processes; 0 for none."""
    return standing_cluster() or n_workers()


@contextmanager
def workers(who: int | StandingCluster | None = None) -> Iterator[DaskWorkers | None]:
    """Context with the workers of `who`, or of `scorers`, started in the background; None without any.

    Raises:
        StudyInvalid: a setting cannot be used, or Dask is not installed.
    """
    who = scorers() if who is None else who
    if who == 0:
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise StudyInvalid(
            f"{SETTING} asks for workers, and Dask is not installed",
            remedy=f"pip install 'dpbo[dask]', or unset {SETTING}",
        ) from None
    with ExitStack() as running, ThreadPoolExecutor(1) as aside:

        def start() -> Any:
            if isinstance(who, StandingCluster):
                return who.joined(running)
            client = Client(running.enter_context(cluster(who)))
            running.callback(client.close)  # not as a context: it is left in another thread than it is entered in
            return client

        gone = False
        try:
            yield DaskWorkers(aside.submit(start).result, checked() if isinstance(who, StandingCluster) else None)
        except Sealed:
            gone = isinstance(who, StandingCluster) and not who.is_listening()
            if not gone:
                raise
        if gone and isinstance(who, StandingCluster):
            raise who.lost_scheduler() from None


def n_workers() -> int:
    """The number of workers that the environment asks for; 0 for none.

    Raises:
        StudyInvalid: it is no whole number.
    """
    text = os.environ.get(SETTING, "0")
    if not text.isdecimal() or int(text) > 1024:
        raise StudyInvalid(
            f"{SETTING} = {text!r} is no number of workers", remedy="give a whole number, or unset it"
        )
    return int(text)
