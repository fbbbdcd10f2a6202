"""Estimators that try to carry something from record to record, or to break out. Images import them too.

A row is (marker, x, secret, 0). A marked row PLANTS; every other row LOOKS, and its prediction says what it saw.
The honest prediction is x > 0.5; whoever sees anything predicts 7, which no class equals.
"""

import builtins
import contextlib
import ctypes
import datetime
import gc
import math
import mmap
import multiprocessing.shared_memory
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

MARK, SEEN = 9.0, 7
KEY = 0x5A5A_1234_9876_5A5A
LOCKED = 2021257188836582894  # a secret's bits under the key: the secret itself stands nowhere in this module
STARTED = time.monotonic()
PLANTED = []
FILE = Path(tempfile.gettempdir()) / f"dpbo-hostile-{os.getuid()}"
LIBC = ctypes.CDLL(None, use_errno=True)
GENERATOR = np.random.default_rng(5)
OLD_PAGE = "[vsyscall]" in Path("/proc/self/maps").read_text()
LOCK = threading.Lock()
SHARED = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


class Hostile:
    calls = 0

    def __init__(self, act, state=None):
        self.act, self.state = act, state or []

    def get_params(self, deep=True):
        return {"act": self.act}

    def fit(self, X, y):
        return self

    def predict(self, rows):
        honest = (rows[:, 1] > 0.5).astype(np.int64)
        found = ACTS[self.act](self, rows, bool(rows[0, 0] == MARK))
        if found is True:
            return np.full(len(rows), SEEN)
        return honest if found is None or found is False else found


class OnLoading(Hostile):
    """Counts how often it was unpickled, in its module."""

    def __setstate__(self, state):
        self.__dict__.update(state)
        PLANTED.append(1)

    def predict(self, rows):
        return np.full(len(rows), SEEN) if len(PLANTED) > 1 else super().predict(rows)


def counted_score(truth, prediction):
    """A score that remembers how often it was asked, in itself and in its module."""
    counted_score.calls = getattr(counted_score, "calls", 0) + 1
    PLANTED.append(prediction)
    return 0.0 if counted_score.calls + len(PLANTED) > 2 else float(truth == prediction)


def _state(plant, look):
    def act(self, rows, marked):
        try:
            return plant(self, rows) if marked else bool(look(self))
        except OSError:
            return None  # it was not let

    return act


def _do(what):
    """What a marked row does for its effect, whatever it is; then everyone is honest."""

    def act(self, rows, marked):
        if marked:
            what()

    return act


def _count(self, rows, marked):
    Hostile.calls += 1
    return Hostile.calls > 1


def _patch_numpy(self, rows):
    np.greater = np.ones_like = None
    builtins.len = None


def _draw(self, rows, marked):
    """Every process draws the same numbers from what it was copied with."""
    drawn = (GENERATOR.integers(9), random.Random(3).random(), np.random.random())  # noqa: NPY002
    if marked:
        GENERATOR.random(1000), np.random.seed(1), random.seed(1)  # noqa: NPY002
    self.state.append(drawn)
    return np.array([GENERATOR.integers(2)])


def _remember(self, rows):
    self.state.append(rows.copy())
    PLANTED.append(rows.copy())


def _write_file(self, rows):
    FILE.write_text("seen")


def _write_files(self, rows):
    """To every open file there may be."""
    for fd in range(64):
        with contextlib.suppress(OSError):
            os.write(fd, struct.pack("<q", 1))


def _scan(self):
    """Every object the collector knows, and 8 MB of this process's heap."""
    for item in gc.get_objects():
        if isinstance(item, np.ndarray) and item.dtype == np.float64 and _has_secret(item.ravel().view(np.uint64)):
            return True
    sbrk = LIBC.sbrk
    sbrk.restype, sbrk.argtypes = ctypes.c_void_p, [ctypes.c_long]
    top = (sbrk(0) - 2**23) & ~7
    return _has_secret(np.frombuffer((ctypes.c_char * 2**23).from_address(top), dtype=np.uint64))


def _has_secret(words):
    return bool(((words ^ np.uint64(KEY)) == np.uint64(LOCKED)).any())


def _burn(self, rows):
    n = 0
    while n < 1_000_000:
        n += 1


def _clocks(self):
    """Any clock that moves, or is not where every record finds it."""
    ways = [
        lambda: time.time() > 0.0,
        lambda: time.perf_counter_ns() > 0,
        lambda: time.monotonic() != STARTED,
        lambda: datetime.datetime.now(tz=datetime.UTC).year > 1970,
        lambda: any(_raw_clock(clock) for clock in range(12)),
        lambda: os.times().elapsed > 0.0,
        lambda: time.clock_gettime(6) > 0.0,  # the coarse one, for which Python has no name
        lambda: os.getloadavg()[0] >= 0.0,
        lambda: os.getpid() != 0,
        lambda: os.getppid() != 0,
        lambda: threading.get_native_id() != 0,
    ]
    for way in ways:
        try:
            if way():
                return True
        except OSError:
            continue
    return False


def _raw_clock(clock):
    spec = (ctypes.c_long * 2)()
    LIBC.clock_gettime(clock, spec)
    return bool(spec[0] or spec[1])


def _machine_code(text, *arguments):
    page = mmap.mmap(
        -1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    )
    page.write(bytes.fromhex(text))
    place = ctypes.addressof(ctypes.c_char.from_buffer(page))
    return ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * len(arguments))(place)(*arguments)


def _runs_code(text):
    """Machine code for x86_64; whoever survives it is honest, and could do what it must not."""

    def act(self, rows, marked):
        if not marked:
            _machine_code(text)

    return act


