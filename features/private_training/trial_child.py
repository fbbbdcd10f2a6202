"""What a trial's process does: shut itself in, lose what it inherited, and only then run what others wrote.

    supervisor   enters namespaces of its own, starts the worker, and ends what the worker leaves running
    worker       reads its job on standard input, trains or scores, and writes one answer to the file it was given

In the namespaces there is no network, no other process, no shared memory, nothing to write to but the trial's own
folder, and neither ledger nor vault. The worker gives up the rights by which it shut itself in, so that nothing it
runs can undo that. Where the system gives no namespaces, the worker runs without. Nothing of an exception is told:
there is then no answer.

Records are scored in a process below the worker. One that ends it or is late scores 0, and the next record begins a
new one: a record changes no score but its own.
"""

import contextlib
import ctypes
import hashlib
import json
import mmap
import os
import random
import resource
import signal
import sys
from numbers import Real
from pathlib import Path
from typing import Any, NoReturn

_NEW_MOUNTS, _NEW_IPC, _NEW_USERS, _NEW_PIDS, _NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _READ_ONLY = 442, -100, 0x8000, 1
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38
_CAPABILITIES, _CAPABILITY_VERSION = 64, 0x20080522  # as many as the system's sets have bits
PLACE = "/dev/shm/trial"  # noqa: S108  where a contained process sees its folder, in shared memory of its own
RECORD_TIMEOUT_S = 60.0  # of one record's score, where no other is stated
UNSEEDED_TORCH = 67280421310721  # the state of PyTorch's generator in every new process


def supervise(answer: int, confinement: dict[str, Any]) -> int:
    """As a child process, confine, run the job on standard input, and end whatever it left; the exit code."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump would hold the records
    _end_with_parent()
    contained = confinement["contained"]
    sockets = path_sockets() if contained else []  # asked before the process has a network of its own
    if contained and not enter_namespaces(confinement["folder"]):
        return 1
    if not contained:
        from dpbo_core.models.public_process import adopt_orphans, end_children

        adopt_orphans()
    worker = os.fork()
    if not worker:
        _end_with_parent()
        if contained:
            _hide([*confinement["hidden"], *sockets])
        os.chdir(PLACE if contained else confinement["folder"])
        _work(answer, rehearsal=confinement["rehearsal"])
        os._exit(0)
    signal.signal(signal.SIGALRM, lambda *_: os.kill(worker, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, confinement["timeout"] or 0.0)
    _, status = os.waitpid(worker, 0)
    if not contained:
        end_children()
    return int(status != 0)


def _end_with_parent() -> None:
    """On Linux end this process when its parent ends, so that a killed search leaves no training behind."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def path_sockets() -> list[str]:
    """Return where other processes listen on files, which a network namespace does not close."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]
        paths = {line.split(maxsplit=7)[7] for line in lines if " /" in line}
        return sorted(path for path in paths if os.access(path, os.W_OK))
    return []


def enter_namespaces(folder: str) -> bool:
    """Enter namespaces where `folder`, seen at `PLACE`, is all that may be written to; False if there are none."""
    if sys.platform != "linux":
        return False
    libc, user, group = ctypes.CDLL(None, use_errno=True), os.getuid(), os.getgid()
    if libc.unshare(_NEW_USERS | _NEW_MOUNTS | _NEW_IPC | _NEW_PIDS | _NEW_NETWORK):
        return False
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    except OSError:
        return False
    memory = str(Path(PLACE).parent)
    if not (_mount(b"none", "/", None, _RECURSIVE | _PRIVATE) and _mount(b"none", memory, b"tmpfs", 0)):
        return False
    Path(PLACE).mkdir()
    whole = _mount(os.fsencode(folder), PLACE, None, _BIND) and _protect("/", read_only=True)
    return whole and all(_protect(place, read_only=False) for place in (memory, PLACE))


def _mount(source: bytes, target: str, kind: bytes | None, flags: int) -> bool:
    return bool(ctypes.CDLL(None).mount(source, os.fsencode(target), kind, ctypes.c_ulong(flags), None) == 0)


def _protect(target: str, *, read_only: bool) -> bool:
    """Make a mount, and for read-only all below it, read-only or writable."""
    bits = (ctypes.c_uint64 * 4)(_READ_ONLY if read_only else 0, 0 if read_only else _READ_ONLY, 0, 0)
    how = _AT_RECURSIVE if read_only else 0
    call = ctypes.CDLL(None).syscall
    arguments = (ctypes.c_long(_MOUNT_SETATTR), ctypes.c_int(_AT_FDCWD), os.fsencode(target), ctypes.c_uint(how))
    return bool(call(*arguments, bits, ctypes.c_size_t(ctypes.sizeof(bits))) == 0)


def _hide(places: list[str]) -> None:
    """Give the worker its own /proc, and hide these places (stores, keys, sockets) by mounting empty ones."""
    _mount(b"proc", "/proc", b"proc", 0)  # without it those outside are seen by name, and not reached
    for place in ["/dev/pts", *places]:
        if os.path.isdir(place):  # noqa: PTH112
            hidden = _mount(b"none", place, b"tmpfs", 0)
        else:
            # A socket may end meanwhile, or lie in a folder that the worker cannot enter.
            hidden = _mount(b"/dev/null", place, None, _BIND) or not os.path.exists(place)  # noqa: PTH110
        if not hidden:
            raise OSError("a store could not be hidden")
    _give_up_rights()


def _give_up_rights() -> None:
    """Lose every capability for good, with which what was hidden could be unmounted again."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for right in range(_CAPABILITIES):  # so that a program of the system's owner gets none either
        libc.prctl(_PR_CAPBSET_DROP, right, 0, 0, 0)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if libc.capset(header, none):
        raise OSError("the rights of this process could not be given up")


