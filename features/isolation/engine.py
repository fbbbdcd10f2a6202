"""The curator's side: images, one a core, and records dealt out to them by their index.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x, y | `rows`, `truth` | records | (m, d), (m,) |
| — | result of `steps` | round(2²⁴ g/G) of each record, 0 if its process gave nothing | (m,) integers |

Which image scores a record, and in which order, is a function of m alone. One child lives at a time in an image;
its result comes through a pipe of its own, to this process alone.
"""

import fcntl
import os
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo.features.isolation.child import Record, result_of
from dpbo.features.isolation.handle import Handle
from dpbo.features.isolation.limits import Limits
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.integer_sums import GRID

BASE_MODULES = ("dpbo_core.models.scores.accuracy",)


class Engine:
    """Image processes with certain modules loaded, one for each core, from which records' processes are forked."""

    def __init__(self, modules: Iterable[str], needed: Iterable[str], limits: Limits) -> None:
        self._lock, self._handles = threading.Lock(), [Handle(cpu) for cpu in cores()]
        self._finalizer = weakref.finalize(self, _close_in_owner, self._handles, os.getpid())
        modules, needed = [*BASE_MODULES, *modules], [*needed]
        with ThreadPoolExecutor(len(self._handles)) as pool:
            messages = list(pool.map(lambda handle: handle.load(modules, needed, limits), self._handles))
        if any(messages):
            self.close()
            raise unavailable_modules(next(message for message in messages if message))

    def steps(self, model: bytes, rows: NDArray[np.float64], truth: NDArray[Any]) -> NDArray[np.int64]:
        """Return each record's score from 0 to 2²⁴, (m,), by its own process: 0 if that fails."""
        scores = np.zeros(len(rows), dtype=np.int64)

        stopped = threading.Event()

        def work(first: int) -> None:
            own = range(first, len(rows), len(self._handles))
            records = (Record(rows[i], truth[i : i + 1]) for i in own)
            for i, answer in zip(own, self._handles[first].scores(file, records), strict=True):
                scores[i] = result_of(answer, GRID) or 0
                if stopped.is_set():
                    return

        with self._lock, in_memory(model) as file, ThreadPoolExecutor(len(self._handles)) as pool:
            try:
                list(pool.map(work, range(len(self._handles))))
            except BaseException:  # an image is gone, or the study is being stopped: an answer may be on its way
                stopped.set()
                self.close()
                raise
        return scores

    def trial(self, model: bytes, record: Record) -> tuple[int | None, int, float]:
        """A PUBLIC record's score from 0 to 2²⁴ (None without one), its child's exit code, and its CPU seconds."""
        with self._lock, in_memory(model) as file:
            try:
                answer, ending, seconds = self._handles[0].trial(file, record)
            except BaseException:  # interrupted: its answer would be taken for the next record's
                self.close()
                raise
        return result_of(answer, GRID), ending, seconds

    @property
    def running(self) -> bool:
        """Whether the image processes (those that child processes are forked from) still serve."""
        return self._finalizer.alive

    def close(self) -> None:
        """End the image processes, which child processes are forked from, and every child they still have."""
        self._finalizer()


def engine(modules: tuple[str, ...], needed: tuple[str, ...], limits: Limits, process: int) -> Engine:
    """A cached, running engine whose images, forked into children, import `modules`; no `needed` one may fail."""
    current = _engine(modules, needed, limits, process)
    if not current.running:
        _engine.cache_clear()
        current = _engine(modules, needed, limits, process)
    return current


@lru_cache(maxsize=2)
def _engine(modules: tuple[str, ...], needed: tuple[str, ...], limits: Limits, process: int) -> Engine:  # noqa: ARG001
    """Return the engine first started with these arguments, cached, which may have been closed since."""
    return Engine(modules, needed, limits)


def scouted(model: bytes, record: Record, hidden: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """Predict a PUBLIC record without the `hidden` packages: the modules that it imported, and the error or ""."""
    handle = Handle(cores()[0])
    try:
        with in_memory(model) as file:
            report = handle.scout(file, record, hidden)
    finally:
        handle.close()
    return tuple(sorted(report["modules"])), str(report["failure"])


def cores() -> list[int]:
    """Return the processor cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


def unavailable_modules(why: str) -> StudyInvalid:
    """Return the error to raise where records cannot be scored in processes of their own, and `why`."""
    return StudyInvalid(
        'rowwise = "enforced" is not to be had here',
        cause=why,
        remedy='use Linux (x86_64, or aarch64 from 6.12) with seccomp, or accepts = ["rowwise_predictions"]',
    )


@contextmanager
def in_memory(content: bytes) -> Iterator[int]:
    """Context with the descriptor of a read-only file in memory that has this content."""
    file = os.memfd_create("model", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(file, left) :]
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL  # Linux's alone
        fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
        yield file
    finally:
        os.close(file)


def _close_in_owner(handles: list[Handle], process: int) -> None:
    """End the image processes, unless this one is a forked copy of `process`, which started them."""
    if os.getpid() == process:  # a copy of this process has no business with them
        for handle in handles:
            handle.close()
