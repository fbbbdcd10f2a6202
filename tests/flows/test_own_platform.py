"""On a team's own Prefect, MLflow and PostgreSQL: kills, cancels, folders, refusals, and a page's commands."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pandas as pd
import pytest
import stock
import tomli_w
import yaml
from conftest import new_database
from intruder import command, lives
from pages import blocks, commands
from prefect.deployments.runner import EntrypointType
from prefect.events.schemas.automations import AutomationCore
from prefect.utilities.importtools import import_object
from stock import until
from test_evaluation import files, of_files

from dpbo.flows import run_end
from dpbo.flows.tune import tune_file

ROOT = Path(__file__).parents[2]

BLOCKING = '''"""A tree that waits, before it predicts the sensitive records, while a file is there."""

import time
from pathlib import Path

from sklearn.tree import DecisionTreeClassifier


class Waits(DecisionTreeClassifier):
    def predict(self, X, check_input=True):
        while len(X) == 301 and Path("block").exists():
            Path("blocked").touch()
            time.sleep(0.05)
        return super().predict(X, check_input=check_input)
'''
DEPLOY = {
    "name": "team",
    "deployments": [
        {"name": "on-request", "entrypoint": "dpbo.flows.tune.tune_file", "concurrency_limit": 1},
        {"name": "nightly", "entrypoint": "dpbo.flows.serve.tune_on_schedule", "concurrency_limit": 1},
        {"name": "elsewhere", "entrypoint": "dpbo.flows.tune.tune_file", "concurrency_limit": 1},
    ],
}


@pytest.fixture(scope="module")
def team(tmp_path_factory, postgresql_server):
    """A platform with three deployments and a worker, in two folders of a study that its owner opened.

    The folders share a ledger on PostgreSQL and the folder of locks.
    """
    folder = tmp_path_factory.mktemp("team")
    files(folder, m=301)
    (folder / "elsewhere").mkdir()
    for name in ("train.csv", "validation.csv", "study.toml"):
        (folder / "elsewhere" / name).symlink_to(folder / name)
    packages = tmp_path_factory.mktemp("packages")
    (packages / "waiting_trees.py").write_text(BLOCKING)
    (facts := packages / "waiting_trees-1.0.dist-info").mkdir()  # as an installed package has it
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: waiting-trees\nVersion: 1.0\n")
    (facts / "RECORD").write_text("waiting_trees.py,,\n")
    shared = {"DPBO_LEDGER_URL": new_database(postgresql_server), "DPBO_STATE_DIR": str(folder / "locks")}
    with stock.platform(folder, PYTHONPATH=str(packages), **shared) as made:
        made.run("prefect", "work-pool", "create", stock.POOL, "--type", "process")
        for one in DEPLOY["deployments"]:
            where = folder / "elsewhere" if one["name"] == "elsewhere" else folder
            pull = {"prefect.deployments.steps.set_working_directory": {"directory": str(where)}}
            one |= {"work_pool": {"name": stock.POOL}, "pull": [pull]}
        (folder / "deploy.yaml").write_text(yaml.safe_dump(DEPLOY))
        made.run("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "deploy.yaml")
        opened = ("--epsilon", "3", "--file", "validation.csv", "--accept", "rowwise_predictions")
        made.dpbo("budget", "set", "clinic", *opened)
        made.dpbo("budget", "allow", "clinic", "train.csv", "--as", "training")
        made.dpbo("budget", "allow", "clinic", "waiting_trees.Waits", "--as", "estimator")
        with stock.worker(made):
            yield made


def study(made, **privacy):
    """The study file of an edition, which takes a moment or, while it is blocked, as long as that; the edition."""
    tables = of_files(m=301)
    del tables["evaluation"], tables["budget"]
    tables["study"] |= {"accepts": ["rowwise_predictions"], "edition": str(time.monotonic_ns())}
    tables["privacy"] |= privacy
    tables["model"] = {"estimator": "waiting_trees.Waits", "score": "accuracy"}
    tables["space"] = {"max_depth": {"low": 1, "high": 2, "integer": True}}
    (made.folder / "study.toml").write_text(tomli_w.dumps(tables))
    return tables["study"]["edition"]


def begin(made, deployment="tune a study file/on-request"):
    """The id of a new run of a deployment."""
    with made.client() as client:
        found = client.get(f"/deployments/name/{deployment}").json()["id"]
        asked = {"parameters": {"study": "study.toml"}, "state": {"type": "SCHEDULED"}}
        # a busy SQLite answers 503
        return until(lambda: client.post(f"/deployments/{found}/create_flow_run", json=asked).json().get("id"))


def ended(made, run):
    """The run, once it has ended."""
    return until(lambda: found if (found := made.flow_run(run))["state_type"] in FINAL else None)


FINAL = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def processes(run):
    """The processes that were started for a run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                around = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"PREFECT__FLOW_RUN_ID={run}".encode() in around:
                found.append(int(entry.name))
    return found


