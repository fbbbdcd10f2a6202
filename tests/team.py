"""A team's folder, its studies and its store, the commands that serve them, and what intruders ask of those."""

import os
import signal
import socket
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import tomli_w
from audit.schedule import free_port
from intruder import as_nobody, command, environment, family, wait_until

CANARY = "zq7-canary"
READ = "/ajax-api/2.0/mlflow"


def make_team(made):
    """A team's folder that everybody may enter; the curator's file in it is his alone."""
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
        "privacy": {"dataset": "people", "epsilon": 1.0, "anyway": True},
        "budget": {"epsilon": 3.0},
        "data": {"training": "training.csv", "validation": "validation.csv", "n_validation": 81, "target": "ill"},
        "model": {"estimator": "logistic", "score": "accuracy"},
        "space": {"lambda": {"low": 1e-3, "high": 1.0, "log": True, "points": 2}},
    }
    (made / "nightly.toml").write_text(tomli_w.dumps(study))


@dataclass
class Running:
    """A command that serves, and what it printed."""

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
    """(files and handles of a command that the second user can read, the words of its processes)."""
    pids = [str(pid) for pid in family(running.process.pid)]
    assert len(pids) > 1
    read, words = as_nobody(LOOK_AROUND, folder=str(folder), pids=pids)
    return [name for name in read if not name.startswith("err-")], words


def port_is_free(port):
    """Whether somebody could listen there now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def make_store(folder):
    """A release in the team's store; and beside it an experiment whose root is the curator's folder."""
    from dpbo.tasks.reporting.mlflow_run import log_release
    from dpbo.tasks.reporting.mlflow_store import open_store
    from dpbo_core.ledger.ledger import PrivacyLedger
    from dpbo_core.study.final_training import FinalModel
    from dpbo_core.study.spec import read_study
    from dpbo_core.study.tuning import run_study

    mlruns = folder / "mlruns"
    mlruns.mkdir(mode=0o700, exist_ok=True)
    ledger, uri = PrivacyLedger(f"sqlite:///{mlruns / 'ledger.db'}"), f"sqlite:///{mlruns / 'mlflow.db'}"
    spec = read_study(folder / "nightly.toml")
    release = run_study(spec, ledger=ledger, folder=folder).release
    (account,) = ledger.accounts("people")
    model = FinalModel.of_release(spec, str(folder), release)
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


def link_of(page):
    """What `dpbo ui` printed, with its token."""
    return page.text().split("to read: ")[1].split("#")[0]


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
