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

SHORTEST = 0.02  # seconds; what is shorter tells more of what the caches held before it than of itself


@dataclass(frozen=True)
class Spread:
    """A median with the smallest and the largest of what it is the median of."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))


def seconds(run: Callable[[], Any], clock: Callable[[], float] = time.process_time, least: float = 0.0) -> float:
    """How long one call takes: the mean of as many as take `least` seconds together."""
    gc.collect()
    begun, calls, taken = clock(), 0, 0.0
    while calls == 0 or taken < least:
        run()
        calls += 1
        taken = clock() - begun
    return taken / calls


def in_turn(
    runs: Sequence[Callable[[], Any]], repetitions: int, clock: Callable[[], float] = time.process_time
) -> list[list[float]]:
    """The seconds of each run, (runs, repetitions): a first round that is not counted, then each starts in turn.

    What ends sooner than `SHORTEST` is run until it has taken that long, and its mean counts.
    """
    for run in runs:
        run()
    taken: list[list[float]] = [[] for _ in runs]
    for repetition in range(repetitions):
        for place in range(len(runs)):
            i = (place + repetition) % len(runs)
            taken[i].append(seconds(runs[i], clock, SHORTEST))
    return taken


def ratio(slow: Sequence[float], fast: Sequence[float]) -> Spread:
    """How many times longer the slow one took, pair by pair."""
    return Spread.of([a / b for a, b in zip(slow, fast, strict=True)])


def read_bandwidth(n_bytes: int) -> float:
    """Bytes a second that one thread reads, from an array of that size: the best of ten scalar products."""
    array = np.ones(n_bytes // 8)
    return n_bytes / min(seconds(lambda: array @ array) for _ in range(10))