@pytest.fixture
def automations():
    """The example's, as Prefect reads them."""

    def read(within=600):
        text = (ROOT / "examples" / "automations.yaml").read_text().replace("within: 600", f"within: {within}")
        return [AutomationCore.model_validate(one) for one in yaml.safe_load(text)["automations"]]

    return read


def test_the_automations_listen_to_events_that_there_are(automations):
    crashed, paused = automations()
    assert paused.trigger.expect == {run_end.NEARLY_SPENT}
    named = {one.removeprefix("prefect.flow-run.") for one in crashed.trigger.expect}
    assert {run_end.BUDGET, run_end.POLICY, "Completed", "Failed", "Crashed"} <= named
    assert (crashed.actions[0].state.value, paused.actions[0].type) == ("CRASHED", "pause-deployment")


def test_a_flow_of_ours_is_deployed_from_python_by_its_module():
    """By its file, as Prefect would, it has no package to import from."""
    made = tune_file.to_deployment("on-request", entrypoint_type=EntrypointType.MODULE_PATH)
    assert import_object(made.entrypoint.replace(":", ".")) is tune_file


@pytest.mark.slow
def test_a_run_without_a_heartbeat_is_crashed(team, automations):
    """By the automation; the page's test fires the other one."""
    with team.client() as client:
        crashed, _ = automations(within=10)
        made = until(lambda: client.post("/automations/", json=crashed.model_dump(mode="json")).json().get("id"))
        flow = client.get("/flows/name/tune on schedule").json()["id"]
        running = {"flow_id": flow, "state": {"type": "RUNNING"}}
        run = until(lambda: client.post("/flow_runs/", json=running).json().get("id"))
        told = {
            "occurred": datetime.now(UTC).isoformat(),
            "id": str(uuid4()),
            "event": "prefect.flow-run.heartbeat",
        }
        sent = [told | {"resource": {"prefect.resource.id": f"prefect.flow-run.{run}"}}]
        until(lambda: client.post("/events", json=sent).is_success)
        until(lambda: team.flow_run(run)["state_type"] == "CRASHED")
        until(lambda: client.delete(f"/automations/{made}").status_code in (204, 404))  # too short for real runs


def blocked(team):
    """A run of a new edition that waits in its first step, and the edition."""
    edition = study(team)
    (team.folder / "blocked").unlink(missing_ok=True)
    (team.folder / "block").touch()
    run = begin(team)
    until(lambda: (team.folder / "blocked").exists() or team.flow_run(run)["state_type"] in FINAL)
    return run, edition


def one_charge_and_one_release(team, edition):
    """Of this edition."""
    (dataset,) = json.loads(team.dpbo("budget", "--json")[0])["datasets"]
    assert [entry["edition"] for entry in dataset["entries"]].count(edition) == 1
    told = [event["payload"]["edition"] for event in team.events("dpbo.release")]
    assert told.count(edition) == 1


