"""A Dask cluster that others run, inside the curator's boundary: where it is, how it is joined, how it is left.

DPBO_DASK = tls://scheduler:8786 is its scheduler; tcp:// and every other protocol is refused. The certificates are
Dask's own setting, distributed.comm.tls. Whoever holds one of them can run code on the workers, which read records:
there is nobody else on it.

Dask would keep answers on disk, show their traffic and pack them. All three are settings of its processes, which
`problems` looks at before a study is charged and in each worker before it scores. Functions are sent by reference,
so every process has the same dpbo; libraries decide the last bit of a sum.

Each worker looks at itself again before it scores, since it may have come later. Nothing of a partition is kept by
Dask: its answer is bytes of one width (where persons are averaged, a power of two of entries), which are forgotten
when they arrive. A worker has one part at a time, first of those that it scored before and may have cached
(`PartCache`); the public models are sent with it, since what is sent to all beforehand waits for one that hangs.
"""

import os
import socket
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from dpbo.flows.stores import DASK_SETTING
from dpbo_core.data.addresses import ObjectAddress, Part
from dpbo_core.errors import Sealed, StudyInvalid
from dpbo_core.models.scoring.partitioned import Answer, CachingWork, PartAnswer, PartCache, PartWork
from dpbo_core.models.scoring.processes import answers_of_all
from dpbo_core.study.data_split import validation_parts
from dpbo_core.study.spec import read_study

if TYPE_CHECKING:
    from distributed.security import Security

MEMORY_ATTRIBUTE = "_dpbo_kept_parts"  # a worker's attribute
ANSWER_TIMEOUT_S = 8  # for its scheduler's answer
CLIENT_SETTINGS: dict[str, Any] = {
    "distributed.comm.timeouts.connect": f"{ANSWER_TIMEOUT_S}s",  # then a lost scheduler is given up
    "distributed.diagnostics.computations.nframes": 0,  # else the caller's source code is sent, and shown
    "distributed.comm.compression": False,  # packed bytes would be as many as what is in them says
}
LOOK, LOOKS = 5.0, 12  # seconds between looks for workers, and how many may find none before all is given up
INTEGER_BYTES = 16  # bytes of an integer; a sum is below 2**127 by far
COMPARED_PACKAGES = ("dpbo", "python", "dask", "distributed", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow")


@dataclass(frozen=True)
class StandingCluster:
    """A Dask cluster that others run, by its scheduler's address tls://HOST:PORT."""

    address: str

    def security(self) -> "Security":
        """Dask's TLS settings with its configured certificates, refused if unusable; nothing is sent in plain."""
        from distributed.security import Security

        made = Security(require_encryption=True)
        usable = False
        with suppress(OSError, ValueError):  # of public files and of our own key: no text of theirs is repeated
            usable = made.get_connection_args("client")["ssl_context"] is not None
        if not usable:
            raise StudyInvalid(
                f"the certificates for {self.address} cannot be used",
                cause="a path that is missing or wrong, a file that another user alone may read, or another's key",
                remedy="set Dask's distributed.comm.tls: ca-file, client.cert and client.key "
                "(DASK_DISTRIBUTED__COMM__TLS__CA_FILE, …__CLIENT__CERT, …__CLIENT__KEY)",
            )
        return made

    def is_listening(self) -> bool:
        """Return whether anybody answers at the scheduler's address; nothing is said there."""
        place = urlsplit(self.address)
        with suppress(OSError), socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=2.0):
            return True
        return False

    def client(self, running: ExitStack) -> Any:
        """A client of the cluster until `running` ends, Dask's log silenced; then workers forget cached parts."""
        import dask
        from distributed import Client
        from distributed.utils import silence_logging_cmgr
        from distributed.versions import VersionMismatchWarning

        security = self.security()
        running.enter_context(dask.config.set(CLIENT_SETTINGS))
        running.enter_context(silence_logging_cmgr("CRITICAL"))  # one message says what was lost, and Dask none
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", VersionMismatchWarning)  # `problems` says which of them matter
                client = Client(self.address, security=security, timeout=ANSWER_TIMEOUT_S, set_as_default=False)
        except (OSError, TimeoutError, RuntimeError, ValueError):
            raise StudyInvalid(
                f"no Dask scheduler lets us in at {self.address}",
                cause="it does not run, cannot be reached from here, or trusts other certificates",
                remedy="dpbo doctor looks at it; nothing was charged",
            ) from None
        running.callback(_close_client, client)
        return client

    def joined(self, running: ExitStack) -> Any:
        """A client of the cluster until `running` ends, refused unless every process proves fit for records."""
        client = self.client(running)
        wrong = problems(client)
        if wrong:
            raise StudyInvalid(
                f"the Dask cluster at {self.address} is not fit for records: {wrong[0].what}",
                remedy=f"{wrong[0].remedy}; dpbo doctor names all that is wrong",
            )
        return client


def forget(dask_worker: Any) -> None:
    """Delete a worker's cached parts; Dask runs this function on every worker."""
    if hasattr(dask_worker, MEMORY_ATTRIBUTE):
        delattr(dask_worker, MEMORY_ATTRIBUTE)


def _close_client(client: Any) -> None:
    """Have the workers delete their cached parts (files' records), then close the client."""
    with suppress(Exception):
        client.run(forget, on_error="ignore")
    with suppress(Exception):
        client.close(timeout=ANSWER_TIMEOUT_S)


