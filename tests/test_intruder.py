"""The servers that dpbo starts, as it starts them, attacked by a second user of the machine and by web pages.

The folder around them can be entered by everybody, so that nothing but what dpbo itself does keeps anybody out.
"""

import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import httpx
import pytest
from audit.schedule import free_port
from intruder import as_nobody, family, lives, wait_until
from team import (
    ASKS,
    CANARY,
    LEFT_OPEN,
    READ,
    SERVE_ATTACK,
    UI_ATTACK,
    deployment,
    link_of,
    look_around,
    make_store,
    make_team,
    port_is_free,
    ports_of,
    running,
)

from dpbo.flows.prefect_runtime.loopback import owners
from dpbo.flows.prefect_runtime.server import NAME, credentials

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder():
    made = Path(tempfile.mkdtemp(prefix="dpbo-test-"))
    make_team(made)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def served(folder):
    with running(folder, "serve", "nightly.toml", "--every", "1d", until="password in") as server:
        yield server


@pytest.fixture(scope="module")
def password(served, folder):
    return (folder / "prefect" / NAME).read_text().strip()


def test_a_second_user_reaches_nothing_of_prefect(served):
    found = as_nobody(SERVE_ATTACK, api=f"{served.url}/api", asks=ASKS)
    assert len(found) == 5 * len(ASKS) + 5 + 8
    let_in = {what: status for what, status in found.items() if status not in (401, 404, 403, "closed")}
    assert let_in == {}
    assert all(status == 401 for what, status in found.items() if " /admin" in what or " /flows/" in what)


def test_the_attack_is_real_for_who_has_the_password(served, password):
    """The same requests with the password do what they ask: whoever holds it can run code as the worker."""
    api = f"{served.url}/api"
    assert deployment(api, {}) == 401
    assert deployment(api, credentials(password)) in (200, 201)


def test_a_second_user_reads_neither_files_nor_memory_nor_the_password(served, password, folder):
    read, words = look_around(folder, served)
    assert read == LEFT_OPEN
    assert "dpbo.flows.prefect_runtime.prefect_app" in words
    assert password not in words
    assert password not in served.text()


def test_a_web_page_reaches_nothing_of_prefect(served, password):
    """Even with the password, which a page elsewhere has no way to know: the address decides."""
    api, ours = f"{served.url}/api", credentials(password)
    for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{served.port}"}, {"Host": "127.0.0.1"},
                    {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:9999"},
                    {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}):  # fmt: skip
        for path in ("/flows/count", "/health"):
            assert httpx.post(api + path, json={}, headers=ours | headers).status_code == 403, headers
        assert httpx.get(served.url, headers=headers).status_code == 403
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    for origin, allowed in (("http://evil.example", False), (f"http://localhost:{served.port}", True)):
        answer = httpx.options(f"{api}/flows/count", headers=wanted | {"Origin": origin})
        assert ("access-control-allow-origin" in answer.headers) == allowed
        assert answer.headers.get("access-control-allow-origin", origin) == origin


def test_the_page_asks_its_own_port(served):
    said = httpx.get(f"{served.url}/ui-settings").json()
    assert said["api_url"] == f"{served.url}/api"
    assert said["auth"] == "BASIC"
    policy = httpx.get(served.url, follow_redirects=True).headers["content-security-policy"]
    assert str(served.port) in policy
    assert "http" not in policy.replace(f"http://127.0.0.1:{served.port}", "").replace(
        f"http://localhost:{served.port}", ""
    )


def test_another_folders_server_is_found_and_used(served, password, folder):
    """A second schedule on the same port: the same user's, with the same password."""
    from dpbo.flows.prefect_runtime.server import LoopbackServer

    with LoopbackServer(folder, port=served.port, home=folder / "prefect") as found:
        assert (found.started, found.auth) == (False, password)


def test_a_server_that_is_killed_comes_again_and_one_whose_schedule_is_killed_goes(folder, password, served):
    with running(folder, "serve", "nightly.toml", "--every", "1d", until="password in") as other:
        before = family(other.process.pid) - {other.process.pid}
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        assert not port_is_free(other.port)
        api = f"{other.url}/api/flows/count"
        answer = httpx.post(api, json={}, headers=credentials(password), timeout=180)  # it waits in the socket
        assert answer.status_code == 200
        assert httpx.post(api, json={}).status_code == 401
        after = family(other.process.pid) - {other.process.pid}
        assert after
        assert not after & before
        other.process.kill()
        other.process.wait()
        wait_until(lambda: not any(map(lives, after)))
        assert port_is_free(other.port)


@pytest.fixture(scope="module")
def store(folder):
    return make_store(folder)


@pytest.fixture(scope="module")
def page(folder, store):
    with running(folder, "ui", until="(Ctrl-C stops it)") as server:
        yield server


@pytest.fixture
def reader(page):
    with httpx.Client(base_url=page.url, timeout=180, follow_redirects=True) as client:
        assert client.get(link_of(page)).status_code == 200
        yield client


