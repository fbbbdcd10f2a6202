"""After runs of all methods no store, log or stream holds a planted secret; a planted leak is found."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tomli_w
from canary import forms_of_number, forms_of_text, search

from dpbo_core import halves
from dpbo_core.methods import METHODS
from dpbo_core.study import StudySpec

FEATURE, LABEL = 73914.28571429, "zq7-canary-label"
SCRIPT = """
import sys
from pathlib import Path
from flows import command
from dpbo_core.errors import DpboError
{leak}
for kind in {kinds!r}:
    command.tune(Path(f"{{kind}}.toml"))
try:
    command.tune(Path("too_dear.toml"))
except DpboError as refused:
    print(refused, file=sys.stderr)
"""
LEAK = """
import logging
from dpbo_core.objective import Objective
honest = Objective.evaluate
def leaky(self, model):
    total = honest(self, model)
    from prefect import get_run_logger
    get_run_logger().warning("score %s", total.expose())
    return total
Objective.evaluate = leaky
"""


@pytest.fixture
def world(tables, tmp_path):
    """Two CSV files with a planted record, a study a method, and everything that must not be seen."""
    data = tmp_path / "data"
    data.mkdir()
    rng = np.random.default_rng(5)

    def rows(n):
        x = rng.normal(size=(n, 2))
        y = (x[:, 0] + rng.normal(size=n) > 0).astype(int)
        return [f"{a:.9f},{b:.9f},{c}" for (a, b), c in zip(x, y, strict=True)]

    validation = rows(50)
    validation[3] = f"{FEATURE},0.123456789,1"
    validation[7] = f"0.5,0.25,{LABEL}"
    (data / "train.csv").write_text("\n".join(["a,b,ill", *rows(60)]) + "\n")
    (data / "validation.csv").write_text("\n".join(["a,b,ill", *validation]) + "\n")
    tables["data"] = {
        "training": "data/train.csv",
        "validation": "data/validation.csv",
        "n_validation": 50,
        "target": "ill",
    }
    tables["budget"]["epsilon"] = 30.0
    run = tmp_path / "run"
    run.mkdir()
    (run / "data").symlink_to(data)
    for kind in METHODS:
        tables["study"]["method"] = kind
        (run / f"{kind}.toml").write_text(tomli_w.dumps(tables))
    spec = StudySpec.from_dict(tables)
    tables["privacy"]["epsilon"] = 29.0
    (run / "too_dear.toml").write_text(tomli_w.dumps(tables))
    public = halves.public_half(spec, tmp_path)
    objective, problem = halves.sensitive_half(spec, tmp_path, public), public.problem
    secrets = {
        "feature": forms_of_number(FEATURE),
        "standardised feature": forms_of_number(
            float(FEATURE - np.mean([float(r.split(",")[0]) for r in (data / "train.csv").read_text().split()[1:]]))
        ),
        "label": forms_of_text(LABEL),
        "other feature": {b"0.123456789"},
    }
    for i in range(len(problem.candidates)):
        total = objective.evaluate(problem.train(i)).expose()
        secrets[f"score {i}"] = {str(total).encode()} | forms_of_number(total * problem.score_per_step)
    return run, secrets


def campaign(run, leak=""):
    """All methods in one process with its own Prefect home; the two streams."""
    environment = os.environ | {"PREFECT_HOME": str(run / "prefect"), "TMPDIR": str(run / "tmp")}
    for name in (
        "DPBO_LEDGER_URL",
        "MLFLOW_TRACKING_URI",
        "PREFECT_API_URL",
        "PREFECT_API_DATABASE_CONNECTION_URL",
    ):
        environment.pop(name, None)
    (run / "tmp").mkdir()
    script = SCRIPT.format(leak=leak, kinds=list(METHODS))
    done = subprocess.run([sys.executable, "-c", script], cwd=run, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout, done.stderr


def test_no_store_holds_a_planted_secret(world):
    run, secrets = world
    streams = campaign(run)
    for store in ("prefect/prefect.db", "mlruns/mlflow.db", "mlruns/ledger.db"):
        assert (run / store).stat().st_size > 10_000
    assert b"limit is" in streams[1]
    (run / "data").unlink()
    assert search(run, secrets, streams) == set()
    user = os.environ.get("USER") or os.environ.get("LOGNAME") or ""
    assert search(run / "mlruns", {"user tag": {f"mlflow.user{user}".encode(), b"mlflow.source.name"}}) == set()


def test_a_planted_leak_is_found_in_the_store(world):
    run, secrets = world
    campaign(run, LEAK)
    (run / "data").unlink()
    found = search(run, secrets)
    assert any(where.startswith("prefect/prefect.db") and which.startswith("score") for where, which in found)


def test_the_search_sees_each_form(tmp_path):
    import gzip as packer

    (tmp_path / "a.bin").write_bytes(b"xx" + np.float64(FEATURE).tobytes() + b"yy")
    (tmp_path / "b.gz").write_bytes(packer.compress(LABEL.encode()))
    found = search(tmp_path, {"number": forms_of_number(FEATURE), "label": forms_of_text(LABEL)}, [b"73914.285714"])
    assert found == {("a.bin", "number"), ("b.gz", "label"), ("stream 0", "number")}
