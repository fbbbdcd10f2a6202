"""How long the core takes to import, and the command to answer.

    python -m benchmarks.startup [--json]

Each is a new process: its processor seconds, which are the clock's on an idle machine; files are in the system's
cache. MLflow's smallest module costs what its client does, for `mlflow/__init__.py` imports pandas, polars, GenAI
and the gateway, whatever is asked for: that is the floor of a command that logs.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import Spread, in_turn, ratio

REPETITIONS = 5
STUDY = Path(__file__).parent.parent / "examples" / "breast_cancer.toml"
COMMAND = "import sys; from dpbo.flows.cli import main; sys.argv = ['dpbo', *sys.argv[1:]]; main()"


def rows() -> Iterator[Row]:
    runs = {
        "numpy": partial(python, "import numpy"),
        "core": partial(python, "import dpbo_core"),
        "all": partial(python, "from dpbo_core import *"),
        "help": partial(python, COMMAND, "--help"),
        "plan": partial(python, COMMAND, "plan", str(STUDY)),
        "MLflow's client": partial(python, "from mlflow.tracking import MlflowClient"),
        "MLflow's least": partial(python, "import mlflow.version"),
    }
    taken = dict(zip(runs, in_turn(list(runs.values()), REPETITIONS, of_children), strict=True))
    yield spread_row("`import dpbo_core`: of `import numpy`", ratio(taken["core"], taken["numpy"]), at_most=1.5)
    yield Row("`import dpbo_core`: resident memory", resident("import dpbo_core"), unit="MB", at_most=40.0)
    yield spread_row("`from dpbo_core import *`: of `import numpy`", ratio(taken["all"], taken["numpy"]))
    yield Row("`from dpbo_core import *`: resident memory", resident("from dpbo_core import *"), unit="MB")
    yield spread_row("`dpbo --help`", Spread.of(taken["help"]), unit="s", at_most=0.3)
    yield spread_row("`dpbo plan`, cold", Spread.of(taken["plan"]), unit="s", at_most=1.0)
    client, least = taken["MLflow's client"], taken["MLflow's least"]
    yield spread_row("MLflow's client", Spread.of(client), unit="s")
    yield spread_row("MLflow's client, of `import mlflow.version`", ratio(client, least), at_most=1.1)


def of_children() -> float:
    """Processor seconds of all processes that this one started and waited for."""
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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


def peak() -> float:
    """GB that this process has had resident at the most.

    By its own map of memory: what `getrusage` says is inherited from the process that started it.
    """
    import resource

    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return float(line.split()[1]) * 1024 / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * resource_unit() / 1e9


if __name__ == "__main__":
    main(rows)
