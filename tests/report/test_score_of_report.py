"""A choice whose score is read off the report that follows it: no ε goes to a score of its own."""

import json

import numpy as np
import pandas as pd
import pytest
import tomli_w
from test_paired_difference import NOISELESS, M, clinic, weak

from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.accounting.certificate import read_certificate, recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.report.evaluation import run_and_evaluate
from dpbo_core.study import StudySpec
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.query import QueryContext
from dpbo_core.study.resolve import resolve
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study


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
    spec = StudySpec.from_dict(asked(tmp_path))
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


def test_a_study_without_a_report_or_with_a_stated_share_releases_a_score(tmp_path, ledger):
    tables = asked(tmp_path, score_share=0.25)
    study, _ = run_and_evaluate(StudySpec.from_dict(tables), ledger=ledger, folder=tmp_path)
    assert [spend.epsilon for spend in study.release.spends] == pytest.approx([0.75, 0.25])
    alone = run_study(StudySpec.from_dict(asked(tmp_path)), ledger=ledger, folder=tmp_path)
    assert [spend.epsilon for spend in alone.release.spends] == pytest.approx([0.9, 0.1])


@pytest.mark.parametrize("score", ["ramp", "sigmoid"])
def test_a_score_that_no_report_states_is_paid_for(tmp_path, score):
    spec = StudySpec.from_dict(asked(tmp_path) | {"model": {"estimator": "logistic", "score": score}})
    assert [spend.what for spend in resolve(spec, tmp_path).plan.spends] == ["best candidate", "its score"]


def test_what_was_charged_goes_on_as_it_began_with_or_without_a_report(tmp_path, ledger):
    told = StudySpec.from_dict(asked(tmp_path))
    open_study(Run.of(told.replace(evaluation=None), QueryContext(ledger, tmp_path)))  # charged, and not run
    released = open_study(Run.of(told, QueryContext(ledger, tmp_path))).run(None).release
    assert [spend.epsilon for spend in released.spends] == pytest.approx([0.9, 0.1])
    (account,) = ledger.accounts("clinic")
    assert account.spent.epsilon_units == 10**12


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

    assert "the report's accuracy: the choice gets the ε = 0.1 that a score of its own would cost" in planned()
    stated = json.loads(planned("--json", score_share=0.3))["evaluation"]["score"]
    assert stated == "without score_share in [method] the report states it, and its ε = 0.3 goes to the choice"
    told = planned("--all")
    assert "and no score of its own" in told
    code, out, _ = dpbo("tune", "study.toml", "--yes")
    assert code == 0
    assert "accuracy" in out
    for wrong in ("the score that the choice was made by", "discrete Laplace, composed by adding"):
        assert wrong not in " ".join(out.split())
