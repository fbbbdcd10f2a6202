"""Estimators of others: one changes the module that makes scores, some leave a process behind, one remembers."""

import os
import signal
import subprocess
import sys
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin


class Patching(ClassifierMixin, BaseEstimator):
    """Predicts class 1; on the way every later score becomes 0."""

    def __init__(self, C: float = 1.0) -> None:
        self.C = C

    def fit(self, X: Any, y: Any) -> "Patching":
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        from dpbo_core.models.one_by_one import enforced_model

        enforced_model.Alone.scores = lambda self, rows, truth, score: np.zeros(len(rows))
        return np.ones(len(X), dtype=np.int64)


class LeavingASession(Patching):
    """Leaves a process that sleeps, in a session of its own, and one that this one started there."""

    def predict(self, X: Any) -> Any:
        sleeps = [sys.executable, "-c", "import time; time.sleep(600)", "left by a public prediction"]
        starts = f"import subprocess, time; subprocess.Popen({sleeps!r}, start_new_session=True); time.sleep(600)"
        words = [sys.executable, "-c", starts, "left by a public prediction"]
        subprocess.Popen(words, start_new_session=True)
        return np.ones(len(X), dtype=np.int64)


class Leaving(Patching):
    """Leaves a process that sleeps."""

    def predict(self, X: Any) -> Any:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "left by a public prediction"])
        return np.ones(len(X), dtype=np.int64)


class OfFirstColumn(ClassifierMixin, BaseEstimator):
    """Nobody's: it remembers what it was asked about."""

    def fit(self, X: Any, y: Any) -> "OfFirstColumn":
        self.classes_, self.rows_ = np.unique(y), []
        return self

    def predict(self, X: Any) -> Any:
        self.rows_.append(np.array(X))
        return self.classes_[(np.asarray(X)[:, 0] > 0).astype(int)]


def without_a_warden() -> Any:
    """Write the numbers down, and kill the process that would end what was started here."""
    with os.fdopen(int(sys.argv[1]), "wb") as result:
        np.save(result, np.ones(1))
    os.kill(os.getppid(), signal.SIGKILL)
    return np.ones(1)
