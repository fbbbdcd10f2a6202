"""Deployments as Prefect recorded them before the packages were renamed, run as its workers run them."""

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest
import tomli_w
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
from prefect.deployments.runner import EntrypointType
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import get_current_settings

import dpbo
from dpbo.flows.prefect_runtime.settings import Stores
from dpbo.flows.renamed import warn_of_old_name
from dpbo_core.accounting.ledger import PrivacyLedger
from dpbo_core.study.consent import approve_study
from dpbo_core.study.study_file import read_study

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def server(databases):
    with databases.prefect_server():
        yield


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """The sources, in the folder where a worker of a checkout runs."""
    copy = tmp_path_factory.mktemp("checkout")
    for room in ("dpbo", "dpbo_core", "tasks", "flows"):
        shutil.copytree(ROOT / room, copy / room, symlinks=True)
    return copy


@pytest.fixture
def team(tmp_path):
    """A folder with packages of the names that ours had."""
    for name in ("flows", "tasks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    return tmp_path


def ran(entrypoint, folder, tables, monkeypatch):
    """(the last state's name, lines of its log about names, what the process said) of a run of a deployment.

    The study's owner has opened its cap in the folder; the run is a worker's process there.
    """
    monkeypatch.chdir(folder)
    (folder / "study.toml").write_text(tomli_w.dumps(tables))
    study, stores = read_study(folder / "study.toml"), Stores()
    stores.make_folder()
    approve_study(study, ledger=PrivacyLedger(stores.ledger), folder=folder)
    parameters = {"study": "study.toml"} if "tune_on_schedule" in entrypoint else {"study": tables}
    with get_client(sync_client=True) as client:
        flow = client.create_flow_from_name("tune")
        name = entrypoint.replace("/", " ")
        deployment = client.create_deployment(flow, name, entrypoint=entrypoint, path=str(folder))
        run = client.create_flow_run_from_deployment(deployment, parameters=parameters).id
    mine = {"PREFECT__FLOW_RUN_ID": str(run), "PREFECT_API_URL": get_current_settings().api.url}
    engine = [sys.executable, "-m", "prefect.engine"]
    done = subprocess.run(engine, cwd=folder, env=os.environ | mine, capture_output=True, text=True)
    with get_client(sync_client=True) as client:
        lines = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run])))
        state = client.read_flow_run(run).state.name
    return state, [line.message for line in lines if "name of before" in line.message], done.stderr


OLD = ("flows/serve.py:tune_on_schedule", "flows.tune.tune_privately")


def renewed(entrypoint):
    """What the warning says of it."""
    now = f"dpbo.{entrypoint.replace('/', '.').replace('.py:', '.')}"
    return f"Deploy it again with the entrypoint {now}; in Python: from dpbo import tune_"


@pytest.mark.parametrize("entrypoint", OLD)
def test_a_name_of_before_finds_its_flow_which_says_so(checkout, monkeypatch, entrypoint):
    """As Prefect's engine finds it; how such a run ends is tried in the slow form below."""
    monkeypatch.chdir(checkout)
    monkeypatch.syspath_prepend(checkout)
    for name in ("flows", "flows.serve", "flows.tune"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    told = []
    monkeypatch.setattr(
        "dpbo.flows.renamed.get_run_logger", lambda: SimpleNamespace(warning=lambda *it: told.append(it))
    )
    before = set(sys.modules)
    try:
        found = load_flow_from_entrypoint(entrypoint)
        module, _, flow = renewed(entrypoint).partition(";")[0].rpartition(" ")[2].rpartition(".")
        assert found.name == getattr(import_module(module), flow).name
        warn_of_old_name(found.fn.__module__, f"{module}.{flow}")
        warn_of_old_name(module, f"{module}.{flow}")  # by the name of now there is nothing to say
    finally:
        for name in set(sys.modules) - before:
            if name.partition(".")[0] == "flows":
                del sys.modules[name]
    ((line, *names),) = told
    assert renewed(entrypoint) in line % tuple(names)


@pytest.mark.slow
@pytest.mark.parametrize("entrypoint", OLD)
def test_a_checkout_runs_a_deployment_of_before_and_says_so(
    server, here, checkout, tables, monkeypatch, entrypoint
):
    tables["study"]["name"] = tables["privacy"]["dataset"] = entrypoint.rpartition("tune_")[2]
    state, told, said = ran(entrypoint, checkout, tables, monkeypatch)
    assert state == "Completed", said
    (line,) = told
    assert renewed(entrypoint) in line


@pytest.mark.slow
def test_a_deployment_by_the_installed_name_runs_in_a_teams_folder(server, here, team, tables, monkeypatch):
    state, told, said = ran("dpbo.flows.tune.tune_privately", team, tables, monkeypatch)
    assert (state, told) == ("Completed", []), said


def test_serving_again_renews_a_schedule(server):
    """What `dpbo serve` registers takes the place of what it registered before, and of no other."""
    with get_client(sync_client=True) as client:
        flow = client.create_flow_from_name("tune on schedule")
        before = client.create_deployment(flow, "nightly", entrypoint="flows.serve.tune_on_schedule")
    served = dpbo.tune_on_schedule.to_deployment("nightly", entrypoint_type=EntrypointType.MODULE_PATH)
    assert served.apply() == before
    with get_client(sync_client=True) as client:
        assert client.read_deployment(before).entrypoint == "dpbo.flows.serve.tune_on_schedule"


@pytest.mark.slow
def test_deploying_again_renews_a_work_pools(server, tmp_path):
    shutil.copy(ROOT / "prefect.yaml", tmp_path)
    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="private", type="process"))
        flow = client.create_flow_from_name("tune privately")
        before = client.create_deployment(flow, "on-request", entrypoint="flows/tune.py:tune_privately")
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    mine = os.environ | {"PREFECT_API_URL": get_current_settings().api.url}
    done = subprocess.run(command, cwd=tmp_path, env=mine, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    with get_client(sync_client=True) as client:
        assert client.read_deployment(before).entrypoint == "dpbo.flows.tune.tune_privately"
        scheduled = client.read_deployment_by_name("tune on schedule/nightly")
    assert scheduled.entrypoint == "dpbo.flows.serve.tune_on_schedule"