@pytest.mark.slow
def test_a_retry_after_a_kill_is_the_same_run_and_the_same_charge(team):
    run, edition = blocked(team)
    killed = processes(run)
    assert killed
    for process in killed:
        os.kill(process, signal.SIGKILL)
    until(lambda: not any(map(lives, killed)))
    log = team.folder / "prefect-worker.log"  # the worker notices too, later; a retry before that would be ended
    until(lambda: "prefect.flow_runs.worker - Check whether" in log.read_text())
    assert ended(team, run)["state_type"] == "CRASHED"
    (team.folder / "blocked").unlink()
    team.run("prefect", "flow-run", "retry", run)
    until((team.folder / "blocked").exists)
    other = begin(team)  # of the same folder: it buries the dead, and waits for the slot
    assert team.flow_run(run)["state_name"] == "Running"
    (team.folder / "block").unlink()
    assert ended(team, run)["state_name"] == "Completed"
    assert ended(team, other)["state_name"] == "Completed"
    one_charge_and_one_release(team, edition)


@pytest.mark.slow
def test_a_cancelled_run_ends_and_its_retry_continues_under_its_charge(team):
    run, edition = blocked(team)
    cancelled = processes(run)
    team.run("prefect", "flow-run", "cancel", run)
    assert ended(team, run)["state_type"] == "CANCELLED"
    until(lambda: not any(map(lives, cancelled)))
    (team.folder / "block").unlink()
    team.run("prefect", "flow-run", "retry", run)
    assert ended(team, run)["state_name"] == "Completed"
    one_charge_and_one_release(team, edition)


@pytest.mark.slow
def test_one_edition_in_two_folders_at_once_is_one_charge_and_one_release(team):
    """The second run sees by its lock that the first one lives, since the folders share their locks."""
    run, edition = blocked(team)
    other = begin(team, "tune a study file/elsewhere")
    until(lambda: team.flow_run(other)["state_name"] == "Running" or team.flow_run(other)["state_type"] in FINAL)
    until(lambda: (team.folder / "locks" / "running" / other).exists() or team.flow_run(other)["end_time"])
    assert team.flow_run(run)["state_name"] == "Running"
    (team.folder / "block").unlink()
    assert {ended(team, one)["state_name"] for one in (run, other)} == {"Completed"}
    one_charge_and_one_release(team, edition)


@pytest.mark.slow
def test_a_refusal_is_named_after_who_refused_and_leaves_no_stack_trace(team):
    study(team, epsilon=3.5)
    for name, of, expected in (
        ("tune a study file/on-request", {}, ("Refused: budget", "CANCELLED")),
        ("tune on schedule/nightly", {}, ("Refused: budget", "CANCELLED")),
        ("tune a study file/on-request", {"dataset": "nobody"}, ("Refused: policy", "FAILED")),
        ("tune on schedule/nightly", {"dataset": "nobody"}, ("Refused: policy", "FAILED")),
    ):
        study(team, epsilon=3.5, **of)
        run = begin(team, name)
        found = ended(team, run)
        assert (found["state_name"], found["state_type"]) == expected
        said = until(lambda run=run: team.logs(run))
        assert not [line for level, line in said if level >= 40 or "Traceback" in line], said
    told = team.events("dpbo.run.refused", 4)
    assert sorted(event["payload"]["by"] for event in told) == ["budget", "budget", "policy", "policy"]
    assert all("What to do" in event["payload"]["says"] for event in told)


PAGE = (ROOT / "docs" / "how_to" / "own_platform.md").read_text()
FILES = {block.why: block.body for block in blocks(PAGE) if block.mark == "file"}
LINES = [line for block in blocks(PAGE) if block.kind == "console" for line, _ in commands(block.body)]


