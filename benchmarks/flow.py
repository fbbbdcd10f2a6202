"""A 30-step tune through Prefect beside the same study through `run_study`, on 100,000 × 50 records; by the wall.

    python -m benchmarks.flow [--json]

Training and validation tables of that size, in Parquet, private_trajectory over 64 values of λ. Start-up is what a
one-step tune takes longer than a one-step study (flow run, reservation task, MLflow, the wait for Prefect's
records); it is paid once, and taken off the 30-step tune before the two are compared. One temporary Prefect server
serves all.
"""

import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import Spread, in_turn
from benchmarks.training import table
from dpbo_core.study import StudySpec

RECORDS, FEATURES, STEPS, REPETITIONS = 100_000, 50, 30, 7


def rows() -> Iterator[Row]:
    from dpbo.flows.prefect_runtime.flow_runs import quiet_environment

    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        quiet_environment()
        try:
            yield from measured()
        finally:
            os.chdir(home)


def measured() -> Iterator[Row]:
    from prefect.testing.utilities import prefect_test_harness

    from dpbo.flows.prefect_runtime.flow_runs import disable_heartbeat

    write_tables()
    with prefect_test_harness(server_startup_timeout=90), disable_heartbeat():
        number = itertools.count()
        runs = [partial(run, number, steps) for run in (through_prefect, plainly) for steps in (1, STEPS)]
        flow_1, flow_all, study_1, study_all = in_turn(runs, REPETITIONS, time.perf_counter)
    start = [f - s for f, s in zip(flow_1, study_1, strict=True)]
    startup = statistics.median(start)
    ratios = Spread.of([(f - startup) / s for f, s in zip(flow_all, study_all, strict=True)])
    note = f"{min(study_all):.3g} s through run_study, {min(flow_all):.3g} s through Prefect"
    yield spread_row(f"{STEPS} steps, start-up taken off", ratios, at_most=1.5, note=note)
    yield spread_row("start-up", Spread.of(start), unit="s")


def through_prefect(number: Iterator[int], steps: int) -> None:
    from dpbo.flows.private_flow import owners_terminal
    from dpbo.flows.tune import tune_privately

    with owners_terminal():
        tune_privately(study(next(number), steps))


def plainly(number: Iterator[int], steps: int) -> None:
    from dpbo.flows.stores import Stores
    from dpbo_core.ledger.ledger import PrivacyLedger
    from dpbo_core.study.tuning import run_study

    stores = Stores()
    stores.make_folder()
    run_study(study(next(number), steps), ledger=PrivacyLedger(stores.ledger))


def study(number: int, steps: int) -> StudySpec:
    """A study of its own, so that none is a replay; all are of one dataset, whose file they score."""
    return StudySpec.from_dict(
        {
            "study": {"name": f"timed-{number}", "method": "private_trajectory"},
            "privacy": {"dataset": "records", "epsilon": 1.0, "delta": 1e-6},
            "budget": {"epsilon": 100.0, "delta": 1e-4},
            "data": {
                "training": "training.parquet",
                "validation": "validation.parquet",
                "target": "y",
                "n_validation": RECORDS,
            },
            "model": {"estimator": "logistic", "score": "sigmoid", "steepness": 10.0},
            "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 64}},
            "search": {"steps": steps},
        }
    )


def write_tables() -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = table(2 * RECORDS, FEATURES)
    for name, half in (("training", slice(0, RECORDS)), ("validation", slice(RECORDS, None))):
        columns = {f"x{j}": X[half, j] for j in range(FEATURES)} | {"y": (y[half] > 0).astype(np.int64)}
        pq.write_table(pa.table(columns), f"{name}.parquet")


if __name__ == "__main__":
    main(rows)
