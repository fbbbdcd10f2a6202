"""An observed run from outside its namespaces, and what it is held against."""

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from observer.ways import Way

TESTS = Path(__file__).parents[1]
APART = ["unshare", "--net", "--pid", "--ipc", "--mount", "--fork", "--kill-child", "--mount-proc"]
TRIALS = {"first": 2}
EMPTY = {  # place among the team's folders: how it is made, as the first command makes it
    "home/.prefect/prefect.db": "import shutil, made_once; shutil.copy(made_once.empty_prefect_database(), path)",
    "team/mlruns/mlflow.db": "from dpbo.tasks.reporting.mlflow_store import _make; _make(path)",
}
CLOCK = "Prefect by the clock"
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
    if done.returncode != 0:
        return "this machine lets not even root make namespaces of its own"
    hidden = [place for place in (TESTS, Path(sys.prefix)) if place.resolve().is_relative_to("/tmp")]
    return f"{hidden[0]} lies in /tmp, where a run has a folder of its own" if hidden else None


@cache
def empty_stores() -> dict[str, str]:
    """The databases of Prefect and of MLflow before their first run, by their places."""
    made = {}
    with tempfile.TemporaryDirectory() as folder:
        for place, script in EMPTY.items():
            path = Path(folder, Path(place).name)
            script = f"import sys; from pathlib import Path; path = Path(sys.argv[1]); {script}"
            around = os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent))), "HOME": folder}
            subprocess.run([sys.executable, "-c", script, str(path)], check=True, env=around, capture_output=True)
            made[place] = base64.b64encode(path.read_bytes()).decode()
    return made


class Stage:
    """Runs of one way; the first one draws, and all later ones repeat what it drew."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self.tape: str | None = None

    def run(self, world: str, *, asks: bool, faults: Sequence[str] = ()) -> Seen:
        """One run on a world, observed; `asks`: by one who asks ports, and so cannot count bytes."""
        asked = {
            "files": self._way.files(world),
            "command": self._way.command,
            "environment": self._way.environment,
            "trials": TRIALS.get(world, MANY),
            "tape": self.tape,
            "fault": "; ".join(faults),
            "asks": asks,
            "stock": empty_stores() if self._way.uses_prefect else {},
        }
        around = os.environ | {"PYTHONPATH": os.pathsep.join((str(TESTS), str(TESTS.parent)))}
        done = subprocess.run(
            [*APART, sys.executable, "-m", "observer.inside"],
            input=json.dumps(asked), capture_output=True, text=True, env=around, cwd=TESTS,
            timeout=700, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        got = json.loads(done.stdout)
        said = {name: base64.b64decode(raw).decode(errors="replace") for name, raw in got["said"].items()}
        assert got["code"] == 0, said["stderr"][-4000:]
        if self.tape is None:
            self.tape = got["tape"]
        assert json.loads(got["tape"]).keys() == json.loads(self.tape).keys()  # each draw was made, and no other
        items = got["seen"]
        if self._way.by_the_clock:
            moved = sorted(key for key in items["Prefect"] if key.startswith(self._way.by_the_clock))
            items[CLOCK] = {key: items["Prefect"].pop(key) for key in moved}
        return Seen(items, said, got["code"])