def test_a_second_user_reaches_nothing_of_mlflow(page, store, folder):
    run_id, hostile, *_ = store
    asks = [("GET", "/", None), ("GET", "/?token=guess", None), ("POST", READ + "/runs/search", {}),
            ("POST", READ + "/experiments/create", {"name": "x", "artifact_location": str(folder)}),
            ("POST", READ + "/experiments/delete", {"experiment_id": "1"}), ("POST", "/graphql", {"query": "{a}"}),
            ("GET", f"/get-artifact?run_uuid={run_id}&path=release.json", None), ("GET", "/version", None),
            ("GET", f"/get-artifact?run_uuid={hostile['elsewhere']}&path=validation.csv", None)]  # fmt: skip
    found, sockets = as_nobody(
        UI_ATTACK, url=page.url, asks=asks, cookie=f"dpbo-{page.port}", tmp=str(folder / "tmp")
    )
    assert found.pop("health") == "OK"
    assert set(found.values()) == {403}
    assert len(found) == 3 * len(asks)
    assert sockets == []  # nor by MLflow's own socket
    read, words = look_around(folder, page)
    assert [name for name in read if "/artifacts/" not in name] == LEFT_OPEN
    token = link_of(page).split("token=")[1]
    assert "mlflow" in words
    assert token not in words
    assert ports_of(family(page.process.pid)) == {page.port}


def test_a_reader_reads_and_changes_nothing(reader, store):
    run_id, _, release, client = store
    fetched = reader.get("/get-artifact", params={"run_uuid": run_id, "path": "release.json"})
    assert fetched.json() == release.to_json()
    listed = reader.get(READ + "/artifacts/list", params={"run_uuid": run_id}).json()["files"]
    assert {"release.json", "release.html", "plots", "model"} <= {item["path"] for item in listed}
    words = {"name": "nightly", "version": "1", "path": "MLmodel"}
    assert "dpbo_core.final_model.train" in reader.get("/model-versions/get-artifact", params=words).text
    found = reader.post(READ + "/runs/search", json={"experiment_ids": ["1"]}).json()["runs"]
    assert run_id in {run["info"]["run_id"] for run in found}
    text = 'query R { mlflowGetRun(input: {runId: "%s"}) { run { info { runId } } } }' % run_id  # noqa: UP031
    assert (
        reader.post("/graphql", json={"query": text}).json()["data"]["mlflowGetRun"]["run"]["info"]["runId"]
        == run_id
    )

    def everything():
        experiments = client.search_experiments(view_type=3)
        runs = client.search_runs([item.experiment_id for item in experiments], run_view_type=3)
        versions = client.search_model_versions("")
        return json.dumps([[str(dict(item)) for item in found] for found in (experiments, versions)]) + str(
            [run.to_dictionary() for run in runs]
        )

    before = everything()
    writes = [("POST", "experiments/create", {"name": "x"}), ("POST", "experiments/delete", {"experiment_id": "1"}),
              ("POST", "experiments/update", {"experiment_id": "1", "new_name": "y"}),
              ("POST", "runs/create", {"experiment_id": "1"}), ("POST", "runs/delete", {"run_id": run_id}),
              ("POST", "runs/set-tag", {"run_id": run_id, "key": "a", "value": "b"}),
              ("POST", "runs/log-metric", {"run_id": run_id, "key": "a", "value": 1, "timestamp": 0}),
              ("DELETE", "registered-models/delete", {"name": "nightly"}),
              ("PATCH", "registered-models/update", {"name": "nightly", "description": "x"}),
              ("POST", "model-versions/create", {"name": "nightly", "source": "/"})]  # fmt: skip
    for base in ("/ajax-api/2.0/mlflow/", "/api/2.0/mlflow/"):
        for method, path, body in writes:
            assert reader.request(method, base + path, json=body).status_code == 403, path
    assert reader.post("/graphql", json={"query": "mutation " + text.removeprefix("query R ")}).status_code == 403
    assert everything() == before


def test_no_artifact_outside_the_stores_own_root(reader, store):
    _, hostile, *_ = store
    for run_id in hostile.values():
        for path in ("validation.csv", "artifacts/validation.csv", "mlruns/ledger.db", "../validation.csv"):
            for name in ("run_uuid", "run_id"):
                answer = reader.get("/get-artifact", params={name: run_id, "path": path})
                assert (answer.status_code, CANARY in answer.text) == (404, False)
        listed = reader.get(READ + "/artifacts/list", params={"run_uuid": run_id})
        assert (listed.status_code, "validation" in listed.text) == (404, False)
    words = {"name": "hostile", "version": "1", "path": "validation.csv"}
    assert reader.get("/model-versions/get-artifact", params=words).status_code == 404
    text = '{ mlflowListArtifacts(input: {runId: "%s"}) { files { path } } }' % hostile["elsewhere"]  # noqa: UP031
    assert reader.post("/graphql", json={"query": text}).status_code == 403


def test_mlflow_alone_would_have_given_it(folder, store):
    """The same requests to MLflow's own server: so the gate is what refuses."""
    from dpbo.flows.viewer.serving import mlflow

    _, hostile, *_ = store
    port = free_port()
    words = {"run_uuid": hostile["elsewhere"], "path": "validation.csv"}
    with (
        mlflow(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}", folder, port) as path,
        httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url=f"http://127.0.0.1:{port}") as inside,
    ):
        answer = inside.get("/get-artifact", params=words, timeout=180)
    assert CANARY in answer.text


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL, signal.SIGHUP, signal.SIGINT])
def test_mlflow_ends_with_its_gate(folder, store, how):
    before = set((folder / "tmp").glob("dpbo-*"))
    with running(folder, "ui", until="(Ctrl-C stops it)") as server:
        children = family(server.process.pid) - {server.process.pid}
        assert len(children) >= 3  # the leash, MLflow's command, its worker
        assert owners(server.port) == {os.geteuid()}
        server.process.send_signal(how)
        wait_until(lambda: server.process.poll() is not None)
        wait_until(lambda: not any(map(lives, children)))
        assert port_is_free(server.port)
        if how != signal.SIGKILL:
            assert server.process.returncode == 0
            assert set((folder / "tmp").glob("dpbo-*")) <= before  # its folder is gone
