"""How everything here is timed: one thread, one process, the contenders in turn, medians of pairwise ratios.

Times are processor time, which is wall time for one thread on an idle machine and tells less of its neighbours on a
busy one. Ratios pair runs that stood beside each other, so what slows the machine for a while slows both.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Spread:
    """A median with the smallest and the largest of what it is the median of."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))


def seconds(run: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    """How long one call takes."""
    gc.collect()
    begun = clock()
    run()
    return clock() - begun


def in_turn(
    runs: Sequence[Callable[[], Any]], repetitions: int, clock: Callable[[], float] = time.process_time
) -> list[list[float]]:
    """The seconds of each run, (runs, repetitions): a first round that is not counted, then each starts in turn."""
    for run in runs:
        run()
    taken: list[list[float]] = [[] for _ in runs]
    for repetition in range(repetitions):
        for place in range(len(runs)):
            i = (place + repetition) % len(runs)
            taken[i].append(seconds(runs[i], clock))
    return taken


def ratio(slow: Sequence[float], fast: Sequence[float]) -> Spread:
    """How many times longer the slow one took, pair by pair."""
    return Spread.of([a / b for a, b in zip(slow, fast, strict=True)])


def read_bandwidth(n_bytes: int) -> float:
    """Bytes a second that one thread reads, from an array of that size: the best of ten scalar products."""
    array = np.ones(n_bytes // 8)
    return n_bytes / min(seconds(lambda: array @ array) for _ in range(10))
