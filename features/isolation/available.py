"""The feature as the core asks for it, and whether this machine can score records alone: tried once a process."""

import os
import pickle
import sys
from functools import lru_cache

import numpy as np

from dpbo.features.isolation.enforced_model import alone
from dpbo_core.errors import DpboError
from dpbo_core.models.record_isolation import EnforcedPrediction
from dpbo_core.models.scores.accuracy import Correct

MS_PER_RECORD = 14.0  # of one core, a logistic regression; benchmarks/enforced.py measures it


def check_enforceable() -> None:
    """Start child processes, once per process, and refuse a machine that cannot confine them to predicting."""
    from dpbo.features.isolation.engine import unavailable_modules

    why = _obstacle(os.getpid())
    if why:
        raise unavailable_modules(why)


@lru_cache(maxsize=1)
def _obstacle(process: int) -> str:  # noqa: ARG001  a copy of this process asks again
    """Why no child process can be confined on this machine, tried once in each `process`; "" if one can."""
    if not sys.platform.startswith("linux"):
        return f"{sys.platform} has no seccomp"
    from dpbo.features.isolation.child import FORBIDDEN_CALLS, Probe, Record, model_bytes
    from dpbo.features.isolation.engine import Engine
    from dpbo.features.isolation.limits import Limits

    model = model_bytes(pickle.dumps(Probe()), pickle.dumps(Correct()))
    try:
        engine = Engine((), (), Limits(cpu_seconds=1))
    except DpboError as error:
        return error.cause
    except OSError:
        return "no process could be started"
    try:
        truth = np.ones(1, dtype=np.int64)
        results = [engine.trial(model, Record(np.array([float(i)]), truth))[0] for i in range(len(FORBIDDEN_CALLS))]
    except DpboError:
        return "a process for one record could not be started"
    finally:
        engine.close()
    if not results[0]:
        return "a process for one record gives no result"
    return "a process for one record can do what it must not" if any(results[1:]) else ""


def seconds_expected(n_records: int, n_models: int) -> float:
    """Return the estimated seconds of scoring each record in its own process on this machine, from counts alone."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return n_records * n_models * MS_PER_RECORD / 1000.0 / cores


ENFORCED = EnforcedPrediction(check_enforceable, seconds_expected, alone)
