"""What confines a process beside the filter: no clock, silent deaths, a share of time and memory of its own.

Why no clock: a child that can read one learns how long the records before it took, and how long a record takes is
its own doing. So the time-stamp counter traps, the pages through which the kernel tells the time hold zeros, and
the system calls that tell it fail; `time`'s functions give a constant, since harmless code asks them in passing.
"""

import contextlib
import ctypes
import mmap
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_TSC, _PR_TSC_SIGSEGV = 1, 4, 26, 2
_MADV_WIPEONFORK = 18
_FATAL_SIGNALS = (
    signal.SIGSYS,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGFPE,
    signal.SIGILL,
    signal.SIGABRT,
    signal.SIGTRAP,
)
_CLOCK_PAGES = "[vvar"
_MAP_FIXED = 0x10
_ZEROS_AT = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_FIXED
_CLOCK_FUNCTIONS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_KILL_SIGNAL = int(signal.SIGKILL)
_CLONE_NUMBERS = {"x86_64": 56, "aarch64": 220}


@dataclass(frozen=True)
class Limits:
    """Of one record's process."""

    cpu_seconds: int = 5  # of its own CPU clock; nobody's wall clock decides a score
    memory: int = 2**30  # bytes of address space beyond the image's own


def stop_the_clocks() -> None:
    """Replace this process's functions of `time` by ones that return 0, for later imports too."""
    for name in _CLOCK_FUNCTIONS:
        setattr(time, name, lambda: 0.0)
        setattr(time, f"{name}_ns", lambda: 0)


def take_the_clocks_away(libc: ctypes.PyDLL) -> bool:
    """Replace the kernel's clock pages by zeros and forbid the processor's counter; True if it worked.

    Then only a system call tells the time, and those are filtered.
    """
    place = libc.mmap
    place.restype = ctypes.c_void_p
    place.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    done = True
    for start, end, kind in _memory_mappings():
        if kind.startswith(_CLOCK_PAGES):
            done = place(start, end - start, mmap.PROT_READ, _ZEROS_AT, -1, 0) == start and done
    done = done and not any(kind.startswith(_CLOCK_PAGES) for _, _, kind in _memory_mappings())
    return done and libc.prctl(_PR_SET_TSC, _PR_TSC_SIGSEGV, 0, 0, 0) == 0


def shared_memory() -> bool:
    """Return whether a copy of this process would share writable memory with it; True if that cannot be read."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    flags = [set(line.split()[1:]) for line in lines if line.startswith("VmFlags:")]
    return not flags or any({"sh", "mw"} <= flag for flag in flags)  # shared, may be written to


def close_files(above: int) -> None:
    """Close every open file above a descriptor."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # the listing's own is closed by now
            if int(entry.name) > above:
                os.close(int(entry.name))


def threads() -> int:
    """Return how many threads this process has."""
    return len(list(Path("/proc/self/task").iterdir()))


def _memory_mappings() -> list[tuple[int, int, str]]:
    """Return the (start, end, name) of every range of memory that this process maps."""
    mappings = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        ends, *rest = line.split()
        start, end = (int(part, 16) for part in ends.split("-"))
        mappings.append((start, end, rest[-1]))
    return mappings


class _NullStream:
    """A stream that drops what it is given."""

    encoding, errors, closed = "utf-8", "replace", False

    def write(self, text: str) -> int:
        """Drop the text; its length, as a stream answers."""
        return len(text)

    def flush(self) -> None:
        """A stream that goes nowhere has nothing to flush."""

    def isatty(self) -> bool:
        """False: nothing is shown on a terminal."""
        return False


def silence(libc: ctypes.PyDLL) -> None:
    """Suppress core dumps, output, and kernel log lines of this process and its copies.

    The kernel logs a fatal signal that has no handler. With `_exit` as the handler it sees an ordinary exit.
    """
    libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    handler = ctypes.cast(libc._exit, ctypes.c_void_p)  # libc's name for it
    libc.signal.argtypes, libc.signal.restype = [ctypes.c_int, ctypes.c_void_p], ctypes.c_void_p
    for number in _FATAL_SIGNALS:
        libc.signal(number, handler)
    sys.stdout = sys.stderr = sys.__stdout__ = sys.__stderr__ = _NullStream()  # type: ignore[misc, assignment]


def bound(memory: int) -> None:
    """Limit the memory of this process and its copies, and let them write no file."""
    bound_memory(memory)
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_MEMLOCK):
        resource.setrlimit(what, (0, 0))


def bound_memory(memory: int) -> None:
    """Limit the address space to `memory` bytes beyond what is in use."""
    most = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE + memory
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def bound_time(seconds: int, libc: ctypes.PyDLL) -> None:
    """Limit this child to so many CPU seconds, and have it end when its parent ends."""
    libc.prctl(_PR_SET_PDEATHSIG, _KILL_SIGNAL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


class Copier:
    """Copies this process, by the bare system call.

    Nothing runs in the copy (no hook that seeds a generator again), and neither process keeps the copy's number,
    which would say how many processes were started meanwhile: a page that is wiped in copies tells them apart.
    """

    def __init__(self, machine: str, libc: ctypes.PyDLL) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._page.madvise(_MADV_WIPEONFORK)
        self._page[0] = 1
        self._arguments = (_CLONE_NUMBERS[machine], int(signal.SIGCHLD), 0, 0, 0, 0)
        self._call = libc.syscall
        self._call.argtypes, self._call.restype = [ctypes.c_long] * 6, None

    def copy(self) -> bool:
        """Fork this process: True in the child, False in the parent."""
        ctypes.set_errno(0)
        self._call(*self._arguments)
        if self._page[0] == 0:
            return True
        if ctypes.get_errno():
            raise OSError(ctypes.get_errno(), "no process")
        return False
