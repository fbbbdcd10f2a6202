"""Running other people's code while sensitive rows are in hand: what it says or warns may quote a record."""

import io
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

_ALONE = threading.RLock()  # what is replaced here belongs to the whole process


class _Silence(io.StringIO):
    """What stands for both streams while they are contained."""


@contextmanager
def contained() -> Iterator[None]:
    """Context in which the whole process drops output, logs and warnings; another thread waits to enter one.

    joblib's workers would be handed the rows through shared memory, and OpenMP has one thread. Inside another one
    that still holds there is nothing to do: to silence every logger of a process that has loaded many takes longer
    than a small prediction.
    """
    from joblib import parallel_config

    with _ALONE:
        if _holds():
            yield
            return
        silent, logged = _Silence(), logging.root.manager.disable
        try:
            logging.disable(sys.maxsize)  # some log above CRITICAL
            with warnings.catch_warnings(), redirect_stdout(silent), redirect_stderr(silent):
                warnings.simplefilter("ignore")
                with np.errstate(all="ignore"), parallel_config(backend="sequential"), one_thread():
                    yield
        finally:
            logging.disable(logged)


def one_thread() -> Any:
    """Context with one OpenMP thread: for few rows two of them take a hundred times as long on a busy machine."""
    return _threads().limit(limits=1, user_api="openmp")


@cache
def _threads() -> ThreadpoolController:
    """The controller of the thread pools of all loaded libraries, looked up once since that is slow."""
    return ThreadpoolController()


def _holds() -> bool:
    """Whether standard output, standard error and every logger are silenced by this module at the moment."""
    streams = isinstance(sys.stdout, _Silence) and isinstance(sys.stderr, _Silence)
    return streams and logging.root.manager.disable == sys.maxsize
