"""One image as the curator's process holds it."""

import json
import os
import select
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from dpbo.features.isolation.child import Record
from dpbo.features.isolation.image import MAX_MESSAGE_BYTES
from dpbo.features.isolation.limits import Limits
from dpbo.features.isolation.seccomp import RESULT_BYTES
from dpbo_core.errors import Sealed

MAX_WAITING_RECORDS = 4  # records that wait in their pipes while one is predicted
PUBLIC_TIMEOUT_S = 300  # for importing, and for what is tried on public records: no score waits for a clock
_BOOT_CODE = (
    "import sys; sys.path[:] = sys.argv[3:]; "
    "from dpbo.features.isolation.image import serve; serve(int(sys.argv[1]), int(sys.argv[2]))"
)
_ENVIRONMENT = {
    # large pages: a copy of a process copies the table of its pages; no restartable sequences: the kernel would
    # write into a child whenever another process had its turn
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.pthread.rseq=0",
    "PYTHONMALLOC": "malloc",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
    "LC_ALL": "C.UTF-8",
    **dict.fromkeys(
        (
            *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
            *("VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS", "LOKY_MAX_CPU_COUNT", "POLARS_MAX_THREADS"),
        ),
        "1",
    ),
}
_OPTIONAL = ("pandas", "pyarrow", "polars", "matplotlib")  # scikit-learn imports what it finds of them
_INHERITED = ("LD_LIBRARY_PATH", "SYSTEMROOT", "PATH")


def hidden_beside(modules: Collection[str]) -> list[str]:
    """Return the large optional packages (pandas, say) not of `modules`: image processes do not import them."""
    wanted = {name.partition(".")[0] for name in modules}
    return [name for name in _OPTIONAL if name not in wanted]


class Handle:
    """A running image process, from which each record's process is forked. Not for two threads at once."""

    def __init__(self, cpu: int) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = [str(Path(entry or ".").resolve()) for entry in sys.path]
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        with theirs:
            self.process = subprocess.Popen(  # noqa: S603  this interpreter
                [sys.executable, "-s", "-P", "-c", _BOOT_CODE, str(theirs.fileno()), str(cpu), *path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=inherited | _ENVIRONMENT,
                cwd="/",
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._control = ours

    def load(self, modules: Collection[str], needed: Collection[str], limits: Limits) -> str:
        """Have the image import `modules` (the `needed` must succeed) and prepare to fork; "", or why it failed."""
        hidden = hidden_beside(modules)
        message = {"modules": [*modules], "needed": [*needed], "hidden": hidden, **vars(limits)}
        try:
            self._control.send(json.dumps(message).encode())
            self._control.settimeout(PUBLIC_TIMEOUT_S)
            answer = self._control.recv(MAX_MESSAGE_BYTES)
        except OSError:
            return "the process for it ended, or took minutes, while its modules were imported"
        self._control.settimeout(None)
        return answer.decode() if self.process.poll() is None else "the process for it ended"

    def scores(self, model: int, records: Iterable[Record]) -> Iterator[bytes]:
        """Yield, in the records' order, the bytes that the child process of each record wrote.

        Several records are sent ahead and wait in their pipes, so that the image can start the next child as soon
        as the last one is dead, without waiting for this process.
        """
        under_way: deque[int] = deque()
        try:
            for record in records:
                under_way.append(self._begin(b"record", model, record))
                if len(under_way) > MAX_WAITING_RECORDS:
                    yield self._end(under_way.popleft())
            while under_way:
                yield self._end(under_way.popleft())
        finally:
            for result in under_way:
                os.close(result)

    def trial(self, model: int, record: Record) -> tuple[bytes, int, float]:
        """Score a PUBLIC record in a child: the bytes that it wrote, its exit code, and its CPU seconds."""
        result, ending = self._answered(self._begin(b"trial", model, record))
        if not ending:
            raise Sealed
        ending = json.loads(ending)
        return result, ending["exit"], ending["seconds"]

    def scout(self, model: int, record: Record, hidden: Sequence[str]) -> dict[str, Any]:
        """Predict a PUBLIC record in the image itself, useless afterwards: "modules" imported, and "failure"."""
        self._send_record(json.dumps({"hidden": hidden}).encode(), model, record, result := os.pipe())
        os.close(result[1])
        text = b""
        with os.fdopen(result[0], "rb", buffering=0) as report:
            while select.select([report], [], [], PUBLIC_TIMEOUT_S)[0] and (part := report.read(2**16)):
                text += part
        try:
            modules_and_failure: dict[str, Any] = json.loads(text)
        except ValueError:
            return {"modules": [], "failure": "the process ended, or waited for minutes"}
        return modules_and_failure

    def close(self) -> None:
        """End the image process, which child processes are forked from."""
        self._control.close()
        self.process.kill()
        self.process.wait()

    def _begin(self, message: bytes, model: int, record: Record) -> int:
        """Have a child forked for a record; `message` is b"record" or b"trial". Returns the pipe for its result."""
        result = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self._send_record(message, model, record, result)
        except BaseException:
            os.close(result[0])
            raise
        finally:
            os.close(result[1])
        return result[0]

    def _end(self, result: int) -> bytes:
        """Wait until the child ends; returns what it wrote to the pipe `result`, which is closed."""
        result_bytes, ending = self._answered(result)
        if ending != b"done":
            raise Sealed
        return result_bytes

    def _answered(self, result: int) -> tuple[bytes, bytes]:
        """Wait for a child's end: what it wrote to `result`, now closed, and the image's report; b"" for none."""
        try:
            try:
                ending = self._control.recv(MAX_MESSAGE_BYTES)
            except OSError:
                ending = b""
            try:
                result_bytes = os.read(result, RESULT_BYTES + 1)
            except BlockingIOError:
                result_bytes = b""
        finally:
            os.close(result)
        return result_bytes, ending

    def _send_record(self, message: bytes, model: int, record: Record, result: Sequence[int]) -> None:
        """Have the image fork a child for one record, and write the record to that child; no error if one is gone.

        The image is the process that holds the model. With `message`, what it is to do, it is sent three open files
        for its child: the end of a pipe where the record comes, the model's file, and the end of `result` (a pipe's
        two ends) where the child writes its score.
        """
        source, sink = os.pipe()
        try:
            with os.fdopen(sink, "wb", buffering=0) as pipe:
                try:
                    socket.send_fds(self._control, [message], [source, model, result[1]])
                finally:
                    os.close(source)
                written, whole = 0, memoryview(record.to_bytes())
                while written < len(whole):
                    written += pipe.write(whole[written:]) or 0
        except OSError:  # the image is gone, or the child did not come to read it
            return
