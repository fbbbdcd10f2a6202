"""A choice whose score is read off the report that follows it: no ε goes to a score of its own."""

import json

import numpy as np
import pandas as pd
import pytest
import tomli_w
from test_paired_difference import NOISELESS, M, clinic, weak

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.budget import PrivacyBudget
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.report.evaluation import run_and_evaluate
from dpbo_core.study import StudySpec
from dpbo_core.study.final_training import FinalModel


def asked(folder, **method):
    """The tables of a study whose [evaluation] asks for a report, with these options of private_grid."""
    tables = clinic(folder, column=weak)
    tables["evaluation"] = {"epsilon": 1.0}
    return {**tables, "method": method}


@pytest.fixture
def ledger(tmp_path):
    made = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    made.set_budget(PrivacyBudget.of("clinic", epsilon=20.0, delta=0.0))
    return made


def test_all_of_epsilon_chooses_and_both_are_one_reservation_that_is_replayed(tmp_path, ledger):
    spec = StudySpec.from_dict(asked(tmp_path, score_share=0.0))
    study, report = run_and_evaluate(spec, ledger=ledger, folder=tmp_path)
    assert set(study.release.value) == {"hyperparameters", "lead"}
    (spend,) = study.release.spends
    assert (spend.what, spend.epsilon) == ("best candidate", 1.0)
    assert spend.noise_scale == pytest.approx(2.0 / M)
    assert [entry.study for entry in ledger.accounts("clinic")[0].entries] == ["clinic", "clinic/evaluation"]
    assert ledger.accounts("clinic")[0].spent.epsilon_units == 2 * 10**12
    again = run_and_evaluate(spec, ledger=ledger, folder=tmp_path)
    assert [one.release for one in again] == [study.release, report.release]
    assert all(one.replayed for one in again)
    assert read_certificate(study.release.to_json(), CERTIFIED) == study.release
    recompute(study.release, CERTIFIED)


def test_a_count_of_pairs_needs_a_share(tmp_path, ledger):
    spec = StudySpec.from_dict(
        asked(tmp_path, score_share=0.0) | {"model": {"estimator": "logistic", "score": "roc_auc"}}
    )
    with pytest.raises(StudyInvalid, match="score_share = 0 cannot choose by"):
        run_and_evaluate(spec, ledger=ledger, folder=tmp_path)
    assert ledger.accounts("clinic")[0].entries == ()


def test_the_report_states_the_score_of_the_choice(tmp_path):
    spec = StudySpec.from_dict(asked(tmp_path, score_share=0.0))
    own = PrivacyLedger(f"sqlite:///{tmp_path / 'injected.db'}")
    own.set_budget(PrivacyBudget.without_limit("clinic"))
    study, report = run_and_evaluate(spec, ledger=own, folder=tmp_path, source=NOISELESS)
    frame = pd.read_csv(tmp_path / "validation.csv")
    exact = np.mean(FinalModel.of_release(spec, tmp_path, study.release).predict(frame) == frame["ill"])
    assert report.release.value["metrics"]["accuracy"]["value"] == pytest.approx(exact, abs=1e-12)


def test_the_plan_says_what_that_saves_and_the_screen_shows_the_report(here, dpbo):
    def planned(*words, **method):
        (here / "study.toml").write_text(tomli_w.dumps(asked(here, **method) | {"budget": {"epsilon": 20.0}}))
        return " ".join(dpbo("plan", "study.toml", *words)[1].split())

    assert "score_share = 0 in [method] takes it from the report, and leaves its ε = 0.1" in planned()
    assert (
        "leaves its ε = 0.3 to the choice" in json.loads(planned("--json", score_share=0.3))["evaluation"]["score"]
    )
    told = planned("--all", score_share=0.0)
    assert "the report's accuracy; the choice has the ε that a score of its own costs, usually 0.1" in told
    assert "and no score of its own" in told
    code, out, _ = dpbo("tune", "study.toml", "--yes")
    assert code == 0
    assert "accuracy" in out
