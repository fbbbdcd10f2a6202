"""A spend of another tool is seen wherever a study's is: on `dpbo budget`, in the forecast and in MLflow."""

import json
from pathlib import Path

from mlflow import MlflowClient
from test_spend_consent import BUNDLED

from dpbo.flows.stores import Stores


def test_a_booked_spend_is_in_the_budget_the_forecast_and_mlflow(here, dpbo, monkeypatch):
    monkeypatch.setenv("DPBO_PREFECT", "off")
    Path("t.toml").write_text(BUNDLED)
    assert dpbo("budget", "set", "d", "--epsilon", 3)[0] == 0
    assert dpbo("budget", "charge", "d", "--epsilon", 0.5, "--what", "weekly counts", "--tool", "opendp")[0] == 0
    assert dpbo("tune", "t.toml", "--yes")[0] == 0
    (dataset,) = json.loads(dpbo("budget", "--json")[1])["datasets"]
    assert dataset["spent"]["epsilon"] == 1.5
    assert [entry["study"] for entry in dataset["entries"]] == ["weekly counts", "t"]
    assert "weekly counts (declared), every 30 days: 1 more" in dpbo("budget", "--forecast", "30d")[1]
    client = MlflowClient(tracking_uri=Stores().tracking)
    (experiment,) = client.search_experiments(filter_string="name = 'd'")
    runs = client.search_runs([experiment.experiment_id], "tags.`dpbo.kind` = 'edition'")
    assert [run.data.metrics["budget/spent"] for run in runs] == [1.5]
