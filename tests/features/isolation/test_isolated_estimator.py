"""An estimator of others runs in processes of its own, and where the system has none it is refused."""

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import patching_model
import pytest
from in_process import without_processes
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_estimator import X, Y, search
from worlds import study_of_files

from dpbo.features.isolation import enforced_model, engine
from dpbo_core import Categorical, PrivacyBudget, PrivacyLedger, open_study
from dpbo_core.errors import StudyInvalid
from dpbo_core.models.estimator_trainer import EstimatorTrainer
from dpbo_core.models.integer_sums import GRID
from dpbo_core.models.prototype import Prototype
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run

HERE = Path(__file__).parent


def test_a_prediction_that_patches_the_scoring_engine_patches_nothing(monkeypatch):
    """The release that a public choice made was .002 in the place of 1.000, at a printed ε of 1."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    Y = (X[:, 0] > 0).astype(np.int64)
    before = enforced_model.EnforcedModel.scores
    monkeypatch.setattr(enforced_model.EnforcedModel, "scores", before)
    prototype = Prototype(patching_model.Patching(), 0, False)
    trainer = EstimatorTrainer(X, Y, prototype, Correct(), enforced=True)
    np.testing.assert_array_equal(trainer.public_steps({"C": 1.0}, seed=0), Y * GRID)
    assert enforced_model.EnforcedModel.scores is before
    replace(trainer, enforced=False).public_steps({"C": 2.0}, seed=0)
    assert enforced_model.EnforcedModel.scores is not before  # the test sees it where it is done here


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


def test_a_pipeline_of_columns_that_scores_records_alone_is_evaluated_too(url, monkeypatch):
    """A listed one was asked without its data frame, and every report of it was refused."""
    without_processes(monkeypatch)
    columns = make_column_transformer((StandardScaler(), list(X.columns[:4])))
    piped, name = make_pipeline(columns, LogisticRegression()), "logisticregression__C"
    alone = search(url, inner=piped, space={name: Categorical([1.0])}, rowwise="enforced", budget=(50.0, 1e-5))
    rows, labels = X[::4], Y[::4] == 1
    alone.fit(rows, labels, validation_size=0.5)
    report = alone.evaluate(rows, labels, validation_size=0.5, epsilon=40.0).release
    assert (report.guarantee.epsilon, report.guarantee.assumptions) == (40.0, ())
    assert 0.7 < report.value["metrics"]["auc"]["value"] <= 1.0


WITHOUT = """
import fcntl, os, sys, zoneinfo  # the last asks for what the interpreter was built for
for module, starts in ((fcntl, ("F_SEAL_", "F_ADD_SEALS")), (os, ("MFD_", "memfd_", "sched_"))):
    for name in [name for name in vars(module) if name.startswith(starts)]:
        delattr(module, name)
sys.platform = "darwin"
from dpbo_core import DpboError
from dpbo.features.isolation.available import check_enforceable
try:
    check_enforceable()
except DpboError as refused:
    print(refused.what, refused.cause, sep=": ")
"""


def test_records_scored_alone_are_refused_by_name_where_the_system_cannot():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'rowwise = "enforced" is not to be had here: darwin has no seccomp'
