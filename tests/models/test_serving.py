"""A registry of its own on loopback, as a team has one: the model is loaded from it, served and scores a file."""

import csv
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from audit.schedule import free_port
from test_dashboard import with_method

from dpbo.tasks.reporting.mlflow_run import log_release
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.final_training import FinalModel
from dpbo_core.study.tuning import run_study

PATIENCE = 240.0  # seconds; whoever shares the machine may keep it
MODEL = "models:/trial@champion"


@contextmanager
def running(words, at, environment):
    """The command `mlflow words`, once it answers at `at`; it and its children end with the block."""
    child = subprocess.Popen(
        [sys.executable, "-m", "mlflow", *words], env=environment, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        until = time.monotonic() + PATIENCE
        while True:
            with suppress(OSError, urllib.error.URLError), urllib.request.urlopen(at, timeout=5):
                break
            assert child.poll() is None, child.stdout.read().decode()[-2000:]
            assert time.monotonic() < until, "it does not answer"
            time.sleep(0.5)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, 15)
        child.wait(30)


@pytest.mark.slow
def test_a_remote_registry_serves_the_champion_and_it_scores_a_file(here, tables):
    place, port = f"http://127.0.0.1:{free_port()}", free_port()
    spec = StudySpec.from_dict(with_method(tables, "public"))
    ledger = PrivacyLedger(f"sqlite:///{here / 'ledger.db'}")
    release = run_study(spec, ledger=ledger).release
    model = FinalModel.of_release(spec, ".", release)
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("MLFLOW", "PYTHONPATH"))}
    environment |= {"MLFLOW_TRACKING_URI": place, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": ""}
    environment["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] = "false"  # a dozen processes that nothing here asks for
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"  # where uvicorn is
    serve = ["server", "--backend-store-uri", f"sqlite:///{here / 'team.db'}", "--workers", "1"]
    serve += ["--artifacts-destination", f"{here / 'kept'}", "--host", "127.0.0.1", "--port", place.split(":")[2]]
    rows = model.example()
    expected = model.predict_proba(rows)
    with (here / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([rows, *zip(*rows.values(), strict=True)])
    with running(serve, f"{place}/health", environment):
        tracked = log_release(release, ledger.accounts("people")[0], place, model=model, registered=True)
        assert tracked.missing == ()
        loaded = subprocess.run(
            [sys.executable, "-c", LOAD, place, MODEL, str(here / "rows.csv")],
            env=environment, cwd=here, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert json.loads(loaded.stdout.splitlines()[-1]) == pytest.approx(expected[:, 1].tolist(), abs=1e-12)
        at = f"http://127.0.0.1:{port}"
        words = f"models serve -m {MODEL} --env-manager local --host 127.0.0.1 --port {port}".split()
        with running(words, f"{at}/ping", environment):
            records = [dict(zip(rows, one, strict=True)) for one in zip(*rows.values(), strict=True)]
            body = {"dataframe_records": records, "params": {"predict_method": "predict_proba"}}
            answer = predictions(f"{at}/invocations", json.dumps(body).encode(), "application/json")
            assert [row["1"] for row in answer] == pytest.approx(expected[:, 1].tolist(), abs=1e-12)
            answer = predictions(f"{at}/invocations", (here / "rows.csv").read_bytes(), "text/csv")
            assert answer == model.predict(rows).tolist()
    assert not [path for path in Path(here / "kept").rglob("*") if path.suffix in (".pkl", ".pickle")]


def predictions(at, body, kind):
    with urllib.request.urlopen(urllib.request.Request(at, body, {"content-type": kind}), timeout=60) as answer:
        return json.loads(answer.read())["predictions"]


LOAD = """
import json, sys
import mlflow, pandas as pd
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model(sys.argv[2])
rows = pd.read_csv(sys.argv[3])
print(json.dumps(model.predict(rows, params={"predict_method": "predict_proba"})["1"].tolist()))
assert not any(name.split(".")[0] in ("dpbo", "dpbo_core") for name in sys.modules)
"""
