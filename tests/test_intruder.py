"""The servers that dpbo starts, as it starts them, attacked by a second user of the machine and by web pages.

The folder around them can be entered by everybody, so that nothing but what dpbo itself does keeps anybody out.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pandas as pd
import pytest
import tomli_w
from audit.schedule import free_port
from intruder import as_nobody, command, environment, family, lives, wait_until

from flows.listening import owners
from flows.password import NAME
from flows.server import credentials

pytestmark = pytest.mark.slow
CANARY = "zq7-canary"
READ = "/ajax-api/2.0/mlflow"


@pytest.fixture(scope="module")
def folder():
    """A team's folder that everybody may enter; the curator's file in it is his alone."""
    made = Path(tempfile.mkdtemp(prefix="dpbo-test-"))
    made.chmod(0o755)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(160, 2))
    table = pd.DataFrame(x, columns=["a", "b"]).assign(ill=(x[:, 0] > 0).astype(int))
    table.iloc[:80].to_csv(made / "training.csv", index=False)
    text = table.iloc[80:].to_csv(index=False).replace("\n", f"\n{CANARY},1,1\n", 1)
    (made / "validation.csv").write_text(text)
    (made / "validation.csv").chmod(0o600)
    study = {
        "study": {"name": "nightly", "method": "private_grid"},
        "privacy": {"dataset": "people", "epsilon": 1.0},
        "budget": {"epsilon": 3.0},
        "data": {"training": "training.csv", "validation": "validation.csv", "n_validation": 81, "target": "ill"},
        "model": {"estimator": "logistic", "score": "accuracy"},
        "space": {"lambda": {"low": 1e-3, "high": 1.0, "log": True, "points": 2}},
    }
    (made / "nightly.toml").write_text(tomli_w.dumps(study))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@dataclass
class Running:
    process: subprocess.Popen
    port: int
    said: Path

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def text(self):
        return self.said.read_text()


@contextmanager
def running(folder, *words, until):
    """A command of dpbo that serves: from when it prints `until`; nothing of it outlives the test."""
    port = free_port()
    said = folder / f"said-{port}.txt"
    with said.open("wb") as out, (folder / f"err-{port}.txt").open("wb") as err:
        process = subprocess.Popen(
            command(*words, "--port", str(port)), cwd=folder, env=environment(folder), stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
    said.chmod(0o600)  # as a terminal is
    known = {process.pid}
    try:
        wait_until(lambda: until in said.read_text(), alive=lambda: process.poll() is None)
        known |= family(process.pid)
        yield Running(process, port, said)
    finally:
        known |= family(process.pid)
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pid in known - {process.pid}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def served(folder):
    with running(folder, "serve", "nightly.toml", "--every", "1d", until="password in") as server:
        yield server


@pytest.fixture(scope="module")
def password(served, folder):
    return (folder / "prefect" / NAME).read_text().strip()


def deployment(api, headers):
    """The attack that ran as the curator: a deployment whose pull steps are a shell's. Its answer's status."""
    with httpx.Client(base_url=api, headers=headers, timeout=180) as client:
        made = client.post("/flows/", json={"name": "attack"})
        flow = made.json().get("id", "0") if made.status_code < 300 else "00000000-0000-0000-0000-000000000000"
        body = {
            "name": "attack",
            "flow_id": flow,
            "entrypoint": "x.py:f",
            "pull_steps": [{"prefect.deployments.steps.run_shell_script": {"script": "id"}}],
        }
        for _ in range(60):
            status = client.post("/deployments/", json=body).status_code
            if status != 503:  # SQLite is busy; Prefect's own client asks again
                break
            time.sleep(1)
        return status


SERVE_ATTACK = """
api, found = given["api"], {}
with httpx.Client(base_url=api, timeout=180) as c:
    for guess in (None, "admin:pass", ":", "prefect", "nobody:"):
        h = {} if guess is None else {"Authorization": "Basic " + base64.b64encode(guess.encode()).decode()}
        for method, path, body in given["asks"]:
            found[f"{guess} {method} {path}"] = c.request(method, path, json=body, headers=h).status_code
    for path in ("/api/health/../flows/count", "/health/", "//flows/count", "/ready/../flows/count", "/HEALTH"):
        found["path " + path] = c.post(api.removesuffix("/api") + "/api" + path, json={}).status_code

async def sockets():
    for path in ("/events/in", "/events/out", "/logs/out", "/task_runs/subscriptions/scheduled"):
        for protocols in (None, ["prefect"]):
            try:
                async with websockets.connect(api.replace("http", "ws") + path, subprotocols=protocols) as ws:
                    await ws.send(json.dumps({"type": "auth", "token": "guess"}))
                    answer = json.loads(await asyncio.wait_for(ws.recv(), 180))
                    found[f"ws {path} {protocols}"] = answer.get("type")
            except (websockets.WebSocketException, ConnectionError) as e:
                found[f"ws {path} {protocols}"] = "closed"
asyncio.run(sockets())
print(json.dumps(found))
"""
ASKS = [("GET", "/admin/settings", None), ("GET", "/admin/version", None), ("POST", "/flows/", {"name": "x"}),
        ("POST", "/deployments/filter", {}), ("POST", "/flow_runs/filter", {}), ("POST", "/logs/filter", {}),
        ("POST", "/variables/", {"name": "x", "value": 1}), ("POST", "/block_documents/filter", {}),
        ("POST", "/work_pools/filter", {}), ("POST", "/automations/filter", {}), ("DELETE", "/flows/x", None),
        ("POST", "/deployments/", {"name": "x", "flow_id": "0" * 32})]  # fmt: skip


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


LOOK_AROUND = """
read, seen = [], ""
for top, folders, files in os.walk(given["folder"]):
    for name in files:
        try:
            read.append(str(Path(top, name).relative_to(given["folder"]))); Path(top, name).read_bytes()
        except OSError:
            read.pop()
