"""Distribution of parts (files) to processes: a free process takes the next part, preferably a cached one.

`Processes` is this process and N − 1 child processes on this machine. A child runs the same interpreter and talks
to this one by a private socket: no port, no file, no terminal output. It caches what it reads as this one does, and
ends with it. None is started before files and models are eight seconds' work, by public sizes alone. Sums are
integers, so they are the same whoever adds; a process that was lost loses its parts to the others.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from queue import Empty, Queue
from threading import Lock, Thread
from typing import Any, cast

from dpbo_core.data.addresses import ObjectAddress, Part
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.scoring.partitioned import Answer, PartAnswer, PartWork, SerialWorkers
from dpbo_core.privacy.sensitive import Opaque

START_POLL_INTERVAL_S = 0.02  # seconds between two looks whether a process that starts is still of use
MIN_EFFORT_BYTES = 2.0**32  # bytes, read once or scored by 64 linear models: about eight seconds' work
LINEAR, NONLINEAR = 1 / 64, 8.0  # effort of a model's scores, in readings of the file
LOST_ANSWER = object()  # stands for the answer of a process that ended
SINGLE_THREAD_SETTINGS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_BOOT_CODE = (
    "import sys; sys.path[:0] = [p for p in sys.argv[3:] if p not in sys.path]; "
    "from dpbo_core.models.scoring.processes import serve; serve(int(sys.argv[1]), int(sys.argv[2]))"
)


class _Remaining:
    """The parts that no process has taken yet, shared by several threads."""

    def __init__(self, parts: Iterable[Any], last_process: dict[Any, object]) -> None:
        self._parts, self._last_process, self._lock = list(parts), last_process, Lock()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def take(self, process: object) -> Any:
        """Return the next file (part) for a process; None if none is left.

        A file that this process read before comes first, since it may be cached, then one that no process has read.
        """
        with self._lock:
            if not self._parts:
                return None
            owners = [self._last_process.get(part) for part in self._parts]
            of_nobody = owners.index(None) if None in owners else 0
            part = self._parts.pop(owners.index(process) if process in owners else of_nobody)
            self._last_process[part] = process
            return part

    def put_back(self, part: Any) -> None:
        """Return a file (part) to be taken again, as its process was lost."""
        with self._lock:
            self._parts.append(part)


def answers_of_all(
    work: Any, parts: Sequence[Any], beside: list[Any], here: Any, last_process: dict[Any, object]
) -> Iterator[Any]:
    """Yield what `work` answers for each part, as answers come, from the child processes `beside` and from `here`.

    A child that ends is removed from `beside`, and its part is done by another process.
    """
    remaining, done = _Remaining(parts, last_process), Queue[tuple[Any, Any]](max(1, len(beside)))

    def serve_parts(process: Any) -> None:
        part = None
        try:
            while not process.ready(START_POLL_INTERVAL_S):
                if not remaining:
                    return
            while (part := remaining.take(process)) is not None:
                # It waits if the queue is full, which bounds the number of answers in memory.
                done.put((part, process(work, part)))
        except BaseException:  # noqa: BLE001  it ended, or what it does cannot be sent: another process does it
            beside.remove(process)
            done.put((part, LOST_ANSWER))

    threads = [Thread(target=serve_parts, args=(process,), daemon=True) for process in beside]
    for thread in threads:
        thread.start()
    unanswered = len(parts)
    while unanswered:
        part = None if here is None else remaining.take(here)
        if part is not None:
            unanswered -= 1
            yield here(part)
        with suppress(Empty):
            while unanswered:
                part, answer = done.get(block=not remaining or here is None)
                if answer is not LOST_ANSWER:
                    unanswered -= 1
                    yield answer
                elif part is not None:
                    remaining.put_back(part)
                    break
    for thread in threads:
        thread.join()


class _Process:
    """A process of this machine that scores parts, and our end of its socket."""

    def __init__(self, n_processes: int) -> None:
        """Start it; `n_processes` share the limit of what is cached."""
        self._pipe, theirs = Pipe()
        self._work: Any = None
        self._is_ready = False
        words = [sys.executable, "-s", "-P", "-c", _BOOT_CODE, str(theirs.fileno()), str(n_processes)]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter
                [*words, *map(os.path.abspath, sys.path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | SINGLE_THREAD_SETTINGS,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a terminal's Ctrl-C is for whoever asked
            )

    def ready(self, patience: float) -> bool:
        """Return whether the other process has started, after waiting `patience` seconds at most."""
        if not self._is_ready and self._pipe.poll(patience):
            self._is_ready = self._pipe.recv()
        return self._is_ready

    def __call__(self, work: Any, part: Any) -> Any:
        """Return the answer of `work` for a part; the work is sent once."""
        self._pipe.send((None if work is self._work else work, part))
        self._work = work
        return self._pipe.recv()

    def close(self) -> None:
        """End the other process, and close this end of its socket."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()


