"""Public work on third-party estimators, in a child process that is ended before its result is used.

The child gets the public rows and the search's settings, but no ledger, no secret of the environment and no
sensitive path. It returns an array of numbers, which the caller checks. Changes that predicting made in modules,
and processes left running, end with the child. This protects against careless code, not malicious code: the child
runs as the same user (docs, threat model).
"""

import contextlib
import ctypes
import io
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid

INHERITED_VARIABLES = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "TMPDIR")
_PR_SET_CHILD_SUBREAPER = 36
_BOOT_CODE = (
    "import sys; sys.path[:0] = [p for p in sys.argv[2:] if p not in sys.path]; "
    "from dpbo_core.models.public_process import answer; answer(int(sys.argv[1]))"
)


class Pickle(bytes):
    """A pickled argument that only the child process unpickles."""


def numbers_of(work: Callable[..., NDArray[Any]], *arguments: Any) -> NDArray[Any]:
    """Return the array that `work` returns for public arguments, computed in a child process."""
    environment: Mapping[str, str] = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    with TemporaryFile() as result:
        process = subprocess.Popen(  # noqa: S603  this interpreter
            [sys.executable, "-s", "-P", "-c", _BOOT_CODE, str(result.fileno()), *map(os.path.abspath, sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            pass_fds=[result.fileno()],
            start_new_session=True,
        )
        try:
            process.communicate(pickle.dumps((work, arguments)))
        finally:
            with contextlib.suppress(ProcessLookupError):  # whatever it started and left
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        result.seek(0)
        content = b"" if process.returncode else result.read()  # it was killed before it had ended the others
    numbers = np.zeros(0, dtype="S1")
    with contextlib.suppress(ValueError, EOFError, OSError):
        numbers = np.load(io.BytesIO(content), allow_pickle=False)
    if numbers.dtype.kind in "ifu":
        return np.asarray(numbers)
    if numbers.dtype.kind == "U" and numbers.shape == (3,):
        what, cause, remedy = map(str, numbers)
        raise StudyInvalid(what, cause=cause, remedy=remedy)
    raise no_result_error("the process ended without a result, or it cannot be handed over")


def no_result_error(cause: str) -> StudyInvalid:
    """Return the error for an estimator whose child process gives nothing that can be used."""
    return StudyInvalid(
        "the estimator could not be trained or asked in a process of its own",
        cause=cause,
        remedy="fit and predict with it by hand, on the public rows alone",
    )


def answer(result: int) -> None:
    """As a child process do the work on standard input, its array to the file `result`, then end all it started.

    A second child does the work, so that this process survives it, adopts what it left running, and ends that.
    """
    adopt_orphans()
    worker = os.fork()
    if not worker:
        _work(result)
        os._exit(0)
    os.waitpid(worker, 0)
    end_children()


def adopt_orphans() -> None:
    """On Linux let what outlives its parent become a child of this process, in whichever session it is."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_children() -> None:
    """End every child of this process, and those that it adopted."""
    while left := [int(pid) for task in Path("/proc/self/task").glob("*/children") for pid in _words_of(task)]:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _words_of(file: Path) -> list[str]:
    with contextlib.suppress(OSError):  # a thread that has ended
        return file.read_text(encoding="ascii").split()
    return []


def _work(result: int) -> None:
    """Call the function on standard input with its arguments; its array, or its error, goes to file `result`."""
    try:
        work, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301  of the process that started this one
        opened = [pickle.loads(one) if isinstance(one, Pickle) else one for one in arguments]  # noqa: S301
        numbers = np.asarray(work(*opened))
    except StudyInvalid as error:
        numbers = np.array([error.what, error.cause, error.remedy])
    with os.fdopen(result, "wb") as file:
        np.save(file, numbers, allow_pickle=False)