for entry in Path("/proc").iterdir():
    if entry.name in given["pids"]:
        seen += (entry / "cmdline").read_bytes().replace(b"\\0", b" ").decode()
        for name in ("environ", "mem", "fd", "cwd"):
            try:
                list((entry / name).iterdir()) if name in ("fd", "cwd") else (entry / name).open("rb").read(1)
                read.append(f"{entry.name} {name}")
            except OSError:
                pass
print(json.dumps([sorted(read), seen]))
"""
LEFT_OPEN = ["nightly.toml", "training.csv"]  # by the test: public


def look_around(folder, running):
    pids = [str(pid) for pid in family(running.process.pid)]
    assert len(pids) > 1
    read, words = as_nobody(LOOK_AROUND, folder=str(folder), pids=pids)
    return [name for name in read if not name.startswith("err-")], words


def test_a_second_user_reads_neither_files_nor_memory_nor_the_password(served, password, folder):
    read, words = look_around(folder, served)
    assert read == LEFT_OPEN
    assert "flows.prefect_app" in words
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
    from flows.server import LoopbackServer

    with LoopbackServer(folder, port=served.port, home=folder / "prefect") as found:
        assert (found.started, found.auth) == (False, password)


def port_is_free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


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
    """A release in the team's store; and beside it an experiment whose root is the curator's folder."""
    from dpbo_core.accounting.ledger import PrivacyLedger
    from dpbo_core.final_model import train_final
    from dpbo_core.study import read_study, run_study
    from tasks.tracking import log_release
    from tasks.tracking.store import open_store

    mlruns = folder / "mlruns"
    mlruns.mkdir(mode=0o700, exist_ok=True)
    ledger, uri = PrivacyLedger(f"sqlite:///{mlruns / 'ledger.db'}"), f"sqlite:///{mlruns / 'mlflow.db'}"
    spec = read_study(folder / "nightly.toml")
    release = run_study(spec, ledger=ledger, folder=folder).release
    (account,) = ledger.accounts("people")
    model = train_final(spec, str(folder), release)
    tracked = log_release(release, account, uri, model=model, registered=True)
    client = open_store(uri).client
    hostile = {}
    for name, root in (
        ("elsewhere", str(folder)),
        ("file", f"file://{folder}"),
        ("up", f"{mlruns}/artifacts/../.."),
    ):
        experiment = client.create_experiment(f"hostile {name}", artifact_location=root)
        run = client.create_run(experiment).info
        hostile[name] = run.run_id
        place = folder / run.run_id
        place.mkdir(exist_ok=True)
        (place / "artifacts").symlink_to(folder)
    link = client.create_run(client.get_experiment_by_name("people").experiment_id).info.run_id
    inside = mlruns / "artifacts" / link
    inside.mkdir()
    (inside / "artifacts").symlink_to(folder)
    hostile["link"] = link
    client.create_registered_model("hostile")
    client.create_model_version("hostile", str(folder), hostile["elsewhere"])
    return tracked.run_id, hostile, release, client


@pytest.fixture(scope="module")
def page(folder, store):
    with running(folder, "ui", until="(Ctrl-C stops it)") as server:
        yield server


def link_of(page):
    return page.text().split("to read: ")[1].split("#")[0]


@pytest.fixture
def reader(page):
    with httpx.Client(base_url=page.url, timeout=180, follow_redirects=True) as client:
        assert client.get(link_of(page)).status_code == 200
        yield client


UI_ATTACK = """
found = {}
with httpx.Client(base_url=given["url"], timeout=180, follow_redirects=True) as c:
    for method, path, body in given["asks"]:
        for extra in ({}, {"Cookie": given["cookie"] + "=guess"}, {"Authorization": "Bearer guess"}):
            answer = c.request(method, path, json=body, headers=extra)
            found[f"{method} {path} {sorted(extra)}"] = answer.status_code
    found["health"] = c.get("/health").text
sockets = []
for top in ("/tmp", given["tmp"]):
    for place, folders, files in os.walk(top):
        for name in files:
            try:
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(os.path.join(place, name)); sockets.append(name)
            except OSError:
                pass
print(json.dumps([found, [name for name in sockets if name == "mlflow"]]))
"""


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


def ports_of(pids):
    """The ports on which any of these processes listens."""
    held = set()
    for pid in pids:
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = str(handle.readlink())
            except OSError:
                continue
            held.add(target.removeprefix("socket:[").rstrip("]"))
    rows = [
        row.split() for table in ("tcp", "tcp6") for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    ]
    return {int(row[1].rsplit(":", 1)[1], 16) for row in rows if row[3] == "0A" and row[9] in held}


def test_a_reader_reads_and_changes_nothing(reader, store):
    run_id, _, release, client = store
    fetched = reader.get("/get-artifact", params={"run_uuid": run_id, "path": "release.json"})
    assert fetched.json() == release.to_json()
    listed = reader.get(READ + "/artifacts/list", params={"run_uuid": run_id}).json()["files"]
    assert {"release.json", "release.html", "plots", "model"} <= {item["path"] for item in listed}
    words = {"name": "nightly", "version": "1", "path": "MLmodel"}
    assert "dpbo_core.final_model" in reader.get("/model-versions/get-artifact", params=words).text
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
    from flows.viewer.serving import mlflow

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