def standing_cluster() -> StandingCluster | None:
    """The cluster that DPBO_DASK names, None if none; refused unless a tls:// address. Nothing is connected."""
    address = os.environ.get(DASK_SETTING, "")
    if not address:
        return None
    try:
        where = urlsplit(address)
        complete = bool(where.scheme == "tls" and where.hostname and where.port)
    except ValueError:
        complete = False
    if not complete or where.path or where.username:
        raise StudyInvalid(
            f"{DASK_SETTING} = {address!r} is no tls:// address of a host and port",
            cause="without TLS whoever is on the wire reads exact sums, and who reaches it runs code on workers",
            remedy=f"give {DASK_SETTING} as tls://HOST:PORT, or unset it",
        )
    if find_spec("distributed") is None:
        raise StudyInvalid(
            f"{DASK_SETTING} names a cluster, and Dask is not installed",
            remedy=f"pip install 'dpbo[dask]', or unset {DASK_SETTING}",
        )
    return StandingCluster(address)


class Problem(NamedTuple):
    """What makes a Dask cluster unfit for records, and what to do. Public."""

    what: str
    remedy: str


def problems(client: Any) -> tuple[Problem, ...]:
    """Return all that makes a Dask cluster unfit, () for nothing; if versions differ, only that is looked at."""
    if not client.nthreads():
        return (Problem("it has no workers", "start some"),)
    versions = client.get_versions(packages=list(COMPARED_PACKAGES))
    ours, wrong = packages(versions["client"]), []
    for name, theirs in {"the scheduler": versions["scheduler"], **versions["workers"]}.items():
        if others := dict(packages(theirs).items() - ours.items()):
            wrong.append(Problem(f"{name} has other versions than this host: {others}", "install the same there"))
    if not wrong:
        wrong += client.run_on_scheduler(scheduler_problems)
        wrong += (problem for theirs in client.run(worker_problems, processor()).values() for problem in theirs)
    return tuple(wrong)


def packages(process: Mapping[str, Any] | None) -> dict[str, str]:
    """The versions of PACKAGES in a process ("missing" if absent), by Dask's report; Python's without the patch."""
    versions = (process or {}).get("packages") or {}
    named = {name: str(versions.get(name) or "missing") for name in COMPARED_PACKAGES}
    return named | {"python": ".".join(named["python"].split(".")[:2])}


def processor() -> str:
    """Return the vector instructions that NumPy uses here, since another kind of processor may round otherwise."""
    return " ".join(sorted(np.show_config(mode="dicts")["SIMD Extensions"]["found"]))


def scheduler_problems(dask_scheduler: Any) -> list[Problem]:
    """Return what makes Dask's scheduler unfit; Dask runs this function on it."""
    return _problems(dask_scheduler, "scheduler", "the scheduler")


def worker_problems(ours: str, dask_worker: Any) -> list[Problem]:
    """Return what makes a Dask worker unfit; Dask runs this function on it. `ours` is the curator's processor."""
    name = f"worker {dask_worker.address}"
    wrong = _problems(dask_worker, "worker", name)
    if type(dask_worker.data) is not dict:
        wrong.append(Problem(f"{name} would write exact sums to disk", "start it with --memory-limit 0"))
    if dask_worker.state.nthreads != 1:
        wrong.append(Problem(f"{name} has several threads", "start it with --nthreads 1, and more of them"))
    if processor() != ours:
        wrong.append(Problem(f"{name} has another kind of processor than this host", "use hosts of one kind"))
    return wrong


def _problems(server: Any, kind: str, name: str) -> list[Problem]:
    import dask

    wrong = []
    if not all(item.listen_address.startswith("tls://") for item in server.listeners):
        wrong.append(Problem(f"{name} listens without TLS too", "start it with --protocol tls alone"))
    pages = set(dask.config.get(f"distributed.{kind}.http.routes")) - {"distributed.http.health"}  # it says "ok"
    if pages or server.http_application.applications:
        remedy = f"DASK_DISTRIBUTED__{kind.upper()}__HTTP__ROUTES='[]' and --no-dashboard"
        wrong.append(Problem(f"{name} has Dask's pages, which say when and how many bytes went where", remedy))
    if dask.config.get("distributed.comm.compression") not in (False, None):
        wrong.append(Problem(f"{name} compresses what it sends", "DASK_DISTRIBUTED__COMM__COMPRESSION=False"))
    return wrong


class DaskWorkers:
    """Scores parts on a cluster, which may still be joined; the answer of a worker that was lost is None."""

    def __init__(
        self, joined: Callable[[], Any], task: "Callable[..., bytes | bytearray | None] | None" = None
    ) -> None:
        """`joined` waits for a client; `task` is what a worker runs on a part, `answer_if_fit` where None."""
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

    worker = get_worker()
    if own_packages() != versions or worker_problems(kind, worker):
        return None
    return (work.with_cache(_memory(worker), n_workers) if isinstance(work, CachingWork) else work)(part)


def own_packages() -> dict[str, str]:
    """Return the versions in this process of the packages that a worker must share."""
    from distributed.versions import get_package_info

    return packages({"packages": get_package_info(COMPARED_PACKAGES)})


def _memory(worker: Any) -> PartCache[Any]:
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


@contextmanager
def on_cluster(cluster: StandingCluster) -> Iterator[DaskWorkers]:
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