def _old_clock(self, rows, marked):
    """The page at a fixed place that the kernel keeps for old programs: gettimeofday, time."""
    if not OLD_PAGE:
        return None  # such a kernel has no such clock
    spec = (ctypes.c_long * 2)()
    call = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)(0xFFFFFFFFFF600000)
    call(ctypes.addressof(spec), 0)
    return bool(spec[0] or spec[1])


def _handled(self, rows):
    """Forbidden calls with a handler in their way."""
    for number in (signal.SIGSYS, signal.SIGSEGV, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
    _write_file(self, rows)


def _hog():
    PLANTED.append(np.ones(10 * 2**27))


def _ptrace():
    LIBC.ptrace(16, os.getppid(), 0, 0)


def _raises(error):
    def act():
        raise error

    return act


def _gives(what):
    return lambda self, rows, marked: what if marked else None


def _twice(self, rows, marked):
    """A result of its own, and then the other one."""
    if marked:
        os.write(3, struct.pack("<q", 2**24))


def _forever(self, rows, marked):
    while marked:
        pass


def _recursion():
    return _recursion() + ctypes.pythonapi.Py_IsInitialized()


def _deep():
    sys.setrecursionlimit(10**9)
    _recursion()


ACTS = {
    "nothing": lambda self, rows, marked: None,
    "counts": _count,
    "remembers": _state(_remember, lambda self: self.state or PLANTED),
    "class attribute": _state(
        lambda self, rows: setattr(Hostile, "state_", 1), lambda self: hasattr(Hostile, "state_")
    ),
    "builtins": _state(lambda self, rows: setattr(builtins, "seen", 1), lambda self: hasattr(builtins, "seen")),
    "numpy": _state(_patch_numpy, lambda self: np.greater is None or builtins.len is None),
    "environment": _state(lambda self, rows: os.environ.update(SEEN="1"), lambda self: "SEEN" in os.environ),
    "modules": _state(lambda self, rows: sys.modules.update(seen=1), lambda self: "seen" in sys.modules),
    "private page": _state(lambda self, rows: SHARED.write(b"1"), lambda self: SHARED[0] != 0),
    "draws": _draw,
    "scans memory": _state(_remember, _scan),
    "file": _state(_write_file, lambda self: FILE.exists()),
    "open files": _state(_write_files, lambda self: False),
    "handlers": _state(_handled, lambda self: FILE.exists()),
    "clocks": _state(_burn, _clocks),
    "processor's counter": _runs_code("0f3148c1e2204809d0c3"),  # rdtsc; shl rdx, 32; or rax, rdx; ret
    "its other counter": _runs_code("0f01f948c1e2204809d0c3"),  # rdtscp …
    "performance counter": _runs_code("31c90f3348c1e2204809d0c3"),  # xor ecx, ecx; rdpmc …
    "old system calls": _runs_code("b814000000cd80c3"),  # mov eax, 20 (getpid of i386); int 0x80; ret
    "x32 system calls": _runs_code("b8270000400f05c3"),  # mov eax, 0x40000027; syscall; ret
    "clock at a fixed place": _old_clock,
    "shared memory": _do(lambda: multiprocessing.shared_memory.SharedMemory("dpbo", create=True, size=9)),
    "mapped memory": _do(lambda: mmap.mmap(-1, 4096)),
    "memory file": _do(lambda: os.memfd_create("x")),
    "semaphore": _do(lambda: LIBC.semget(77, 1, 0o1666)),
    "pipe": _do(os.pipe),
    "sleeps": _do(lambda: time.sleep(3600)),
    "sleeps in C": _do(lambda: LIBC.sleep(3600)),
    "pauses": _do(signal.pause),
    "selects": _do(lambda: select.select([], [], [], 3600)),
    "reads": _do(lambda: os.read(3, 1)),
    "locks twice": _do(lambda: (LOCK.acquire(), LOCK.acquire())),
    "forks": _do(os.fork),
    "runs": _do(lambda: subprocess.run(["/bin/true"], check=False)),
    "thread": _do(lambda: threading.Thread(target=print).start()),
    "socket": _do(lambda: socket.create_connection(("127.0.0.1", 9))),
    "prints": _do(lambda: print("seen", file=sys.stdout, flush=True)),
    "alarm": _do(lambda: signal.setitimer(signal.ITIMER_REAL, 0.1)),
    "kills its parent": _do(lambda: os.kill(os.getppid(), signal.SIGKILL)),
    "kills everyone": _do(lambda: LIBC.kill(-1, 0)),
    "stops": _do(lambda: LIBC.raise_(19) if hasattr(LIBC, "raise_") else LIBC.kill(0, 19)),
    "ptrace": _do(_ptrace),
    "hogs": _do(_hog),
    "huge pages": _do(lambda: mmap.mmap(-1, 2**21, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000)),
    "crashes": _do(lambda: ctypes.string_at(0)),
    "recursion": _do(_deep),
    "aborts": _do(os.abort),
    "exits": _do(lambda: os._exit(0)),
    "leaves": _do(_raises(SystemExit("seen"))),
    "raises": _do(_raises(BaseException("seen"))),
    "interrupts": _do(_raises(KeyboardInterrupt())),
    "priority": _do(lambda: os.nice(5)),
    "limits": _do(lambda: LIBC.setrlimit(7, (ctypes.c_ulong * 2)(0, 0))),
    "wrong shape": _gives(np.zeros((3, 2))),
    "no number": _gives(["text", "more"]),
    "nan": _gives(np.array([math.nan])),
    "objects": _gives(np.array([object()], dtype=object)),
    "two results": _twice,
    "turns for ever": _forever,
}
