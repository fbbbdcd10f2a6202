"""Validation records in many files: how long a search takes, in units of reading the files once.

    python -m benchmarks.scale [ROWS] [CANDIDATES] [STEPS] [FOREST_ROWS] [TRAINING_ROWS] [--json]

Standard normal features of doubles, 30 of them and a label, in Parquet parts of at most 250,000 records that lie
in the system's cache; `pyarrow alone` decodes every column of every part in one thread and does nothing else. A
reading of the product's decodes and encodes. Models are trained beforehand, so that a row is the scoring: a
trajectory scores one model a step, and keeps what it read; a grid scores all of its models in one reading. It is
processor time, but for workers: those are timed by the wall once they have started, each time with parts unread.
Peak memory is that of a process that does nothing else.

Training is of 30 λ on 50 features: the files are read, the map is fitted, all models are trained; from one file in
memory, and from parts whose encoded rows are in a file without a name (`memory_limit = 0`), which the system keeps
in its cache where there is room. Its memory is what the process itself has allocated, looked at every 20 ms.

What bounds it is beside it, in the same unit, as NumPy does it and nothing else: a trajectory's scalar products,
one a record and step, which are the record's proof and read it from memory; a grid's matrix products; an
exponential, a sum, a quotient and a rounding for each score. These are timed on one part, and counted as often as
there are parts. No less than these and a reading is possible, so 2.5 readings are beyond reach where they come to
more. A grid's product rounds by a record's place, so a record whose score it could move over a border of the grid
is scored again as a trajectory's is (`dpbo_core/models/linear/fast_exact_scores.py`): every sum is the same
integer. What a trajectory keeps is memory: 8 bytes a feature and record.
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any

import numpy as np

from benchmarks.rows import Row, main, spread_row
from benchmarks.startup import peak
from benchmarks.timing import in_turn, ratio
from dpbo_core import data
from dpbo_core.data import Encoded, Preprocessing, table_of
from dpbo_core.data.addresses import list_parts
from dpbo_core.data.header import SENSITIVE_FILE
from dpbo_core.models.estimators import fitted
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.scores.accuracy import Correct
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.models.scoring.partitioned import PartitionedObjective, PartReader, Workers
from dpbo_core.models.scoring.processes import Processes
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import StudySpec
from dpbo_core.study.data_split import public_half

FEATURES, PART, REPETITIONS, TREES, FOREST_CANDIDATES = 30, 250_000, 3, 100, 20
USUAL = (5_000_000, 64, 20, 1_000_000, 10_000_000)
TRAINING_FEATURES, LAMBDAS = 50, 30
SCORE = Sigmoid(10.0)


def rows() -> Iterator[Row]:
    given = [int(text.replace("_", "")) for text in sys.argv[1:] if not text.startswith("-")]
    n, candidates, steps, forest_rows, training_rows = (*given, *USUAL[len(given) :])
    with tempfile.TemporaryDirectory(prefix="dpbo-scale-") as name:
        folder = Path(name)
        parts, on = written(folder, n), f"{n:,} × {FEATURES}"
        scalars, matrix, scores = bare(min(PART, n), candidates)
        alone, reading, grid, path, again, *floors = in_turn(
            [
                partial(decoded, parts),
                partial(encoded, parts),
                lambda: objective(parts, n).evaluate_all(models(candidates)),
                partial(trajectory, parts, n, steps, 1e6),
                partial(trajectory, parts, n, steps, 0.0),
                scalars,
                matrix,
                scores,
            ],
            REPETITIONS,
        )
        yield spread_row(f"{on}: a reading of the product's, of pyarrow alone", ratio(reading, alone))
        for what, taken in (
            (f"trajectory of {steps} steps, kept in memory", path),
            (f"grid of {candidates} candidates", grid),
        ):
            yield spread_row(f"{on}: {what}, of pyarrow alone", ratio(taken, alone), at_most=2.5)
            yield spread_row(f"{on}: {what}, of the product's readings", ratio(taken, reading))
        yield spread_row(f"{on}: trajectory, nothing kept, of the product's readings", ratio(again, reading))
        times = n / min(PART, n)
        for what, taken, count in (
            (f"the scalar products of {steps} steps", floors[0], times * steps),
            (f"the exponentials and roundings of {steps} steps", floors[2], times * steps / candidates),
            (f"the matrix products of {candidates} candidates", floors[1], times),
            (f"the exponentials and roundings of {candidates} candidates", floors[2], times),
        ):
            yield spread_row(f"{on}: {what} alone, of pyarrow alone", ratio([count * one for one in taken], alone))
        yield from on_workers(parts, n, steps, on)
        for what, limit in (("grid", None), ("trajectory, kept", 1e6), ("trajectory, nothing kept", 0.0)):
            with get_context("spawn").Pool(1) as pool:
                peak = pool.apply(peak_of, (folder, n, candidates if limit is None else steps, limit))
            asked = None if limit else 0.6
            yield Row(f"{on}: {what}, peak memory", peak, unit="GB", at_most=asked)
    yield from forest(forest_rows)
    yield from training(training_rows)


def written(folder: Path, n: int, d: int = FEATURES) -> tuple[Path, ...]:
    """The records in parts."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng, w = np.random.default_rng(0), np.linspace(-1.0, 1.0, d)
    size = max(1, min(PART, n // 8))
    for j, at in enumerate(range(0, n, size)):
        X = rng.normal(size=(min(size, n - at), d))
        columns = {f"x{i}": X[:, i] for i in range(d)}
        columns["y"] = (X @ w + 3.0 * rng.normal(size=len(X)) > 0.0).astype(np.int64)
        pq.write_table(pa.table(columns), folder / f"{j:04d}.parquet")
    return list_parts(folder)


def decoded(parts: tuple[Path, ...]) -> int:
    """pyarrow alone."""
    import pyarrow.parquet as pq

    return sum(pq.ParquetFile(part).read(use_threads=False).num_rows for part in parts)


def encoded(parts: tuple[Path, ...]) -> int:
    """The product's reading."""
    read = partial(data.read_table, mode=SENSITIVE_FILE, display_name="a part")
    encode = encoding()
    return sum(encode.transform(read(part)).n_records for part in parts)


def encoding() -> Preprocessing:
    """The public map, of a small public table."""
    rng = np.random.default_rng(1)
    columns: dict[str, Any] = {f"x{i}": rng.normal(size=1000) for i in range(FEATURES)}
    return Preprocessing.fit(table_of(columns | {"y": rng.integers(0, 2, 1000)}), "y", unit_ball=True)


def models(count: int) -> list[LinearModel]:
    rng = np.random.default_rng(2)
    return [LinearModel(rng.normal(size=FEATURES), 1.0, 0.0) for _ in range(count)]


def objective(
    parts: tuple[Path, ...], n: int, limit: float = 0.0, workers: Workers | None = None
) -> PartitionedObjective:
    return PartitionedObjective(parts, PartReader(encoding(), int(limit * 1e9)), SCORE, n, workers)


def trajectory(parts: tuple[Path, ...], n: int, steps: int, limit: float) -> None:
    scored = objective(parts, n, limit)
    for model in models(steps):
        scored.evaluate(model)


def bare(m: int, candidates: int) -> tuple[Callable[[], None], Callable[[], None], Callable[[], None]]:
    """What scoring m records cannot do without: products with one model, with all, and what makes scores."""
    rng, block = np.random.default_rng(4), 512
    X, W = rng.normal(size=(m, FEATURES)) / 10.0, np.stack([one.weights for one in models(candidates)], axis=1)
    w, margins = W[:, 0].copy(), np.empty(m)
    scaled, found = rng.normal(size=(block, candidates)), np.empty((block, candidates))

    def scalars() -> None:
        np.vecdot(X, w, out=margins)

    def matrix() -> None:
        for at in range(0, m, block):
            part = X[at : at + block]
            np.matmul(part, W, out=found[: len(part)])

    def scores() -> None:
        for _ in range(0, m, block):
            np.exp(scaled, out=found)
            np.add(found, 1.0, out=found)
            np.divide(2.0**24, found, out=found)
            np.rint(found, out=found)
            found.sum(axis=0)

    return scalars, matrix, scores


def on_workers(parts: tuple[Path, ...], n: int, steps: int, on: str) -> Iterator[Row]:
    """A trajectory and a grid, in one process and by two."""
    what = "two workers, of one process"
    with closing(Processes(2)) as pool:
        sides: list[Callable[[], PartitionedObjective]] = [
            partial(objective, parts, n, 1e6),
            partial(objective, parts, n, 1e6, pool),
        ]
        one, two = in_turn([partial(scored, side, steps) for side in sides], REPETITIONS, time.perf_counter)
        yield spread_row(f"{on}: {what}: a trajectory of {steps} steps", ratio(one, two), at_least=1.6)
        sides = [partial(objective, parts, n), partial(objective, parts, n, 0.0, pool)]
        one, two = in_turn([partial(together, side, 64) for side in sides], REPETITIONS, time.perf_counter)
        yield spread_row(f"{on}: {what}: a grid of 64 candidates", ratio(one, two), at_least=1.6)


def scored(side: Callable[[], PartitionedObjective], steps: int) -> None:
    made = side()
    for model in models(steps):
        made.evaluate(model)


def together(side: Callable[[], PartitionedObjective], count: int) -> None:
    side().evaluate_all(models(count))


def peak_of(folder: Path, n: int, count: int, limit: float | None) -> float:
    """GB that this process, which does nothing else, has had resident at the most."""
    parts = list_parts(folder)
    if limit is None:
        objective(parts, n).evaluate_all(models(count))
    else:
        trajectory(parts, n, count, limit)
    return peak()


def forest(m: int) -> Iterator[Row]:
    """Forests over a table in memory, beside predict in a loop."""
    from sklearn.ensemble import RandomForestClassifier

    rng, n = np.random.default_rng(3), 5000
    X = rng.normal(size=(m + n, FEATURES))
    y = (X[:, 0] + rng.normal(size=m + n) > 0.0).astype(np.int64)
    grown = RandomForestClassifier(TREES, random_state=0)
    forests = [fitted(grown, X[:n], y[:n], display_name="forest")] * FOREST_CANDIDATES
    records = Objective(Sensitive(Encoded(X[n:], y[n:], np.zeros(m, dtype=np.bool_), 2)), Correct())
    rows, labels = X[n:], y[n:]
    loop, ours = in_turn(
        [
            lambda: [int((one.estimator.predict(rows) == labels).sum()) for one in forests],
            lambda: records.evaluate_all(forests),
        ],
        1,
    )
    on = f"forest of {TREES} trees, {m:,} × {FEATURES}, {FOREST_CANDIDATES} candidates"
    yield spread_row(f"{on}: of a loop of predict", ratio(loop, ours), at_least=1.0)


def training(n: int) -> Iterator[Row]:
    """A public training set in one file and in parts."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory(prefix="dpbo-scale-") as name:
        folder = Path(name)
        (folder / "parts").mkdir()
        parts = written(folder / "parts", n, TRAINING_FEATURES)
        with pq.ParquetWriter(folder / "whole.parquet", pq.read_schema(parts[0])) as whole:
            for part in parts:
                whole.write_table(pq.read_table(part))
        on = f"training, {n:,} × {TRAINING_FEATURES}, {LAMBDAS} λ"
        memory, files = in_turn([partial(trained, folder, "whole.parquet"), partial(trained, folder, "parts")], 1)
        yield spread_row(f"{on}: from parts, of in memory", ratio(files, memory), at_most=1.3)
        for what in ("whole.parquet", "parts"):
            with get_context("spawn").Pool(1) as pool:
                yield Row(f"{on}: {what}, memory of its own", pool.apply(own_peak, (folder, what)), unit="GB")


def trained(folder: Path, what: str) -> None:
    """All models of a study."""
    space = {"lambda": {"low": 1e-5, "high": 1.0, "log": True, "points": LAMBDAS}}
    spec = StudySpec.from_dict(
        {
            "study": {"name": "scale", "method": "private_trajectory"},
            "privacy": {"dataset": "people", "epsilon": 1.0},
            "data": {"training": what, "validation": "v", "n_validation": 1, "target": "y", "memory_limit": 0},
            "model": {"estimator": "logistic"},
            "space": space,
            "search": {"steps": LAMBDAS},
        }
    )
    problem = public_half(spec, folder).problem
    for index in range(LAMBDAS):
        problem.train(index)


def own_peak(folder: Path, what: str) -> float | None:
    """GB that this process has had allocated, without files that it maps; None where the system does not say."""
    status, found, done = Path("/proc/self/status"), [0.0], Event()
    if not status.exists():
        return None

    def look() -> None:
        while not done.wait(0.02):
            line = next(line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
            found.append(float(line.split()[1]) * 1024 / 1e9)

    watching = Thread(target=look)
    watching.start()
    trained(folder, what)
    done.set()
    watching.join()
    return max(found)


if __name__ == "__main__":
    main(rows)
