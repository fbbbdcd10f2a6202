"""What a study with a sensitive training set reads, and what its certificate must name."""

import pytest
from test_certificate import document
from test_dp_hypo import study as trained_privately
from test_stored_parts import files, objects, signed, store, study  # noqa: F401  fixtures

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.methods.certified import CERTIFIED
from dpbo_core.study import StudySpec
from dpbo_core.study.data_files import training_digest
from dpbo_core.study.resolve import resolve
from dpbo_core.study.tuning import run_study


def test_a_sensitive_training_set_is_not_read_for_the_key(here, tables):
    tables["study"]["method"] = "dp_hypo"
    tables["data"] = {
        "training": "none.csv", "n_training": 30, "target": "y", "sensitive": "training", "labels": [0.0, 1.0],
        "bounds": {"*": [0.0, 1.0]},
    }  # fmt: skip
    assert training_digest(StudySpec.from_dict(tables), here) == ""


def test_a_method_that_hides_how_often_it_scores_asks_no_store(here, study, store):  # noqa: F811
    """Who runs the store would count; from one object it is read once."""
    with pytest.raises(StudyInvalid, match="hides how many candidates it scores"):
        resolve(study(store[0], method="dp_hypo"), here)
    one = store[0].replace("/day/", "/day/00.parquet")
    assert resolve(study(one, method="dp_hypo"), here).method.hides_evaluations


@pytest.mark.parametrize("base", ["dp_sdg", "", ["dp_sgd"], None])
def test_a_base_that_nobody_declared_is_refused(base):
    edited = document("hypo", steps=5)
    edited["facts"]["options"]["base"] = base
    with pytest.raises(StudyInvalid):
        recompute(read_certificate(edited, CERTIFIED), CERTIFIED)


def test_a_private_score_without_noise_is_refused():
    edited = document("hypo", steps=5)
    recompute(read_certificate(edited, CERTIFIED), CERTIFIED)
    edited["spends"][0] |= {"noise_scale": 0.0, "sensitivity": 0.0}
    with pytest.raises(StudyInvalid):
        read_certificate(edited, CERTIFIED)


@pytest.mark.parametrize("kept", ["files", "objects"])
def test_models_of_a_sensitive_training_set_are_refused_a_folder_before_the_charge(here, store, kept):  # noqa: F811
    tables = trained_privately(here)
    tables["data"]["validation"] = "parts" if kept == "files" else store[0]
    spec = StudySpec.from_dict(tables)
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    with pytest.raises(StudyInvalid, match="are scored on one file"):
        run_study(spec, ledger=ledger, folder=here)
    assert not ledger.accounts()
