"""Cross-validating an estimator of others leaves nothing in the process that will open the records."""

import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import patching_model
import pytest

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.estimators import EstimatorFactory
from dpbo_core.models.one_by_one import enforced_model
from dpbo_core.models.prototype import Prototype
from dpbo_core.models.public_process import numbers_of
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.grid import GRID

X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X[:, 0] > 0).astype(np.int64)


def trainer(kind, *, enforced=True):
    return EstimatorTrainer(X, Y, Prototype(kind(), 0, False), Correct(), enforced=enforced)


def test_a_prediction_that_patches_the_scoring_engine_patches_nothing(monkeypatch):
    """The release that a public choice made was .002 in the place of 1.000, at a printed ε of 1."""
    before = enforced_model.Alone.scores
    monkeypatch.setattr(enforced_model.Alone, "scores", before)
    steps = trainer(patching_model.Patching).public_steps({"C": 1.0}, seed=0)
    assert enforced_model.Alone.scores is before
    np.testing.assert_array_equal(steps, Y * GRID)
    trainer(patching_model.Patching, enforced=False).public_steps({"C": 1.0}, seed=0)
    assert enforced_model.Alone.scores is not before  # the test sees it where it is done here


def left():
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [path.parent.name] if b"left by a public prediction" in path.read_bytes() else []
    return found


@pytest.mark.parametrize("kind", [patching_model.Leaving, patching_model.LeavingASession])
def test_nothing_that_it_started_is_left(kind):
    """A process in a session of its own outlived the group that was killed."""
    trainer(kind).public_score({"C": 1.0}, seed=0)
    end = time.monotonic() + 5.0  # the kernel takes a moment
    while left() and time.monotonic() < end:
        time.sleep(0.02)
    assert left() == []


def environment():
    return np.array([sum(name in os.environ for name in ("PGPASSWORD", "DPBO_LEDGER_URL", "MLFLOW_TRACKING_URI"))])


def test_it_sees_no_secret_of_the_environment(monkeypatch):
    for name in ("PGPASSWORD", "DPBO_LEDGER_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.setenv(name, "canary")
    assert numbers_of(environment).tolist() == [0]


def texts():
    return np.array([object()])


def test_only_numbers_come_back():
    with pytest.raises(StudyInvalid, match="in a process of its own"):
        numbers_of(texts)


def test_its_own_message_is_told():
    refusing = EstimatorTrainer(X, Y, EstimatorFactory("sklearn.linear_model.LogisticRegression"), enforced=True)
    with pytest.raises(StudyInvalid, match="no parameter 'D'"):
        refusing.public_steps({"D": 1.0}, seed=0)
