"""What it costs a record to be scored alone, in a process of its own (`rowwise = "enforced"`).

    python -m benchmarks.enforced [--json]

Wall time over all cores of this machine, as a study waits for it. Beside it what any such process costs here: a
copy of a process that has imported NumPy, or scikit-learn's linear models, which ends at once, over as many cores.
"""

import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import Spread, in_turn

RECORDS, REPETITIONS = 100, 9
FORKS = """
import gc, os, sys, time
exec(sys.argv[1])
gc.freeze(); gc.disable()
begun = time.perf_counter()
for _ in range(int(sys.argv[2])):
    if os.fork() == 0:
        os._exit(0)
    os.wait()
print((time.perf_counter() - begun) / int(sys.argv[2]) * 1e3)
"""


class Threshold:
    """NumPy alone."""

    def fit(self, X: Any, y: Any) -> "Threshold":
        self.weights = np.linalg.lstsq(X, y - 0.5, rcond=None)[0]
        return self

    def predict(self, rows: Any) -> Any:
        return (rows @ self.weights > 0.0).astype(np.int64)


def rows() -> Iterator[Row]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    from benchmarks.enforced import Threshold as Importable  # not __main__'s: a process imports it by name

    subjects = {
        "numpy": scoring(Importable()),
        "logistic": scoring(LogisticRegression()),
        "forest": scoring(RandomForestClassifier(100, random_state=0)),
    }
    in_turn(list(subjects.values()), 1, time.perf_counter)  # the images are started
    taken = dict(zip(subjects, in_turn(list(subjects.values()), REPETITIONS, time.perf_counter), strict=True))
    found = {name: Spread.of([t / RECORDS * 1e3 for t in times]) for name, times in taken.items()}
    yield spread_row("an estimator of NumPy alone, a record", found["numpy"], unit="ms", at_most=2.0)
    yield forks("import numpy", "NumPy")
    yield spread_row("a logistic regression, a record", found["logistic"], unit="ms", at_most=12.0)
    yield forks("import sklearn.linear_model", "scikit-learn's linear models")
    yield spread_row("a forest of 100 trees, a record", found["forest"], unit="ms", note="unpickled each time")


def scoring(estimator: Any) -> Callable[[], Any]:
    """Scores the records once."""
    from dpbo.features.isolation.child import model_bytes
    from dpbo.features.isolation.enforced_model import EnforcedModel, alone
    from dpbo.features.isolation.engine import Engine
    from dpbo_core.models.scores.accuracy import Correct

    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20))
    y = (X[:, 0] > 0.0).astype(np.int64)
    found: EnforcedModel = alone(estimator.fit(X, y), X, y, Correct(), needed_by={})
    whole = model_bytes(found.pickled, pickle.dumps(Correct()))
    images = Engine(found.modules, found.named, found.limits)
    V, w = rng.normal(size=(RECORDS, 20)), np.zeros(RECORDS, dtype=np.int64)
    return lambda: images.steps(whole, V, w)


def forks(imports: str, of: str) -> Row:
    """The bare fork, on every core at once."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else multiprocessing.cpu_count()
    command = [sys.executable, "-c", FORKS, imports, str(RECORDS)]
    once = partial(subprocess.run, command, capture_output=True, text=True, check=True)
    times = []
    with ThreadPoolExecutor(cores) as pool:
        for _ in range(REPETITIONS):
            done = [job.result() for job in [pool.submit(once) for _ in range(cores)]]
            times.append(float(np.mean([float(one.stdout) for one in done])) / cores)
    return spread_row(f"a bare fork of a process with {of}", Spread.of(times), unit="ms")


if __name__ == "__main__":
    main(rows)
