"""An observed run from outside its namespaces, and what it is held against."""

import base64
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from observer.ways import Way

TESTS = Path(__file__).parents[1]
APART = ["unshare", "--net", "--pid", "--ipc", "--mount", "--fork", "--kill-child", "--mount-proc"]
TRIALS = {"first": 2}
PREFECT = """
import sys
from pathlib import Path
from flows.prefect_store import create_prefect_store
create_prefect_store(Path(sys.argv[1]).parent)
"""
MLFLOW = """
import sys
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
SqlAlchemyStore(f"sqlite:///{sys.argv[1]}", sys.argv[1] + ".artifacts")
"""
MANY = 17  # trials of dp_hypo in the other worlds


@dataclass(frozen=True)
class Seen:
    """{channel: {key: texts or number}} of a run, its streams and exit code."""

    items: dict[str, dict[str, Any]]
    said: dict[str, str]
    code: int

    @property
    def size(self) -> int:
        return sum(len(keys) for keys in self.items.values())


@cache
def cannot() -> str | None:
    """Why nobody can observe here, or None."""
    if os.geteuid() != 0:
        return "a second user observes: only root can become one"
    try:
        done = subprocess.run([*APART, "true"], capture_output=True, check=False)
    except OSError:
        return "the observer's namespaces need util-linux's unshare"
    return None if done.returncode == 0 else "this machine lets not even root make namespaces of its own"


@cache
def empty_stores() -> dict[str, str]:
    """The databases of Prefect and of MLflow before their first run, by their places."""
    places = {"home/.prefect/prefect.db": PREFECT, "team/mlruns/mlflow.db": MLFLOW}
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        for place, script in places.items():
            path = Path(folder, Path(place).name)
            around = os.environ | {"PYTHONPATH": str(TESTS.parent), "HOME": folder}
            subprocess.run([sys.executable, "-c", script, str(path)], check=True, env=around, capture_output=True)
            made[place] = base64.b64encode(path.read_bytes()).decode()
    return made


class Stage:
    """Runs of one way; the first one draws, and all later ones repeat what it drew."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._tape: str | None = None

    def run(self, world: str, *, asks: bool, fault: str | None = None) -> Seen:
        """One run on a world, observed; `asks`: by one who asks ports, and so cannot count bytes."""
        asked = {
            "files": self._way.files(world),
            "command": self._way.command,
            "environment": self._way.environment,
            "trials": TRIALS.get(world, MANY),
            "tape": self._tape,
            "fault": fault,
            "asks": asks,
            "stock": empty_stores() if self._way.uses_prefect else {},
        }
        around = os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent)))}
        done = subprocess.run(
            [*APART, sys.executable, "-m", "observer.inside"],
            input=json.dumps(asked), capture_output=True, text=True, env=around, cwd=TESTS, timeout=260, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        got = json.loads(done.stdout)
        said = {name: base64.b64decode(raw).decode(errors="replace") for name, raw in got["said"].items()}
        assert got["code"] == 0, said["stderr"][-4000:]
        if self._tape is None:
            self._tape = got["tape"]
        assert json.loads(got["tape"]).keys() == json.loads(self._tape).keys()  # each draw was made, and no other
        return Seen(got["seen"], said, got["code"])
