"""`dpbo tune`, whole, beside the tools that a user would take for the same search, at three sizes.

    python -m benchmarks.tools [--json]

Small is 600 records × 30 and 20 models; middle 200,000 × 30, and large 3,000,000 × 30 in eight files, 64 models
each. Training has 5,000 rows, and every model is a logistic regression. The plain loop is that of "Whole commands".
The stock flow makes a Prefect task of each training and each file, on Prefect's own temporary server, and logs an
MLflow run for each model; Optuna's study does the same without Prefect, in SQLite. Seconds are the processor's with
all that is started, but for a server that ran before. Contenders take turns; small has two rounds, the others one.
Other work ran beside them, so read the ratios.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import Spread, ratio
from benchmarks.whole_commands import (
    FEATURES,
    LOGISTIC,
    SIDES,
    Taken,
    log_space,
    processor,
    rounds,
    run_loop,
    spent,
    tune,
    values_of,
    written,
)

SIZES = {"small": (600, 1, 20, 2), "middle": (200_000, 1, 64, 1), "large": (3_000_000, 8, 64, 1)}
STARTED = "import sys, numpy as np, pyarrow.parquet as pq, mlflow\nvalues, training, *parts = sys.argv[1:]\n"
SHARED = f"""
mlflow.set_tracking_uri("sqlite:///mlflow.db")
{SIDES}"""
SHARED += """
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
X, y = sides(training)
scaler = StandardScaler().fit(X)
X = scaler.transform(X)
def trained(c):
    return LogisticRegression(C=c).fit(X, y)
def logged(c, score):
    with mlflow.start_run():
        mlflow.log_param("C", c)
        mlflow.log_metric("accuracy", score)
"""
FLOW = (
    STARTED
    + "from prefect import flow, task\n"
    + SHARED
    + """
train = task(trained)
@task
def score(part, models):
    Z, t = sides(part)
    Z = scaler.transform(Z)
    return [int((model.predict(Z) == t).sum()) for model in models], len(t)
@flow
def search():
    made = [train(float(c)) for c in values.split(",")]
    found = [score(part, made) for part in parts]
    n = sum(count for _, count in found)
    for j, model in enumerate(made):
        logged(model.C, sum(right[j] for right, _ in found) / n)
search()
"""
)
OPTUNA = (
    STARTED
    + "import optuna\n"
    + SHARED
    + """
halves = [sides(part) for part in parts]
halves = [(scaler.transform(Z), t) for Z, t in halves]
n = sum(len(t) for _, t in halves)
def objective(trial):
    model = trained(trial.suggest_float("C", 1e-2, 1e4, log=True))
    return sum(int((model.predict(Z) == t).sum()) for Z, t in halves) / n
study = optuna.create_study(direction="maximize", storage="sqlite:///optuna.db")
study.optimize(
    objective,
    n_trials=len(values.split(",")),
    callbacks=[lambda study, trial: logged(trial.params["C"], trial.value)],
)
"""
)
STUDY_ALONE = """
import sys
from dpbo_core import run_study
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study.spec import read_study
run_study(read_study("study.toml"), ledger=PrivacyLedger("sqlite:///ledger.db"))
"""


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="dpbo-tools-") as name, server(Path(name)) as address:
        for size, (n, files, models, count) in SIZES.items():
            training, parts = written(Path(name) / size, n, FEATURES, files)
            yield from of_size(size, training, parts, models, count, address)


def of_size(size: str, training: Path, parts: list[str], models: int, count: int, address: str) -> Iterator[Row]:
    command = partial(tune, training, LOGISTIC, log_space("lambda", models))
    values = values_of(models)
    contenders = {
        "the command": command,
        "the command, with a running server": partial(command, PREFECT_API_URL=address),
        "the command, `--direct`": partial(command, "--direct"),
        "`run_study`": partial(command, code=STUDY_ALONE),
        "the plain loop": partial(run_loop, "logistic", values, training, parts),
        "the stock flow with MLflow": partial(other, FLOW, values, training, parts),
        "Optuna with MLflow": partial(other, OPTUNA, values, training, parts),
    }
    taken = dict(zip(contenders, map(processor, rounds(*contenders.values(), count=count)), strict=True))
    for name, seconds in taken.items():
        yield spread_row(f"{size}: {name}", Spread.of(seconds), unit="s")
    whole, server_runs, direct, _, loop, flow, optuna = taken.values()
    yield spread_row(f"{size}: the command, of the stock flow", ratio(whole, flow), at_most=1.0)
    at_most = 1.2 if size == "small" else None
    yield spread_row(f"{size}: with a running server, of Optuna", ratio(server_runs, optuna), at_most=at_most)
    at_most = {"small": 2.5, "large": 1.3}.get(size)
    yield spread_row(f"{size}: `--direct`, of the plain loop", ratio(direct, loop), at_most=at_most)
    yield spread_row(f"{size}: `--direct`, of Optuna", ratio(direct, optuna), at_most=1.0)


def other(code: str, values: str, training: Path, parts: list[str]) -> Taken:
    """What another tool's script takes, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="dpbo-other-") as name:
        return spent(
            [sys.executable, "-W", "ignore", "-c", code, values, str(training), *parts], Path(name), clean()
        )


def clean() -> dict[str, str]:
    return {
        name: text for name, text in os.environ.items() if not name.startswith(("PREFECT_", "DPBO_", "MLFLOW_"))
    }


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """The address of a Prefect server that runs meanwhile, of this machine alone."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "prefect", "server", "start", "--port", str(port), "--host", "127.0.0.1"]
    home = clean() | {"PREFECT_HOME": str(folder / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    process = subprocess.Popen(words, env=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(240):
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/health", timeout=1):
                break
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}/api"
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main(rows)
