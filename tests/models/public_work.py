"""Work for a process of its own, in a module that imports next to nothing: what it sees, leaves and says."""

import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np

from dpbo_core.errors import StudyInvalid

SECRETS = ("PGPASSWORD", "DPBO_LEDGER_URL", "MLFLOW_TRACKING_URI")
_SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
_START = f"import subprocess, time; print(subprocess.Popen({_SLEEP!r}).pid, flush=True); time.sleep(600)"


def environment() -> Any:
    """How many of the secrets are in the environment."""
    return np.array([sum(name in os.environ for name in SECRETS)])


def leaving() -> Any:
    """Leave a process that sleeps, one in a session of its own, and one that this started there: their numbers."""
    own = subprocess.Popen(_SLEEP)
    other = subprocess.Popen(
        [sys.executable, "-c", _START], start_new_session=True, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    return np.array([own.pid, other.pid, int(other.stdout.readline())])


def texts() -> Any:
    """No numbers."""
    return np.array([object()])


def refusal() -> Any:
    """A message of the work's own."""
    raise StudyInvalid("no parameter 'D'", cause="a misspelt name", remedy="write 'C'")


def without_a_warden() -> Any:
    """Write the numbers down, and kill the process that would end what was started here."""
    with os.fdopen(int(sys.argv[1]), "wb") as result:
        np.save(result, np.ones(1))
    os.kill(os.getppid(), signal.SIGKILL)
    return np.ones(1)
