"""What `rowwise = "enforced"` costs a record: `python -m benchmarks.enforced [records] [repetitions]`.

Wall time a record over all cores of this machine, and the CPU time of one child (its copying not included), each as
least, median and largest of the repetitions. Load on the machine shows in the first and hardly in the second.
"""

import os
import sys
import time
from typing import Any

import numpy as np

from dpbo_core.models.enforced.child import Record, model_bytes
from dpbo_core.models.enforced.engine import cores, engine
from dpbo_core.models.enforced.model import Alone, alone
from dpbo_core.models.record_scores import Correct


class Threshold:
    """NumPy alone."""

    def fit(self, X: Any, y: Any) -> "Threshold":
        self.weights = np.linalg.lstsq(X, y - 0.5, rcond=None)[0]
        return self

    def predict(self, rows: Any) -> Any:
        return (rows @ self.weights > 0.0).astype(np.int64)


def estimators() -> dict[str, Any]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    from benchmarks.enforced import Threshold as Importable

    return {
        "numpy alone": Importable(),
        "logistic regression": LogisticRegression(),
        "forest of 100 trees": RandomForestClassifier(100, random_state=0),
    }


def measure(estimator: Any, records: int, repetitions: int) -> tuple[list[float], list[float], float]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 20))
    y = (X[:, 0] > 0.0).astype(np.int64)
    begun = time.perf_counter()
    found: Alone = alone(estimator.fit(X, y), X, y, Correct(), known={})
    started = time.perf_counter() - begun
    import pickle

    whole = model_bytes(found.pickled, pickle.dumps(Correct()))
    images = engine(found.modules, found.named, found.limits, os.getpid())
    V, w = rng.normal(size=(records, 20)), np.zeros(records, dtype=np.int64)
    walls, children = [], []
    for _ in range(repetitions):
        begun = time.perf_counter()
        images.steps(whole, V, w)
        walls.append((time.perf_counter() - begun) / records * 1e3)
        children.append(images.trial(whole, Record(V[0], w[:1]))[2] * 1e3)
    return walls, children, started


def main(records: int = 200, repetitions: int = 10) -> None:
    print(f"{len(cores())} cores, {records} records, {repetitions} repetitions; load {os.getloadavg()[0]:.1f}")
    print("estimator             | ms a record, wall: least median most | ms of a child's CPU | to prepare, s")
    for name, estimator in estimators().items():
        walls, children, started = measure(estimator, records, repetitions)
        cells = [f"{min(t):6.2f} {float(np.median(t)):6.2f} {max(t):6.2f}" for t in (walls, children)]
        print(f"{name:21} | {cells[0]:>36} | {cells[1]} | {started:.1f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
