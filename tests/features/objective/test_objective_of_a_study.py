"""`PrivateObjective.from_study`: scores one at a time from a study file, whoever asks, wherever that runs."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w
from conftest import new_database
from sklearn.tree import DecisionTreeClassifier
from test_evaluation import files, of_files

from dpbo import PrivateObjective
from dpbo_core import FinalModel, NoScoresLeft, run_study
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import file_source
from dpbo_core.study import StudySpec

LEDGER = "sqlite:///ledger.db"


@pytest.fixture
def spec(here):
    files(here)
    tables = of_files(budget={"epsilon": 100.0, "delta": 1e-5}, objective={"scores": 3})
    tables["privacy"] |= {"epsilon": 2.0, "delta": 1e-6}
    tables["study"]["accepts"] = ["public_models", "rowwise_predictions"]
    tables["model"] = {"estimator": "sklearn.tree.DecisionTreeClassifier", "score": "accuracy"}
    tables["space"] = {"max_depth": {"low": 1, "high": 8, "integer": True}}
    del tables["evaluation"]
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    return StudySpec.from_dict(tables)


UNPICKLED = """
import pickle, sys
handle = pickle.load(sys.stdin.buffer)
print([handle({"max_depth": depth}) for depth in (2, 3, 3)])
"""


def test_two_machines_and_a_process_with_a_handle_ask_each_question_once(postgresql, here, spec, monkeypatch):
    """Two homes and folders, whose copies the owner allowed; the database and the ledger's key in common.

    A handle holds a path, and is sent to a process. Sixteen that ask at once are test_private_objective's.
    """
    url = new_database(postgresql)
    monkeypatch.setenv("DPBO_LEDGER_URL", url)
    for name in ("here", "there"):
        Path(name, "home").mkdir(parents=True)
        for file in ("study.toml", "train.csv", "validation.csv"):
            shutil.copy(file, name)

    def at(name):
        monkeypatch.setenv("XDG_STATE_HOME", str(here / name / "home"))
        return PrivateObjective.from_study(here / name / "study.toml")

    first = at("here")({"max_depth": 2})
    ledger = PrivacyLedger(url)
    ledger.allow("clinic", file_source("there/validation.csv"))
    stored = pickle.dumps(at("there"))
    assert len(stored) < 1000
    done = subprocess.run(
        [sys.executable, "-c", UNPICKLED], input=stored, env=os.environ, capture_output=True, check=True
    )
    again, *twice = json.loads(done.stdout)
    assert (again, twice[0]) == (first, twice[1])
    assert at("here")({"max_depth": 3}) == twice[0]
    seen = at("there")
    steps = {step["hyperparameters"]["max_depth"]: step["score"] for step in seen.release_.value["trajectory"]}
    assert (steps, seen.scores_left) == ({2: first, 3: twice[0]}, 1)
    seen({"max_depth": 4})
    with pytest.raises(NoScoresLeft, match="all 3 scores"):
        at("here")({"max_depth": 5})
    (only,) = ledger.accounts("clinic")
    assert [(entry.study, entry.method) for entry in only.entries] == [("clinic/objective", "objective")]


def test_a_pickled_handle_holds_no_password_of_the_ledger(monkeypatch):
    monkeypatch.setenv("DPBO_LEDGER_URL", "postgresql://ann:hunter2@db.example/dpbo")
    assert b"hunter2" not in pickle.dumps(PrivateObjective.from_study("study.toml"))


def test_a_section_that_cannot_be_is_refused():
    for table in ({"scores": 0}, {"scores": 2, "choice_share": 1.0}, {}, {"scores": 2, "steps": 3}):
        with pytest.raises(StudyInvalid):
            StudySpec.from_dict(of_files(objective=table))
    spec = StudySpec.from_dict(of_files(objective={"scores": 7, "choice_share": 0.2}))
    assert StudySpec.from_dict(spec.to_dict()) == spec
    assert spec.tuned.objective is None


def test_a_saved_model_that_ignores_what_the_study_has_is_asked_about_its_own_columns(here, spec):
    tables = spec.to_dict()
    own = StudySpec.from_dict(tables | {"data": tables["data"] | {"ignore": ["who", "sex", "b"]}})
    release = run_study(own, ledger=PrivacyLedger("sqlite:///vendor.db"), folder=here).release
    model, rows = FinalModel.of_release(own, here, release), pd.read_csv("validation.csv")
    model.save(here / "vendor.model")
    asked = PrivateObjective.from_study("study.toml", LEDGER)
    found = asked.submit(FinalModel.load(here / "vendor.model"))
    assert found.value == pytest.approx((model.predict(rows) == rows["ill"]).mean(), abs=7 * found.noise)
    assert asked.submit(FinalModel.load(here / "vendor.model")) == found


def test_predictions_of_the_parts_of_a_folder_are_refused_before_the_charge(here, spec):
    train, validation = (pd.read_csv(f"{name}.csv") for name in ("train", "validation"))
    Path("parts").mkdir()
    validation.to_parquet("parts/1.parquet")
    Path("study.toml").write_text(Path("study.toml").read_text().replace("validation.csv", "parts"))
    asked = PrivateObjective.from_study("study.toml", LEDGER)
    with pytest.raises(StudyInvalid, match="hand in the model"):
        asked.submit_predictions(np.ones(len(validation)), name="ours")
    assert PrivacyLedger(LEDGER).accounts("clinic") == ()
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(train[["a", "b"]], train["ill"])
    assert asked.submit(tree).value is not None


@pytest.mark.parametrize(
    ("params", "message"),
    [({"depth": 1}, "no axis 'depth'"), ({"max_depth": 99}, "not in \\[space\\]"), ({}, "max_depth is missing")],
)
def test_what_is_not_in_the_space_is_a_message_and_costs_nothing(here, spec, params, message):
    with pytest.raises(StudyInvalid, match=message):
        PrivateObjective.from_study("study.toml", LEDGER)(params)
    assert PrivacyLedger(LEDGER).accounts("clinic") == ()


def test_a_study_without_the_section_says_what_to_add(here, spec):
    Path("study.toml").write_text(Path("study.toml").read_text().partition("[objective]")[0])
    with pytest.raises(StudyInvalid, match="scores = 20"):
        PrivateObjective.from_study("study.toml", LEDGER)({"max_depth": 2})


def test_plan_prices_the_scores_that_the_study_asks_for(here, spec, dpbo):
    text = Path("study.toml").read_text()
    for scores, words in (("scores = 3", "3 scores for a search of your own, "), ("scores = 100000", "useless")):
        Path("study.toml").write_text(text.replace("scores = 3", scores))
        told = json.loads(dpbo("plan", "study.toml", "--json")[1])["objective"]
        assert words in told
        assert "ε = 2 and δ = 1e-06 in all" in told
    assert "these scores would be useless" in " ".join(dpbo("plan", "study.toml")[1].split())
