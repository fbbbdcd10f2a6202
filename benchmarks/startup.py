"""How long the core takes to import, and the command to answer.

    python -m benchmarks.startup [--json]

Each is a new process, timed by the wall from its start to its end; files are in the system's cache. The unit of a
command is the import of scikit-learn's linear models, support vector machines and ensembles in the same round. A
first tune is in a new home and a new folder, a later one in a new folder. Processor time is of all its processes.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import Spread, in_turn, ratio

REPETITIONS, ROUNDS = 9, 3
UNIT = "import sklearn.linear_model, sklearn.svm, sklearn.ensemble"
GOALS = {"first": 7.0, "later": 5.0, "replay": 0.8, "doctor": 1.0, "budget": 0.4, "show": 0.4}
TITLES = {
    "first": "`dpbo tune --example`, first",
    "later": "`dpbo tune --example`, later",
    "replay": "`dpbo tune --example`, a replay",
    "doctor": "`dpbo doctor`",
    "budget": "`dpbo budget`",
    "show": "`dpbo show`",
}
STUDY = Path(__file__).parent.parent / "examples" / "breast_cancer.toml"
COMMAND = "import sys; from dpbo.flows.cli import main; sys.argv = ['dpbo', *sys.argv[1:]]; main()"


def rows() -> Iterator[Row]:
    runs = {
        "numpy": partial(python, "import numpy"),
        "core": partial(python, "import dpbo_core"),
        "all": partial(python, "from dpbo_core import *"),
        "help": partial(python, COMMAND, "--help"),
        "plan": partial(python, COMMAND, "plan", str(STUDY)),
    }
    taken = dict(zip(runs, in_turn(list(runs.values()), REPETITIONS, time.perf_counter), strict=True))
    yield spread_row("`import dpbo_core`: of `import numpy`", ratio(taken["core"], taken["numpy"]), at_most=1.5)
    yield Row("`import dpbo_core`: resident memory", resident("import dpbo_core"), unit="MB", at_most=40.0)
    yield spread_row("`from dpbo_core import *`: of `import numpy`", ratio(taken["all"], taken["numpy"]))
    yield Row("`from dpbo_core import *`: resident memory", resident("from dpbo_core import *"), unit="MB")
    yield spread_row("`dpbo --help`", Spread.of(taken["help"]), unit="s", at_most=0.3)
    yield spread_row("`dpbo plan`, cold", Spread.of(taken["plan"]), unit="s", at_most=1.0)
    yield from units()


def units() -> Iterator[Row]:
    """What a user waits for, each in units of the import that stood beside it."""
    rounds = [one_round() for _ in range(ROUNDS)]
    walls = {name: [taken[name][0] for taken in rounds] for name in rounds[0]}
    processors = {name: [taken[name][1] for taken in rounds] for name in rounds[0]}
    yield spread_row("the unit: scikit-learn's import", Spread.of(walls["unit"]), unit="s")
    for name, goal in GOALS.items():
        used = ratio(processors[name], processors["unit"]).median
        note = f"processor time {used:.3g} units"
        yield spread_row(TITLES[name], ratio(walls[name], walls["unit"]), unit="units", at_most=goal, note=note)


def one_round() -> dict[str, tuple[float, float]]:
    """(wall, processor) seconds of the unit and of every command, one after another."""
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as a,
        tempfile.TemporaryDirectory() as b,
    ):
        kept = {
            name: text for name, text in os.environ.items() if not name.startswith(("PREFECT_", "DPBO_", "MLFLOW_"))
        }
        around = kept | {"HOME": home, "PYTHONPATH": str(STUDY.parent.parent)}
        example = (COMMAND, "tune", "--example")
        return {
            "unit": spent(a, around, UNIT),
            "first": spent(a, around, *example),
            "later": spent(b, around, *example),
            "replay": spent(b, around, *example),
            "doctor": spent(b, around, COMMAND, "doctor"),
            "budget": spent(b, around, COMMAND, "budget"),
            "show": spent(b, around, COMMAND, "show", "breast-cancer"),
        }


def spent(folder: str, around: dict[str, str], code: str, *arguments: str) -> tuple[float, float]:
    """(wall, processor) seconds of a new process with all that it started."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryFile() as nowhere:
        command = [sys.executable, "-c", code, *arguments]
        subprocess.run(command, cwd=folder, env=around, check=True, stdout=nowhere, stderr=nowhere)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def python(code: str, *arguments: str) -> None:
    with tempfile.TemporaryFile() as nowhere:
        subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=nowhere)


def resident(code: str) -> float:
    """Megabytes a process that does only this has had resident at the most."""
    asked = f"{code}\nimport resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    found = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True).stdout
    return int(found) * resource_unit() / 1e6


def resource_unit() -> int:
    """Bytes in one unit of `ru_maxrss`."""
    return 1 if sys.platform == "darwin" else 1024


if __name__ == "__main__":
    main(rows)
