"""On a team's own Prefect: a password, a process worker, retries after kills, refusals that say what they are."""

import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import pytest
import stock
import tomli_w
import yaml
from intruder import lives
from prefect.deployments.runner import EntrypointType
from prefect.events.schemas.automations import AutomationCore
from prefect.utilities.importtools import import_object
from stock import until
from test_evaluation import files, of_files

from dpbo.flows import prefect_page, refusals
from dpbo.flows.tune import tune_file
from dpbo_core.ledger.ledger import PrivacyLedger

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
    ],
    "pull": [{"prefect.deployments.steps.set_working_directory": {"directory": "."}}],
}


@pytest.fixture(scope="module")
def team(tmp_path_factory):
    """A platform with both deployments and a worker, in the folder of a study that its owner opened."""
    folder = tmp_path_factory.mktemp("team")
    files(folder, m=301)
    packages = tmp_path_factory.mktemp("packages")
    (packages / "waiting_trees.py").write_text(BLOCKING)
    (facts := packages / "waiting_trees-1.0.dist-info").mkdir()  # as an installed package has it
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: waiting-trees\nVersion: 1.0\n")
    (facts / "RECORD").write_text("waiting_trees.py,,\n")
    with stock.platform(folder, PYTHONPATH=str(packages)) as made:
        made.run("prefect", "work-pool", "create", stock.POOL, "--type", "process")
        pool = {"work_pool": {"name": stock.POOL}}
        deploy = DEPLOY | {"deployments": [one | pool for one in DEPLOY["deployments"]]}
        deploy["pull"][0]["prefect.deployments.steps.set_working_directory"]["directory"] = str(folder)
        (folder / "deploy.yaml").write_text(yaml.safe_dump(deploy))
        made.run("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "deploy.yaml")
        opened = ("--epsilon", "3", "--file", "validation.csv", "--accept", "rowwise_predictions")
        made.dpbo("budget", "set", "clinic", *opened)
        made.dpbo("budget", "allow", "clinic", "train.csv", "--as", "training")
        made.dpbo("budget", "allow", "clinic", "waiting_trees.Waits", "--as", "estimator")
        with stock.worker(made):
            yield made


def study(made, **privacy):
    """The study file of an edition, which takes a moment or, while it is blocked, as long as that."""
    tables = of_files(m=301)
    del tables["evaluation"], tables["budget"]
    tables["study"] |= {"accepts": ["rowwise_predictions"], "edition": str(time.monotonic_ns())}
    tables["privacy"] |= privacy
    tables["model"] = {"estimator": "waiting_trees.Waits", "score": "accuracy"}
    tables["space"] = {"max_depth": {"low": 1, "high": 2, "integer": True}}
    (made.folder / "study.toml").write_text(tomli_w.dumps(tables))


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


NOBODY = "0" * 8 + "-0000" * 3 + "-" + "0" * 12
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
    """The example's, as Prefect reads them, for a deployment."""

    def read(deployment=NOBODY, within=600):
        text = (ROOT / "examples" / "automations.yaml").read_text()
        text = text.replace("DEPLOYMENT_ID", str(deployment)).replace("within: 600", f"within: {within}")
        return [AutomationCore.model_validate(one) for one in yaml.safe_load(text)["automations"]]

    return read


def test_the_automations_listen_to_events_that_there_are(automations):
    crashed, paused = automations()
    assert paused.trigger.expect == {prefect_page.NEARLY_SPENT}
    named = {one.removeprefix("prefect.flow-run.") for one in crashed.trigger.expect}
    assert {refusals.BUDGET, refusals.POLICY, "Completed", "Failed", "Crashed"} <= named
    assert (crashed.actions[0].state.value, paused.actions[0].type) == ("CRASHED", "pause-deployment")


def test_a_flow_of_ours_is_deployed_from_python_by_its_module():
    """By its file, as Prefect would, it has no package to import from."""
    made = tune_file.to_deployment("on-request", entrypoint_type=EntrypointType.MODULE_PATH)
    assert import_object(made.entrypoint.replace(":", ".")) is tune_file


@pytest.mark.slow
def test_the_automations_fire(team, automations):
    """A nearly spent budget pauses the schedule; a run without a heartbeat is crashed."""
    with team.client() as client:
        nightly = client.get("/deployments/name/tune on schedule/nightly").json()["id"]
        sent = [one.model_dump(mode="json") for one in automations(nightly, within=10)]
        made = [until(lambda one=one: client.post("/automations/", json=one).json().get("id")) for one in sent]
        flow = client.get("/flows/name/tune on schedule").json()["id"]
        running = {"flow_id": flow, "state": {"type": "RUNNING"}}
        run = until(lambda: client.post("/flow_runs/", json=running).json().get("id"))
        for event, of in (
            ("prefect.flow-run.heartbeat", f"prefect.flow-run.{run}"),
            (prefect_page.NEARLY_SPENT, "x"),
        ):
            told = {"occurred": datetime.now(UTC).isoformat(), "id": str(uuid4()), "event": event}
            sent = [told | {"resource": {"prefect.resource.id": of}}]
            until(lambda sent=sent: client.post("/events", json=sent).is_success)
        until(lambda: client.get(f"/deployments/{nightly}").json()["paused"])
        until(lambda: team.flow_run(run)["state_type"] == "CRASHED")
        until(lambda: client.post(f"/deployments/{nightly}/resume_deployment").is_success)
        for one in made:  # ten seconds are too short for real runs
            until(lambda one=one: client.delete(f"/automations/{one}").status_code in (204, 404))


@pytest.mark.slow
def test_a_retry_after_a_kill_is_the_same_run_and_the_same_charge(team):
    study(team)
    for mark in ("blocked", "block"):
        (team.folder / mark).unlink(missing_ok=True)
    (team.folder / "block").touch()
    run = begin(team)
    until(lambda: (team.folder / "blocked").exists() or team.flow_run(run)["state_type"] in FINAL)
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
    (account,) = PrivacyLedger(f"sqlite:///{team.folder}/mlruns/ledger.db").accounts("clinic")
    assert len(account.entries) == 1


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
