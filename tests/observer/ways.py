"""Every way of running a study: its files, its command, its environment."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import tomli_w
from of_features import merged
from worlds import with_method

from observer import houses

SMOOTH = {"score": "sigmoid", "steepness": 10.0}
DPBO = "from dpbo.flows.cli import main; main()"
PLAIN = """
from pathlib import Path
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study.spec import read_study
from dpbo_core.study.tuning import run_study
Path("mlruns").mkdir(mode=0o700)
result = run_study(read_study("study.toml"), ledger=PrivacyLedger("sqlite:///mlruns/ledger.db"))
print(result.release.value)
"""
SEARCH = """
import pandas as pd
from pathlib import Path
from sklearn.linear_model import LogisticRegression
from dpbo_core import PrivateSearch, Real
Path("mlruns").mkdir(mode=0o700)
training, validation = (pd.read_csv(f"{name}.csv", dtype=str) for name in ("training", "validation"))
X, Y = ((t[["a", "b"]].apply(pd.to_numeric, errors="coerce"), t["ill"]) for t in (training, validation))
search = PrivateSearch(
    LogisticRegression(max_iter=50), {"C": Real(1e-3, 1e2, log=True)}, epsilon=1.0, delta=1e-6, dataset="people",
    budget=(3.0, 1e-5), max_records_per_person=16, method="private_grid", n_steps=4, n_candidates=6,
    ledger="sqlite:///mlruns/ledger.db",
)
print(search.fit(*X, X_validation=Y[0], y_validation=Y[1]).best_params_)
"""
SERVE = """
import json, os, signal, sqlite3, subprocess, sys, time, urllib.request, base64
from contextlib import suppress
from pathlib import Path
from observer.frozen import wait_until_asked
home = Path(os.environ["HOME"], ".prefect")
command = [sys.executable, "-c", "from dpbo.flows.cli import main; main()"]
port = "4279"
serving = subprocess.Popen([*command, "serve", "study.toml", "--every", "1d", "--port", port], umask=0o077)
def asked(path, body):
    from dpbo.flows.prefect_runtime.schedule_server import SECRET_FILE_PREFIX
    token = base64.b64encode((home / f"{SECRET_FILE_PREFIX}{port}").read_bytes().strip()).decode()
    headers = {"Authorization": "Basic " + token, "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/api{path}", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)
def waited(wanted):
    while True:
        assert serving.poll() is None
        with suppress(OSError):
            if found := wanted():
                return found
        time.sleep(0.25)
deployment = waited(lambda: asked("/deployments/filter", {}))[0]["id"]
run = waited(lambda: asked(f"/deployments/{deployment}/create_flow_run", {}))["id"]
ended = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
def over(r):
    return r["id"] == run and r["state_type"] in ended
last = waited(lambda: [r for r in asked("/flow_runs/filter", {}) if over(r)])[0]
def written():
    with sqlite3.connect(f"file:{home}/prefect.db?mode=ro", uri=True, timeout=60) as store:
        counts = (store.execute(f"SELECT count(*) FROM {table}") for table in ("events", "log", "flow_run"))
        return [count.fetchone() for count in counts]
before, since = written(), time.monotonic()
while time.monotonic() < since + 10:  # Prefect writes events when it has time
    time.sleep(1)
    if (now := written()) != before:
        before, since = now, time.monotonic()
with sqlite3.connect(home / "prefect.db", timeout=60) as store, sqlite3.connect(home / "at-rest.db") as copy:
    store.backup(copy)
os.chmod(home / "at-rest.db", 0o600)
wait_until_asked(int(port))
serving.send_signal(signal.SIGTERM)
serving.wait(60)
print("run", last["state_type"])
"""


@dataclass(frozen=True)
class Way:
    """How a study is run: from a world to its files, and what is run among them."""

    files: Callable[[str], dict[str, str]]
    command: list[str]
    environment: dict[str, str] = field(default_factory=dict)
    uses_prefect: bool = True
    by_the_clock: tuple[str, ...] = ()  # how keys of Prefect's begin that vary from run to run, as the list says


def study(
    method: str, *, parts: int = 0, workers: int = 1, trains: bool = False, score: str = "accuracy"
) -> Callable[[str], dict[str, str]]:
    """A team's folder with a study of this method."""

    def made(world: str) -> dict[str, str]:
        tables: dict[str, Any] = {
            "study": {"name": "observed", "method": method},
            "privacy": {
                "dataset": "people", "epsilon": 3.0 if trains else 1.0, "delta": 1e-6,
                "max_records_per_person": houses.THEIRS, "anyway": True,
            },
            "budget": {"epsilon": 30.0, "delta": 1e-4},
            "data": {
                "training": f"training.{'parquet' if parts else 'csv'}",
                "validation": "validation" if parts else "validation.csv",
                "n_validation": houses.M, "target": "ill", "workers": workers,
            },
            "model": {"estimator": "logistic", **(SMOOTH if method == "lipschitz" else {"score": score})},
            "space": {"lambda": {"low": 1e-3, "high": 1.0, "log": True, "points": 8}},
            "search": {"steps": 5},
        }  # fmt: skip
        with_method(tables, method)
        return houses.files(world, parts=parts) | {"study.toml": tomli_w.dumps(tables)}

    return made


def _python(script: str, *words: str) -> list[str]:
    return [sys.executable, "-c", script, *words]


TUNE = _python(DPBO, "tune", "study.toml")
ORDERS = ("order of events", "order of task_run", "order of log")
WAYS: dict[str, Way] = {
    "plain": Way(study("lipschitz"), _python(PLAIN), uses_prefect=False),
    "flow": Way(study("noisy_gp"), TUNE),
    "serve": Way(study("private_trajectory"), _python(SERVE), by_the_clock=("event", "order of events")),
    "workers": Way(study("private_grid", parts=4, workers=2), TUNE, by_the_clock=ORDERS),
    "partitions": Way(study("private_trajectory", parts=4), TUNE),
    "rankings": Way(study("private_grid", parts=4, workers=2, score="roc_auc"), TUNE, by_the_clock=ORDERS),
    "PrivateSearch": Way(study("private_grid"), _python(SEARCH), uses_prefect=False),
    **merged("observed", study, Way),
}
