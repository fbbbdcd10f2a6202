"""An estimator that tries what a child must not do: a row's first number says what."""

import datetime
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Probe:
    """Predicts 1 where nothing prevented it."""

    def predict(self, rows: NDArray[Any]) -> NDArray[np.int64]:
        """The label 1 for the one row it is given, shape (1,)."""
        ATTEMPTS[int(rows[0, 0])]()
        return np.ones(1, dtype=np.int64)


def _tell_the_time() -> None:
    if datetime.datetime.now(tz=datetime.UTC).year == 1970:
        raise ValueError


ATTEMPTS: tuple[Callable[[], Any], ...] = (
    lambda: None,
    lambda: time.sleep(0.001),
    _tell_the_time,
    lambda: os.open("/proc/self/mem", os.O_RDONLY),
    lambda: socket.socket(),
    lambda: os.fork(),
    lambda: threading.Thread(target=int).start(),
    lambda: os.kill(os.getppid(), signal.SIGTERM),
    lambda: os.read(0, 1),
)
