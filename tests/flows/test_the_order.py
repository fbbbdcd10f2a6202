"""The job that was ordered, run as `make tune` runs it, and read back from Prefect's and MLflow's own records."""

import re
import tomllib
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient
from test_flow import flow_runs, task_runs

from dpbo.flows.private_flow import owners_terminal
from dpbo.flows.stores import Stores
from dpbo.flows.tune import tune_privately
from dpbo_core.models.linear.fit import LinearTrainer
from dpbo_core.study.spec import read_study

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "screening.toml"
pytestmark = pytest.mark.usefixtures("prefect_server")


def test_the_first_study_is_the_ordered_job():
    tables = tomllib.loads(EXAMPLE.read_text())
    assert f"tune {EXAMPLE.relative_to(ROOT)}\n" in (ROOT / "Makefile").read_text()
    assert tables["model"]["estimator"] == "logistic"
    assert tables["model"]["score"] == "sigmoid"
    assert list(tables["space"]) == ["lambda"]
    assert (tables["search"]["acquisition"], tables["search"]["steps"]) == ("ucb", 20)


def test_each_step_is_a_task_that_trains_one_model_and_mlflow_has_its_private_score(here, monkeypatch):
    trained, honest = [], LinearTrainer.train

    def train(self, point):
        trained.append(point["lambda"])
        return honest(self, point)

    monkeypatch.setattr(LinearTrainer, "train", train)
    with owners_terminal():
        tuned = tune_privately(read_study(EXAMPLE), str(EXAMPLE.parent))
    (run,) = flow_runs("tune privately")[:1]
    steps = {
        int(match[1]): task.state.name
        for task in task_runs(run)
        if (match := re.match(r"step (\d+) of 20 · lambda = ", task.name))
    }
    assert steps == dict.fromkeys(range(1, 21), "Completed")
    path = tuned.result.release.value["trajectory"]
    chosen = [step["hyperparameters"]["lambda"] for step in path]
    assert set(trained) >= set(chosen)
    assert len(set(trained)) <= len(set(chosen)) + 2  # one tried out before the charge, one for MLflow
    client = MlflowClient(tracking_uri=Stores().tracking)
    logged = client.get_metric_history(tuned.tracked.run_id, "steps/noised")
    assert {one.step: one.value for one in logged} == {step["step"]: float(f"{step['score']:.4g}") for step in path}
