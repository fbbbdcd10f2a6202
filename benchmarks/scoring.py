"""Scoring ten million validation records of 50 features under one model: exact sums, a block of records at a time.

    python -m benchmarks.scoring [--json]

The bandwidth bound is the time to read the features and labels once, at the rate one thread reads those features in
one scalar product. The table is 4 GB; with less memory free, fewer records are scored, and the row says so.
"""

import os
import tracemalloc
from collections.abc import Iterator

import numpy as np

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import Spread, in_turn
from dpbo_core.data import Encoded
from dpbo_core.models.linear.fit import LinearModel
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.privacy.sensitive import Sensitive

RECORDS, FEATURES, REPETITIONS = 10_000_000, 50, 5


def rows() -> Iterator[Row]:
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    m = min(RECORDS, int(free * 0.7) // (8 * FEATURES + 9))
    records, model = table(m), LinearModel(np.ones(FEATURES), 0.1, 0.0)
    objective, flat = Objective(Sensitive(records), Sigmoid(10.0)), records.X.reshape(-1)
    reading, scoring = in_turn([lambda: flat @ flat, lambda: objective.evaluate(model)], REPETITIONS)
    shares = [100.0 * r * (FEATURES + 1) / FEATURES / s for r, s in zip(reading, scoring, strict=True)]
    on = f"{m:,} × {FEATURES}"
    note = f"{min(scoring) / m * 1e9:.3g} ns a record"
    yield spread_row(f"{on}: of the memory-bandwidth bound", Spread.of(shares), unit="%", at_least=60.0, note=note)
    tracemalloc.start()
    objective.evaluate(model)
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    yield Row(f"{on}: extra memory", peak, unit="MB", at_most=16.0, note="a block of 16,384 records, whatever m is")


def table(m: int) -> Encoded:
    """Records drawn a block at a time, so that making them takes no more memory than they do."""
    rng, X = np.random.default_rng(0), np.empty((m, FEATURES))
    for at in range(0, m, 100_000):
        X[at : at + 100_000] = rng.random((len(X[at : at + 100_000]), FEATURES)) - 0.5
    return Encoded(X, rng.integers(0, 2, m), np.zeros(m, dtype=np.bool_), 2)


if __name__ == "__main__":
    main(rows)
