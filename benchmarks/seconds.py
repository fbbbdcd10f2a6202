"""What a user waits for, in units of importing scikit-learn's linear models.

    python -m benchmarks.seconds [--json]

Each is a new process, timed by the wall from its start to its end; files are cached. The unit is a process
that runs `import sklearn.linear_model` in the same round, so that a busy machine slows both. A first tune is in a
new home and a new folder, a later one in a new folder; with a cold cache Prefect makes its database too, which
`make` and `dpbo doctor --prepare` have done before. A replay is the same command again; nothing is drawn.
`PrivateSearch.fit` is timed inside its process, from after its imports to its end. Processor time is of all a
command's processes: half of it, on two cores, is the least that the wall can be.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.rows import Row, main, spread_row
from benchmarks.startup import COMMAND, STUDY
from benchmarks.timing import Spread, ratio

ROUNDS = 3
UNIT = "import sklearn.linear_model"
GOALS = {
    "screen": ("`dpbo`, its first screen", None),
    "cold": ("`dpbo tune --example`, first, with a cold cache", None),
    "first": ("`dpbo tune --example`, first", 7.0),
    "later": ("`dpbo tune --example`, later", 5.0),
    "replay": ("`dpbo tune --example`, a replay", 0.8),
    "report": ("`dpbo evaluate`, a replay", None),
    "doctor": ("`dpbo doctor`", 1.0),
    "budget": ("`dpbo budget`", 0.4),
    "show": ("`dpbo show`", 0.4),
}
EVALUATION = "\n[evaluation]\nepsilon = 0.5\n"
FIT = """
import time
import numpy as np
from sklearn.linear_model import LogisticRegression
from dpbo_core.sklearn_api.private_search import PrivateSearch
from dpbo_core.search.search_space import Real
rng = np.random.default_rng(0)
X = rng.normal(size=(300, 8))
y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
search = PrivateSearch(LogisticRegression(), {"C": Real(1e-3, 10.0, log=True)}, epsilon=1.0, delta=1e-6,
                       dataset="rows", budget=(5.0, 1e-5), n_candidates=16)
begun = time.perf_counter()
search.fit(X[0::2], y[0::2], X_validation=X[1::2], y_validation=y[1::2])
print(time.perf_counter() - begun)
"""


def rows() -> Iterator[Row]:
    rounds = [one_round() for _ in range(ROUNDS)]
    walls = {name: [taken[name][0] for taken in rounds] for name in rounds[0]}
    processors = {name: [taken[name][1] for taken in rounds] for name in rounds[0]}
    yield spread_row("the unit: `import sklearn.linear_model`", Spread.of(walls["unit"]), unit="s")
    for name, (title, goal) in GOALS.items():
        used = ratio(processors[name], processors["unit"]).median
        note = f"processor time {used:.3g} units"
        yield spread_row(title, ratio(walls[name], walls["unit"]), unit="units", at_most=goal, note=note)
    yield spread_row("`PrivateSearch.fit`, 300 rows, 16 candidates", Spread.of(walls["fit"]), unit="s", at_most=1.0)
    yield spread_row("`dpbo`, its first screen", Spread.of(walls["screen"]), unit="s", at_most=1.0)


def one_round() -> dict[str, tuple[float, float]]:
    """(wall, processor) seconds of the unit and of every command, one after another."""
    with tempfile.TemporaryDirectory() as scratch:
        home, another, cache, a, b, c, d, e = (
            Path(scratch) / name for name in ("home", "another", "cache", *"abcde")
        )
        for folder in (home, another, a, b, c, d, e):
            folder.mkdir()
        kept = {
            name: text for name, text in os.environ.items() if not name.startswith(("PREFECT_", "DPBO_", "MLFLOW_"))
        }
        around = kept | {"HOME": str(home), "XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(STUDY.parent.parent)}
        example, evaluate = (COMMAND, "tune", "--example"), (COMMAND, "evaluate", "study.toml")
        (c / "study.toml").write_text(STUDY.read_text(encoding="utf-8") + EVALUATION, encoding="utf-8")
        return {
            "unit": spent(a, around, UNIT)[:2],
            "cold": spent(e, around | {"HOME": str(another)}, *example)[:2],
            "first": spent(a, around, *example)[:2],
            "later": spent(b, around, *example)[:2],
            "replay": spent(b, around, *example)[:2],
            "doctor": spent(b, around, COMMAND, "doctor")[:2],
            "budget": spent(b, around, COMMAND, "budget")[:2],
            "show": spent(b, around, COMMAND, "show", "breast-cancer")[:2],
            "screen": spent(b, around, COMMAND)[:2],
            "made": spent(c, around, COMMAND, "tune", "study.toml")[:2],
            "report": spent(c, around, *evaluate)[:2],
            "fit": (float(spent(d, around, FIT)[2]), 0.0),
        }


def spent(folder: Path, around: dict[str, str], code: str, *arguments: str) -> tuple[float, float, str]:
    """(wall, processor) seconds of a new process with all that it started, and what it printed."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", code, *arguments]
    with tempfile.TemporaryFile() as nowhere:
        done = subprocess.run(
            command, cwd=folder, env=around, check=True, stdout=subprocess.PIPE, stderr=nowhere, text=True
        )
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


if __name__ == "__main__":
    main(rows)
