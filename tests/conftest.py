"""What tests share: a study that runs in a second, and its files."""

import copy
import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")

STUDY = {
    "study": {"name": "trial", "method": "private_trajectory"},
    "privacy": {"dataset": "people", "epsilon": 1.0, "delta": 1e-6},
    "budget": {"epsilon": 3.0, "delta": 1e-5},
    "data": {"source": "breast_cancer", "validation_share": 0.5},
    "model": {"estimator": "logistic", "score": "sigmoid", "steepness": 10.0},
    "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 16}},
    "search": {"steps": 5},
}


@pytest.fixture
def tables():
    """A study as plain tables, free to be changed."""
    return copy.deepcopy(STUDY)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder, without the user's settings."""
    for name in ("DPBO_LEDGER_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    """Selections pause so that their time tells nothing; a test of thousands of them need not."""
    monkeypatch.setattr("dpbo_core.mechanisms.exponential.PAUSE", 1e-6)