class Processes(Opaque):
    """`n_processes` of this machine that score parts, this one among them; the others are started when needed."""

    __slots__ = ("_beside", "_effort", "_here", "_last_process", "_started", "n_processes")

    def __init__(self, n_processes: int) -> None:
        self.n_processes = n_processes
        self._here, self._beside, self._started = SerialWorkers(n_processes), list[_Process](), list[_Process]()
        self._effort, self._last_process = 0.0, dict[Any, object]()

    def map(self, work: PartWork, parts: Sequence[Part]) -> list[Answer | None]:
        """Return the integers that `work` computes of each file (part), None if it failed, in any order."""
        return cast("list[Answer | None]", list(self.answers(cast("PartAnswer", work), parts)))

    def answers(self, work: PartAnswer, parts: Sequence[Part]) -> Iterator[bytes | bytearray]:
        """The bytes that `work` computes of each file (part), as they come; long work starts other processes."""
        places = [part if isinstance(part, ObjectAddress) else part.resolve() for part in parts]
        self._effort += sum(_effort(work, place) for place in places)
        here = self._here.prepared(work)
        return self.each(work, places, here) if self._effort > MIN_EFFORT_BYTES else map(here, places)

    def each(self, work: Any, items: Sequence[Any], here: Callable[[Any], Any]) -> Iterator[Any]:
        """Yield what `work` gives for every item, as answers come, from child processes and from `here`.

        `here` is `work` in this process. The children are started if there are none. An item that fails in a child
        is done here, so that its error is raised here.
        """
        if not self._started and len(items) > 1:
            self._started = [_Process(self.n_processes) for _ in range(self.n_processes - 1)]
            self._beside = [*self._started]
        finished = False
        try:
            yield from answers_of_all(work, items, self._beside, here, self._last_process)
            finished = True
        finally:
            if not finished:  # a thread may still wait for an answer
                self.close()

    def close(self) -> None:
        """End the processes beside this one, and lose what they cached."""
        for process in self._started:
            process.close()
        self._beside, self._started = [], []


def _effort(work: object, part: Part) -> float:
    """Return the work on a file: its bytes × (1 + each model's weight); `MIN_EFFORT_BYTES` for a stored object."""
    if isinstance(part, ObjectAddress):
        return MIN_EFFORT_BYTES
    path = part if isinstance(part, Path) else part.path
    size = 0
    with suppress(OSError):  # whoever scores it says that it is missing
        size = path.stat().st_size
    models = getattr(work, "models", ())
    return size * (1.0 + sum(LINEAR if isinstance(model, LinearModel) else NONLINEAR for model in models))


def serve(socket: int, n_processes: int) -> None:
    """Run as a worker process: answer for files (parts) that come by the socket, until its other end closes."""
    here = SerialWorkers(n_processes)
    work: Any = None
    with suppress(EOFError, OSError), Connection(socket) as connection:
        connection.send(True)  # noqa: FBT003  it has started
        while True:
            another, part = connection.recv()
            work = work if another is None else here.prepared(another)
            connection.send(work(part))
