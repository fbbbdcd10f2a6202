"""Cross-validating an estimator of others leaves nothing in the process that will open the records."""

import os
import shutil
import subprocess
import sys
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

ROOT = Path(__file__).parents[2]
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


def test_no_number_counts_of_a_process_that_did_not_end_the_others():
    """What the work had started outlived it, beside the records, once it killed the one that was to end it."""
    with pytest.raises(StudyInvalid, match="ended without a result"):
        numbers_of(patching_model.without_a_warden)


STUDY = """
import os, sys
from dpbo_core import PrivacyBudget, PrivacyLedger, StudySpec, run_study
from dpbo_core.final_model import FinalModel
from dpbo_core.preparation.resolve import plan_study
folder = sys.argv[1]
spec = StudySpec.from_dict({
    "study": {"name": "s", "method": "private_grid"},
    "privacy": {"dataset": "d", "epsilon": 1.0},
    "data": {"training": "t.csv", "validation": "v.csv", "n_validation": 12, "target": "y"},
    "model": {"estimator": "meddling.Meddling", "rowwise": "enforced"},
    "space": {"C": {"values": [1.0]}},
})
ledger = PrivacyLedger(f"sqlite:///{folder}/ledger.db")
ledger.set_budget(PrivacyBudget.of("d", epsilon=5.0, delta=1e-5))
plan_study(spec)
result = run_study(spec, ledger=ledger)
assert result.release.guarantee.assumptions == (), result.release.guarantee
model = FinalModel.of_release(spec, folder, result.release)
print(model.predict({name: [0.0, 9.0] for name in model.columns}).tolist())
try:
    from pathlib import Path
    model.save(Path(folder) / "model")
except Exception as error:
    print(type(error).__name__, error.what)
print(os.getpid(), "meddling" in sys.modules)
"""


def test_no_part_of_an_estimator_of_others_runs_in_the_process_that_opens_the_records(tmp_path):
    """Imported, built, fitted, pickled, read, asked and refused: each of them elsewhere (MATH §7.5)."""
    site, parts = tmp_path / "site", tmp_path / "parts"
    (site / "meddling-1.0.dist-info").mkdir(parents=True)
    parts.mkdir()
    (site / "meddling-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: meddling\nVersion: 1.0\n"
    )
    (site / "meddling-1.0.dist-info" / "top_level.txt").write_text("meddling\n")
    shutil.copy(Path(__file__).with_name("meddling.py"), site)
    for name, n in (("t", 24), ("v", 12)):
        (tmp_path / f"{name}.csv").write_text("a,y\n" + "".join(f"{i / 4},{i % 2}\n" for i in range(n)))
    path = {"PYTHONPATH": f"{site}:{ROOT}", "PATH": f"{parts}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    words = [sys.executable, "-c", STUDY, str(tmp_path)]
    ended = subprocess.run(words, env=path, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    *said, last = ended.stdout.splitlines()
    process, imported = last.split()
    assert imported == "False"
    assert said[0].startswith("[")
    assert said[1].startswith("StudyInvalid the final model is not written: meddling.Meddling could not be loaded")
    assert {file.name for file in parts.iterdir()} == {
        "imported",
        "built",
        "fitted",
        "pickled",
        "unpickled",
        "predicted",
    }
    for file in parts.iterdir():
        assert process not in file.read_text().split(), file.name


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
