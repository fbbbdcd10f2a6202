"""MLflow's logged model of a release, and the alias `champion`: moved by what was released, and by nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import mlflow
import pandas as pd
import pytest
import tomli_w
from test_dashboard import shown  # noqa: F401  a fixture

from dpbo.tasks.reporting.champion import champion_after
from dpbo_core.errors import StudyInvalid


def report_of(release, **intervals):
    """A report as `dpbo evaluate` releases one, of these figures alone."""
    metrics = {
        name: {"value": None if ends is None else sum(ends) / 2, "noise_interval": ends, "sampling_interval": None}
        for name, ends in intervals.items()
    }
    return replace(release, value={"metrics": metrics})


def test_a_logged_model_is_linked_to_its_run_and_holds_what_was_released(shown, here, monkeypatch):  # noqa: F811
    client, run, release = shown(method="private_grid", registered=True)
    (output,) = run.outputs.model_outputs
    logged = client.get_logged_model(output.model_id)
    assert (logged.name, logged.source_run_id, logged.status) == ("model", run.info.run_id, "READY")
    chosen = {name: str(value) for name, value in release.value["hyperparameters"].items()}
    assert logged.params == chosen | {"private_score": str(release.value["score"])}
    assert {name: text for name, text in logged.tags.items() if not name.startswith("mlflow.")} == {
        "dpbo.release_id": release.release_id,
        "dpbo.guarantee": release.guarantee.in_words(),
    }
    assert {metric.key for metric in logged.metrics} <= {"release/score", "release/raw_score"}
    assert logged.artifact_location.startswith("mlruns/artifacts")
    (version,) = client.search_model_versions("name = 'trial'")
    assert version.run_id == run.info.run_id
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{here / 'mlruns' / 'mlflow.db'}")
    for address in (f"models:/{logged.model_id}", "models:/trial@champion", f"runs:/{run.info.run_id}/model"):
        model = mlflow.pyfunc.load_model(address)
        example = pd.DataFrame(model.input_example)
        assert set(model.predict(example)) <= {0.0, 1.0}
    assert not [path for path in Path("mlruns").rglob("*") if path.suffix in (".pkl", ".pickle")]


def test_the_champion_is_moved_by_a_tune_and_by_a_report_that_is_better(shown, here):  # noqa: F811
    uri = f"sqlite:///{here / 'mlruns' / 'mlflow.db'}"
    client, run, first = shown(method="public", registered=True)
    _, _, second = shown(method="public", registered=True, edition="2")
    assert champion(client) == "2"  # tune --register moves it
    assert "has no auc to compare with" in champion_after(first, report_of(first, auc=[0.8, 0.9]), uri)
    assert champion(client) == "2"
    assert "is the champion already" in champion_after(second, report_of(second, auc=[0.6, 0.85]), uri)
    assert "may be as good by its auc" in champion_after(first, report_of(first, auc=[0.84, 0.9]), uri)
    assert "stays the champion" in champion_after(first, report_of(first, accuracy=[0.99, 1.0]), uri)
    assert champion(client) == "2"
    assert "is the champion now, by its auc" in champion_after(first, report_of(first, auc=[0.86, 0.9]), uri)
    assert champion(client) == "1"
    with pytest.raises(StudyInvalid, match="no figure to compare"):
        champion_after(first, report_of(first, auc=None), uri)
    with pytest.raises(StudyInvalid, match="tuned without --register"):
        champion_after(replace(first, release_id="another"), report_of(first, auc=[0.8, 0.9]), uri)
    shown(method="public", registered=True, edition="2")  # again: it serves again, nothing twice
    assert champion(client) == "2"
    assert len(client.search_logged_models([run.info.experiment_id])) == 2
    client.delete_registered_model_alias("trial", "champion")
    assert "is the champion now" in champion_after(first, report_of(first, auc=[0.1, 0.2]), uri)


def champion(client):
    return str(client.get_model_version_by_alias("trial", "champion").version)


@pytest.mark.slow
def test_the_commands_move_it(dpbo, here, tables):
    """Two editions, the second evaluated with 20 times the ε: all through Prefect."""
    tables["study"]["method"], tables["budget"] = "public", {"epsilon": 50.0, "delta": 1e-5}
    for edition in ("1", "2"):
        tables["study"]["edition"] = edition
        (here / f"{edition}.toml").write_text(tomli_w.dumps(tables))
        code, out, err = dpbo("tune", f"{edition}.toml", "--register")
        assert (code, f"-m models:/trial/{edition}\n\nNext: " in out) == (0, True), err
    client = mlflow.MlflowClient(f"sqlite:///{here / 'mlruns' / 'mlflow.db'}")
    assert champion(client) == "2"
    code, out, err = dpbo("evaluate", "1.toml", "--epsilon", "4", "--register")
    assert (code, "stays the champion: it has no auc" in " ".join(out.split())) == (0, True), err
    code, out, _ = dpbo("evaluate", "2.toml", "--epsilon", "4", "--register", "--json")
    assert (code, json.loads(out)["champion"]) == (0, "version 2 of 'trial' is the champion already")
    code, _, err = dpbo("evaluate", "2.toml", "--epsilon", "4", "--model", "kept", "--register")
    assert (code, "the model that the study released" in " ".join(err.split())) == (2, True), err
