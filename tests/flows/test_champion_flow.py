"""`dpbo evaluate --against`: what is printed, what MLflow shows of it, and when the alias `champion` moves."""

import json
from pathlib import Path

import mlflow
import pandas as pd
import pytest
import skops.io
import tomli_w
from sklearn.tree import DecisionTreeClassifier
from test_paired_difference import clinic, weak

from dpbo.tasks.reporting.evaluation_picture import draw_evaluation
from dpbo.tasks.reporting.release_document import release_document
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.report.evaluation import run_and_evaluate
from dpbo_core.study import StudySpec


def test_a_tune_with_a_champion_ends_in_a_comparison_shown_with_its_verdict(tmp_path):
    tables = clinic(tmp_path, column=weak)
    tables["study"]["accepts"], tables["budget"] = ["rowwise_predictions"], {"epsilon": 20.0}
    ledger = PrivacyLedger(f"sqlite:///{tmp_path / 'ledger.db'}")
    tuned, compared = run_and_evaluate(StudySpec.from_dict(tables), ledger=ledger, folder=tmp_path)
    assert [entry.epsilon for entry in ledger.accounts("clinic")[0].entries] == [1.0, 1.0]
    assert tuned.release.release_id != compared.release.release_id
    document = release_document(compared.release)
    told = {fact.name: f"{fact.strong}{fact.text}" for fact in document.answers}
    verdict = compared.release.value["difference"]["verdict"]
    assert told["verdict"] == verdict
    assert "challenger minus champion, of accuracy" in told["difference"]
    assert {"90% interval", "noise, 90%"} <= told.keys()
    assert len(draw_evaluation(compared.release).axes) == 1


@pytest.mark.slow
def test_the_command_compares_and_moves_the_champion_only_if_better(dpbo, here):
    """A weak column loses to the study's model, which then is no worse than itself as MLflow has it."""
    tables = clinic(here, column=weak)
    tables["study"]["accepts"] = ["public_models", "rowwise_predictions"]
    tables["budget"], tables["privacy"]["epsilon"] = {"epsilon": 200.0}, 20.0
    tables["evaluation"] = {"epsilon": 20.0}
    (here / "study.toml").write_text(tomli_w.dumps(tables))
    with_margin = {**tables, "evaluation": {"epsilon": 20.0, "against": "column:old", "margin": 0.2}}
    (here / "margin.toml").write_text(tomli_w.dumps(with_margin))
    del tables["evaluation"]
    (here / "tune.toml").write_text(tomli_w.dumps(tables))
    code, _, err = dpbo("tune", "tune.toml")
    assert code == 0, err
    code, out, err = dpbo("evaluate", "study.toml", "--against", "column:old", "--plan", "--json")
    assert code == 0, err
    assert 0.0 < json.loads(out)["detectable"] < 0.2
    code, out, err = dpbo("evaluate", "study.toml", "--against", "column:old", "--register", "--json")
    assert code == 0, err
    shown = json.loads(out)
    assert shown["value"]["difference"]["verdict"] == "better"
    client = mlflow.MlflowClient(f"sqlite:///{here / 'mlruns' / 'mlflow.db'}")
    assert str(client.get_model_version_by_alias("clinic", "champion").version) == "1"
    assert list(Path("mlruns").rglob("against_champion.png"))
    code, out, err = dpbo("evaluate", "margin.toml", "--against", "models:/clinic@champion", "--json")
    assert code == 0, err
    assert json.loads(out)["value"]["difference"]["verdict"] == "not worse by more than 0.2"
    code, out, err = dpbo("evaluate", "study.toml", "--against", "column:old")
    assert code == 0, err
    assert "challenger minus champion" in out
    public = pd.read_csv(here / "train.csv")
    skops.io.dump(DecisionTreeClassifier(max_depth=1).fit(public[["a", "b"]], public["ill"]), here / "old.skops")
    code, out, err = dpbo("evaluate", "study.toml", "--against", "old.skops", "--json")
    assert code == 0, err
    assert json.loads(out)["value"]["difference"]["verdict"] == "better"
    code, out, err = dpbo("show", "clinic/comparison")
    assert code in (0, 2), err
