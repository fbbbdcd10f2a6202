"""What a child does with its one record: take it, lose everything else, and only then run what others wrote.

| symbol | name here | meaning | shape |
|---|---|---|---|
| x, y | `Record` | the record's features, and its class index or target | (d,), scalar |
| round(2²⁴ g/G) | `steps` | the record's score in whole steps of the grid | integer in 0 … 2²⁴ |

Nothing of an exception, a wrong shape or a death is told: the pipe then holds no 8 bytes, which is the constant.
"""

import datetime
import os
import pickle
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbo.features.isolation.seccomp import RESULT_FD
from dpbo_core.data.raw_cells import as_cells
from dpbo_core.models.integer_sums import to_grid
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.bounded_function import BoundedFunction
from dpbo_core.models.scores.kinds import RecordScore, shaped


class Probe:
    """Predicts 1 where nothing prevented it."""

    def predict(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """Try the `FORBIDDEN_CALLS` entry that the row names, which a child must not do; then the label 1, (1,)."""
        FORBIDDEN_CALLS[int(rows[0, 0])]()
        return np.ones(1, dtype=np.int64)


def _read_clock() -> None:
    """Raise an error unless the clock runs: a step of the probe that must fail in a confined child."""
    if datetime.datetime.now(tz=datetime.UTC).year == 1970:
        raise ValueError


FORBIDDEN_CALLS: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: time.sleep(0.001),
    _read_clock,
    lambda: os.open("/proc/self/mem", os.O_RDONLY),
    lambda: socket.socket(),
    lambda: os.fork(),
    lambda: threading.Thread(target=int).start(),
    lambda: os.kill(os.getppid(), signal.SIGTERM),
    lambda: os.read(0, 1),
)


_HEAD = struct.Struct("<qq8s")  # features, whether the target is a number, the class index or target
_CELLS = 2  # instead of that: bytes of pickled cells, and the number's flag beside it
N_REHEARSALS = 30  # CPython adapts its instructions within the first dozens of calls
_RESULT = struct.Struct("<q")
_LENGTH = struct.Struct("<q")


@dataclass(frozen=True, repr=False)
class Record:
    """One record, (d,) and a scalar array (1,). Its repr says nothing."""

    x: NDArray[Any]
    truth: NDArray[Any]

    def to_bytes(self) -> bytes:
        """Return the record as bytes for a child process; numbers take a length that d alone decides."""
        number = self.truth.dtype.kind == "f"
        if self.x.dtype == object:  # cells of a table's own columns: plain values, whose bytes are as many
            cells = pickle.dumps(self.x.tolist(), protocol=5)
            return _HEAD.pack(len(cells), number | _CELLS, self.truth.tobytes()) + cells
        return _HEAD.pack(len(self.x), number, self.truth.tobytes()) + self.x.tobytes()

    @classmethod
    def of_file(cls, fd: int) -> "Record":
        """Return the record that another process wrote to the pipe `fd`."""
        d, number, truth = _HEAD.unpack(_read_exactly(fd, _HEAD.size))
        if number & _CELLS:
            x = as_cells(pickle.loads(_read_exactly(fd, d)))  # noqa: S301  pickled by the curator
        else:
            x = np.frombuffer(_read_exactly(fd, 8 * d), dtype=np.float64).copy()
        return cls(x, np.frombuffer(truth, dtype=np.float64 if number & 1 else np.int64).copy())


def model_bytes(estimator: bytes, score: bytes) -> bytes:
    """Return the pickles of an estimator and a score as one file's content."""
    return _LENGTH.pack(len(estimator)) + estimator + score


def read_model(fd: int) -> tuple[bytes, bytes]:
    """Return the pickles of the estimator and the score in the file `fd`, read without moving the shared offset."""
    size, parts, at = os.fstat(fd).st_size, [], 0
    while at < size:
        parts.append(os.pread(fd, size - at, at))
        at += len(parts[-1])
    whole = b"".join(parts)
    n = _LENGTH.unpack_from(whole)[0]
    return whole[_LENGTH.size : _LENGTH.size + n], whole[_LENGTH.size + n :]


def result_of(answer: bytes, most: int) -> int | None:
    """Return the integer score in what a child wrote; None for anything but one number from 0 to `most`."""
    if len(answer) != _RESULT.size:
        return None
    steps: int = _RESULT.unpack(answer)[0]
    return steps if 0 <= steps <= most else None


def live(record_fd: int, model_fd: int, result_fd: int, confine: Callable[[], bool]) -> None:
    """Run a child: read a record and the model, `confine` the process, and if that worked write the score."""
    record, model = Record.of_file(record_fd), read_model(model_fd)
    os.dup2(result_fd, RESULT_FD)
    os.closerange(0, RESULT_FD)
    for fd in (record_fd, model_fd, result_fd):  # and the image had no other: its socket was RESULT_FD
        os.close(fd)
    if confine():
        os.write(RESULT_FD, _RESULT.pack(steps(record, *model)))


def steps(record: Record, estimator: bytes, score: bytes) -> int:
    """The record's score as an integer from 0 to 2²⁴; what the unpickled estimator or score raises is raised."""
    how: RecordScore = pickle.loads(score)  # noqa: S301  pickled by the curator
    model = pickle.loads(estimator)  # noqa: S301  as above; what it runs runs here
    with sequential():
        outcome = shaped(getattr(model, how.needs)(record.x[None, :]), how.needs, 1)
        if outcome is None:
            raise ValueError
        of = how.values if isinstance(how, BoundedFunction) else how.of
        return int(to_grid(of(outcome, record.truth), how.score_range, broken_score=0.0)[0])


def rehearse() -> None:
    """Score a row of zeros with a probe, so that children need not fill the caches again."""
    model = pickle.dumps(Probe()), pickle.dumps(Correct())
    row = Record(np.zeros(1), np.zeros(1, dtype=np.int64)).to_bytes()
    for _ in range(N_REHEARSALS):
        source, sink = os.pipe()
        os.write(sink, row)
        os.close(sink)
        steps(Record.of_file(source), *model)
        os.close(source)


def sequential() -> Any:
    """Context in which joblib, if it was loaded, starts no threads or processes."""
    joblib = sys.modules.get("joblib")
    return nullcontext() if joblib is None else joblib.parallel_config(backend="sequential")


def _read_exactly(fd: int, n_bytes: int) -> bytes:
    parts = []
    while n_bytes:
        part = os.read(fd, n_bytes)
        if not part:
            raise EOFError
        parts.append(part)
        n_bytes -= len(part)
    return b"".join(parts)