def _work(answer: int, *, rehearsal: bool) -> None:
    """Do the job on standard input; its answer, a line of JSON and then bytes, to the file `answer`."""
    head: dict[str, Any] | None
    try:
        import cloudpickle

        job = cloudpickle.load(sys.stdin.buffer)  # of the process that started this one
        head, body = {"train": _train, "score": _score, "nothing": _start}[job["what"]](job)
    except BaseException as error:  # noqa: BLE001  what it says may hold a record; a rehearsal's records are nobody's
        head, body = {"error": _shown(error)} if rehearsal else None, b""
    if head is not None:
        with os.fdopen(answer, "wb") as file:
            file.write(json.dumps(head).encode() + b"\n" + body)


def _start(job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:  # noqa: ARG001
    return {}, b""


def _shown(error: BaseException) -> str:
    """Return an error's text and the place in the code where it was raised."""
    import traceback

    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{''.join(traceback.format_exception_only(error)).strip()} ({last.filename}, line {last.lineno})"


def _train(job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    import cloudpickle
    import numpy as np

    trial = Trial(job["seed"], job["variable"], job["value"])
    seeds: list[int] = []
    np.random.seed(words_of(another_seed(job["seed"], "numpy")))  # noqa: NPY002  what a trainer may draw from
    random.seed(another_seed(job["seed"], "python"))
    for module in (np.random, random):
        module.seed = _noting(module.seed, seeds)  # type: ignore[attr-defined]
    train = function_of(job["train"])
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(another_seed(job["seed"], "global"))
    model = train(dict(job["params"]), cloudpickle.loads(job["data"]), trial)
    if "torch" in sys.modules:
        seeds.append(int(sys.modules["torch"].initial_seed()))
    return {"spent": trial.reported, "seeds": seeds}, cloudpickle.dumps(model)


def _noting(seed: Any, seeds: list[int]) -> Any:
    """Return the seeding function `seed`, which notes whole numbers that it is given."""

    def noted(value: Any = None, *others: Any) -> Any:
        if isinstance(value, int):
            seeds.append(value)
        return seed(value, *others)

    return noted


def _score(job: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Score each record alone, in whole steps of 2⁻²⁴: 0 for one that fails, is late or ends its process."""
    import numpy as np  # noqa: F401  once, for all processes below

    from dpbo_core.models.integer_sums import to_grid  # noqa: F401

    n = job["n_records"]
    steps, reached = mmap.mmap(-1, 8 * max(1, n)), mmap.mmap(-1, 8)  # shared with the processes below
    first = 0
    while first < n:
        reached[:] = (-1).to_bytes(8, "big", signed=True)
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            _score_from(first, job, steps, reached, writer)
        os.close(writer)
        os.waitpid(child, 0)
        os.set_blocking(reader, False)  # what it started may have kept the other end
        reply = b""
        with contextlib.suppress(BlockingIOError):
            reply = os.read(reader, 4096)
        os.close(reader)
        last = int.from_bytes(reached[:], "big", signed=True)
        if last < 0:
            raise RuntimeError(reply.decode(errors="replace") or "loading ended the process")
        first = last + 1
    return {}, steps[: 8 * n]


def _score_from(first: int, job: dict[str, Any], steps: mmap.mmap, reached: mmap.mmap, reply: int) -> NoReturn:
    """Score the records from `first` in this process, and end it; `reached` holds the current record."""
    try:
        _end_with_parent()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        import cloudpickle
        import numpy as np

        from dpbo_core.models.integer_sums import to_grid

        limit = job["timeout"] or RECORD_TIMEOUT_S
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            score = function_of(job["score"])
            model, data = cloudpickle.loads(job["model"]), cloudpickle.loads(job["data"])
        except BaseException as error:  # noqa: BLE001  told in a rehearsal alone
            os.write(reply, _shown(error).encode(errors="replace")[:4096])
            os._exit(1)
        for i in range(first, job["n_records"]):
            reached[:] = i.to_bytes(8, "big", signed=True)
            value = np.zeros(1)
            signal.setitimer(signal.ITIMER_REAL, limit)
            with contextlib.suppress(BaseException):  # what it says may hold the record
                value[0] = float(np.asarray(score(model, record_of(data, i))).reshape(-1)[0])
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            steps[8 * i : 8 * i + 8] = to_grid(value, 1.0, broken_score=0.0).tobytes()
    finally:
        os._exit(0)


def function_of(pickled: bytes) -> Any:
    """Return the function in a pickle, or the one whose import path it holds."""
    import cloudpickle

    held = cloudpickle.loads(pickled)
    if not isinstance(held, str):
        return held
    from importlib import import_module

    module, _, name = held.partition(":")
    return getattr(import_module(module), name)


def rows_of(data: Any, index: Any) -> Any:
    """Return record `index`, or the records of an array of indices, of a table or of several in a tuple."""
    if isinstance(data, tuple):
        return tuple(rows_of(part, index) for part in data)
    rows = slice(index, index + 1) if isinstance(index, int) else index
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    return [data[i] for i in rows] if isinstance(data, list) and not isinstance(rows, slice) else data[rows]


def record_of(data: Any, i: int) -> Any:
    """Return record i alone; a single value in the type that it has by itself, whatever the others are.

    One text among numbers makes a whole column mixed, and no other record may be scored differently for it.
    """
    import numpy as np

    if isinstance(data, tuple):
        return tuple(record_of(part, i) for part in data)
    record = rows_of(data, i)
    if hasattr(record, "infer_objects"):
        return record.infer_objects()
    mixed = isinstance(record, np.ndarray) and record.dtype == object and record.shape == (1,)
    return np.array([record[0]]) if mixed and isinstance(record[0], int | float | str) else record


def accuracy(model: Any, record: tuple[Any, Any]) -> float:
    """Return 1.0 if the model's `predict` gives the record's label, else 0.0."""
    X, y = record
    return float(next(iter(model.predict(X))) == next(iter(y)))


def spend_of(spent: Any) -> Any:
    """Return what an engine, accountant, event, history or number says was spent, as plain JSON.

    A history of (noise, rate, steps) has equal neighbours added up; an accountant with a `total` is (ε, δ), or ε.
    """
    spent = getattr(spent, "accountant", spent)
    spent = getattr(spent, "history", spent)
    if callable(getattr(spent, "total", None)):
        epsilon, delta = map(float, spent.total())
        return epsilon if delta == 0.0 else [epsilon, delta]
    if isinstance(spent, Real):
        return float(spent)
    if isinstance(spent, list | tuple):
        if all(isinstance(number, Real) for number in spent):  # (ε, δ)
            return list(map(float, spent))
        merged: list[list[float]] = []
        for entry in spent:
            noised, rate, steps = map(float, entry)
            if merged and merged[-1][:2] == [noised, rate]:
                merged[-1][2] += steps
            else:
                merged.append([noised, rate, steps])
        return merged
    inner: Any = getattr(spent, "event", None)
    if type(spent).__name__ == "SelfComposedDpEvent" and hasattr(inner, "sampling_probability"):
        noise = getattr(inner.event, "noise_multiplier", None)
        if noise is not None:
            return [[float(noise), float(inner.sampling_probability), int(spent.count)]]
    return repr(spent)


def words_of(seed: int) -> list[int]:
    """Return 64 bits as two words, the upper one first."""
    return [seed >> 32, seed & 0xFFFFFFFF]


def another_seed(seed: int, purpose: str) -> int:
    """Return 64 bits that are independent of those for any other purpose, for whoever does not know the seed."""
    return int.from_bytes(hashlib.sha256(f"{seed} {purpose}".encode()).digest()[:8], "big")


class Trial:
    """What a trainer is handed beside hyperparameters and data: its noise, its randomness and its folder.

    Attributes:
        seed: 64 secret bits, other ones in every trial. Nothing below draws the same as a generator made of it.
        rng: a NumPy generator.
        folder: a folder of the trial's own, gone afterwards. It is empty after a kill too, since what is resumed
            from a checkpoint would draw the same noise again.
        reported: what `spent` was told, as plain JSON; None if nothing.
    """

    def __init__(self, seed: int, variable: str, value: float) -> None:
        import numpy as np

        self.seed, self.rng, self.folder = seed, np.random.default_rng(another_seed(seed, "rng")), Path.cwd()
        self.reported: Any = None
        self._variable, self._generators = variable, 0
        if variable:
            setattr(self, variable, value)

    def __getattr__(self, name: str) -> Any:
        handed = self.__dict__.get("_variable") or "no noise: its cost is declared"
        raise AttributeError(f"this trial has no {name!r}; the declared cost hands it {handed}")

    def spent(self, spent: Any) -> None:
        """Report what the training spent, to be compared with what was priced: an engine, accountant or event."""
        self.reported = spend_of(spent)

    def report(self, step: int, value: float) -> None:
        """Accept an intermediate score, as Optuna does, and drop it."""

    def torch_generator(self) -> Any:
        """Return a PyTorch generator of its own randomness: no two of them, nor PyTorch's own, draw the same."""
        import torch

        self._generators += 1
        torch.manual_seed(another_seed(self.seed, f"global {self._generators}"))
        return torch.Generator().manual_seed(another_seed(self.seed, f"generator {self._generators}"))

    def jax_key(self) -> Any:
        """Return a JAX key of 64 bits, the same at every call: split it."""
        import jax
        import numpy as np

        words = np.array(words_of(another_seed(self.seed, "jax")), dtype=np.uint32)
        return jax.random.wrap_key_data(jax.numpy.asarray(words), impl="threefry2x32")
