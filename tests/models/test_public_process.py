"""Cross-validating an estimator of others leaves nothing in the process that will open the records."""

import os
import shutil
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import patching_model
import public_work
import pytest
from worlds import study_of_files

from dpbo.features.isolation import enforced_model, engine
from dpbo_core import PrivacyBudget, PrivacyLedger, open_study
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.prototype import Prototype
from dpbo_core.models.public_process import numbers_of
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.grid import GRID
from dpbo_core.study.context import QueryContext
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.run import Run

HERE = Path(__file__).parent


def test_a_prediction_that_patches_the_scoring_engine_patches_nothing(monkeypatch):
    """The release that a public choice made was .002 in the place of 1.000, at a printed ε of 1."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    Y = (X[:, 0] > 0).astype(np.int64)
    before = enforced_model.Alone.scores
    monkeypatch.setattr(enforced_model.Alone, "scores", before)
    prototype = Prototype(patching_model.Patching(), 0, False)
    trainer = EstimatorTrainer(X, Y, prototype, Correct(), enforced=True)
    np.testing.assert_array_equal(trainer.public_steps({"C": 1.0}, seed=0), Y * GRID)
    assert enforced_model.Alone.scores is before
    replace(trainer, enforced=False).public_steps({"C": 2.0}, seed=0)
    assert enforced_model.Alone.scores is not before  # the test sees it where it is done here


def runs(pid):
    """Whether a process does; of one that ended /proc has no command, or nothing at all."""
    with suppress(OSError):
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    return False


def test_nothing_that_it_started_is_left():
    """A process in a session of its own outlived the group that was killed."""
    started, end = numbers_of(public_work.leaving), time.monotonic() + 5.0  # the kernel takes a moment
    assert len(started) == 3
    while any(map(runs, started)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(runs, started))


def test_no_number_counts_of_a_process_that_did_not_end_the_others():
    """What the work had started outlived it, beside the records, once it killed the one that was to end it."""
    with pytest.raises(StudyInvalid, match="ended without a result"):
        numbers_of(public_work.without_a_warden)


def test_only_numbers_come_back_or_its_own_message():
    with pytest.raises(StudyInvalid, match="in a process of its own"):
        numbers_of(public_work.texts)
    with pytest.raises(StudyInvalid, match=r"(?s)no parameter 'D'.*a misspelt name.*write 'C'"):
        numbers_of(public_work.refusal)


def test_it_sees_no_secret_of_the_environment(monkeypatch):
    for name in public_work.SECRETS:
        monkeypatch.setenv(name, "canary")
    assert numbers_of(public_work.environment).tolist() == [0]


PARTS = {"imported", "built", "fitted", "pickled", "unpickled", "predicted"}


def test_no_part_of_an_estimator_of_others_runs_in_the_process_that_opens_the_records(tmp_path, monkeypatch):
    """Imported, built, fitted, pickled, read, asked and refused: each of them elsewhere (MATH §7.5)."""
    site, parts = tmp_path / "site", tmp_path / "parts"
    info = site / "meddling-1.0.dist-info"
    info.mkdir(parents=True)
    parts.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: meddling\nVersion: 1.0\n")
    (info / "top_level.txt").write_text("meddling\n")
    shutil.copy(HERE / "meddling.py", site)
    for name, n in (("t", 24), ("v", 3)):
        (tmp_path / f"{name}.csv").write_text("a,y\n" + "".join(f"{i / 4},{i % 2}\n" for i in range(n)))
    monkeypatch.setattr(sys, "path", [str(site), *(entry for entry in sys.path if entry != str(HERE))])
    monkeypatch.setenv("PATH", f"{parts}:{os.environ['PATH']}")
    monkeypatch.setattr(engine, "cores", lambda: [min(os.sched_getaffinity(0))])  # one image shows it
    ledger = PrivacyLedger(f"sqlite:///{tmp_path}/ledger.db")
    ledger.set_budget(PrivacyBudget.of("d", epsilon=5.0, delta=1e-5))
    spec = study_of_files({"estimator": "meddling.Meddling", "rowwise": "enforced"}, {"C": {"values": [1.0]}})
    study = open_study(Run.of(spec, QueryContext(ledger, folder=tmp_path)))
    release = study.run().release
    assert release.guarantee.assumptions == ()
    model = FinalModel.of_release(spec, tmp_path, release, study.public)
    assert model.predict({name: [0.0, 9.0] for name in model.columns}).tolist() == [0.0, 1.0]
    with pytest.raises(StudyInvalid, match=r"is not written: meddling\.Meddling could not be loaded"):
        model.save(tmp_path / "model")
    assert "meddling" not in sys.modules
    assert {file.name for file in parts.iterdir()} == PARTS
    for file in parts.iterdir():
        assert str(os.getpid()) not in file.read_text().split(), file.name
