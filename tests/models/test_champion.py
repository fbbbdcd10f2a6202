"""MLflow's logged model of a release, and the alias `champion` of a registered one."""

from pathlib import Path

import mlflow
import pandas as pd
import pytest
import tomli_w
from test_dashboard import shown  # noqa: F401  a fixture
from test_evaluation import in_an_interval

from dpbo_core.privacy.release import displayed_metric


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
    assert {metric.key for metric in logged.metrics} == {displayed_metric(release).name}
    assert logged.artifact_location.startswith("mlruns/artifacts")
    (version,) = client.search_model_versions("name = 'trial'")
    assert version.run_id == run.info.run_id
    metric = displayed_metric(release)
    interval = in_an_interval(metric.interval).replace(" to ", "–")
    assert version.description.startswith(f"{metric.value:.4f} ({interval}) {metric.name}; ε = 1, δ = 0; ")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{here / 'mlruns' / 'mlflow.db'}")
    for address in (f"models:/{logged.model_id}", "models:/trial@champion", f"runs:/{run.info.run_id}/model"):
        model = mlflow.pyfunc.load_model(address)
        example = pd.DataFrame(model.input_example)
        assert set(model.predict(example)) <= {0.0, 1.0}
    assert not [path for path in Path("mlruns").rglob("*") if path.suffix in (".pkl", ".pickle")]


def test_a_tune_that_registers_its_model_is_the_newest_and_the_first_one_is_the_champion(shown, here):  # noqa: F811
    client, run, _ = shown(method="public", registered=True)
    shown(method="public", registered=True, edition="2")
    assert (version_of(client, "champion"), version_of(client, "newest")) == ("1", "2")
    assert client.get_model_version("trial", "1").tags["dpbo.champion"] == "the first one"
    assert "dpbo.champion" not in client.get_model_version("trial", "2").tags
    asked = "**newest** is version 2, which stays out of use until a comparison finds it better"
    assert asked in client.get_registered_model("trial").description
    client.set_registered_model_alias("trial", "champion", "2")  # by its owner
    shown(method="public", registered=True)  # again: nothing moves, nothing twice
    shown(method="public", registered=True, edition="3")
    assert (version_of(client, "champion"), version_of(client, "newest")) == ("2", "3")
    assert len(client.search_logged_models([run.info.experiment_id])) == 3


def version_of(client, alias):
    return str(client.get_model_version_by_alias("trial", alias).version)


@pytest.mark.slow
def test_the_command_registers_each_and_says_how_the_version_is_served(dpbo, here, tables):
    """Two editions, through Prefect."""
    tables["study"]["method"], tables["budget"] = "public", {"epsilon": 50.0, "delta": 1e-5}
    for edition in ("1", "2"):
        tables["study"]["edition"] = edition
        (here / f"{edition}.toml").write_text(tomli_w.dumps(tables))
        code, out, err = dpbo("tune", f"{edition}.toml", "--register")
        assert (code, f"-m models:/trial/{edition}\nTo ask it:\n  curl " in out) == (0, True), err
        assert "\n\nNext: " in out
    client = mlflow.MlflowClient(f"sqlite:///{here / 'mlruns' / 'mlflow.db'}")
    assert (version_of(client, "champion"), version_of(client, "newest")) == ("1", "2")