def test_the_page_is_short_and_speaks_of_settings_that_are_listed():
    assert len(PAGE.split()) <= 700
    listed = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert [name for name in re.findall(r"DPBO_\w+", PAGE) if name not in listed] == []


@pytest.mark.slow
def test_the_page_from_its_first_command_to_its_last(tmp_path, postgresql_server):
    """On servers behind passwords: three charges, a free retry, an alert that pauses, three runs in MLflow."""
    files(tmp_path, m=301)
    for name in ("train", "validation"):
        table = pd.read_csv(tmp_path / f"{name}.csv")[["a", "b", "ill"]]
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace("0 2 * * *", "0 2 29 2 *"))  # no firing while this runs
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with stock.platform(tmp_path) as made, stock.mlflow_server(made) as mlflow, ExitStack() as running:
        given = {name: made.around[name] for name in ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING")} | mlflow
        given |= {"DPBO_LEDGER_URL": new_database(postgresql_server), "DPBO_STATE_DIR": str(tmp_path / "locks")}
        around = {name: value for name, value in made.around.items() if name not in given} | in_shell(tmp_path)
        for line in LINES:
            if line.startswith("export "):
                written = dict(word.split("=", 1) for word in line.split()[1:])
                around |= written | {name: given[name] for name in written if name in given}
            elif line.startswith("prefect worker "):
                running.enter_context(made.started(*line.split(), environment=around))
            else:
                if " ID" in line:
                    retried = min(ended_runs(made), key=lambda run: run["end_time"])["id"]  # the pipeline
                    line = line.replace("ID", retried)
                done = subprocess.run(
                    ["bash", "-c", line],
                    cwd=tmp_path, env=around, capture_output=True, text=True, timeout=600,
                )  # fmt: skip
                assert done.returncode == 0, (line, done.stdout[-3000:], done.stderr[-3000:])
        assert given.keys() <= around.keys()  # the page names every server
        until(lambda: made.flow_run(retried)["run_count"] == 2 and made.flow_run(retried)["end_time"])
        assert {run["state_name"] for run in ended_runs(made)} == {"Completed"}
        ledger = json.loads(
            subprocess.run(command("budget", "--json"), cwd=tmp_path, env=around, capture_output=True).stdout
        )
        (dataset,) = ledger["datasets"]
        assert (len(dataset["entries"]), dataset["remaining"]["epsilon"]) == (3, 0.0)
        (alert,) = made.events("dpbo.budget.alert")
        assert alert["payload"]["spent"] == 3.0
        assert len(made.events("dpbo.release", 3)) == 3
        with made.client() as client:
            while not client.get("/deployments/name/tune on schedule/nightly").json()["paused"]:
                again = {name: alert[name] for name in ("event", "resource", "related", "payload")}
                again |= {"occurred": datetime.now(UTC).isoformat(), "id": str(uuid4())}
                until(lambda again=again: client.post("/events", json=[again]).is_success)
                time.sleep(5)  # a busy SQLite loses a trigger
            others = ("pipeline/pipeline", "tune a study file/on-request")
            assert not any(client.get(f"/deployments/name/{one}").json()["paused"] for one in others)
        shown = stock.mlflow_editions(mlflow, "private/clinic")
        assert len(shown) == 3


def in_shell(folder):
    """The environment of a shell that finds this interpreter and its commands under the names that the page has."""
    (programs := folder / "bin").mkdir()
    for name, words in (
        ("python", [sys.executable]),
        ("prefect", [sys.executable, "-m", "prefect"]),
        ("dpbo", command()),
    ):
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
        (programs / name).chmod(0o755)
    return {"PATH": f"{programs}:{os.environ['PATH']}"}


def ended_runs(made):
    """The runs of deployments that have ended."""
    with made.client() as client:
        found = client.post("/flow_runs/filter", json={"limit": 200}).json()
    return [run for run in found if run["deployment_id"] and run["state_type"] in FINAL]
