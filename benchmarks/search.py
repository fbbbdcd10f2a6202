"""The Bayesian search over N candidates beside its peers, one index sequence, fixed hyperparameters.

    python -m benchmarks.search [--json]

W1 N = 1,000 d = 1 T = 50; W2 10,000 × 2, 50; W3 36,000 × 3, 50; W4 100,000 × 4, 200. Ours is the product's loop,
ask and tell, with UCB. A peer starts afresh at each step, so a few of its steps stand for all. The
bandwidth bound is the time to read V once a step and to write its new row, at the rate one thread reads an array of
that size.
"""

import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from benchmarks import peers
from benchmarks.repetitions import Memory
from benchmarks.rows import Row, main, missing, spread_row
from benchmarks.timing import Spread, in_turn, ratio, read_bandwidth, seconds
from benchmarks.workloads import ALL, KERNELS, W1, W2, W3, W4, Workload, ours
from dpbo_core.mechanisms.gaussian import DiscreteGaussian
from dpbo_core.mechanisms.noise import Noise, OperatingSystemNoise
from dpbo_core.methods.contract import Draws
from dpbo_core.models.integer_sums import GRID
from dpbo_core.privacy.amounts import spent_units
from dpbo_core.search.gp import Kernel, Matern52

REPETITIONS = {"W1": 7, "W2": 5, "W3": 5, "W4": 3}
SAMPLED = {"W1": 50, "W2": 25, "W3": 10, "W4": 5}  # steps of a peer that are timed


def rows() -> Iterator[Row]:
    for work in ALL:
        for kernel in KERNELS:
            yield from beside_peers(work, kernel, work.data)
    yield from bandwidth()
    yield from noise_share()
    yield from memory()


def beside_peers(work: Workload, kernel: Kernel, data: Any) -> Iterator[Row]:
    on = f"{work.name}, {'Matérn-5/2' if isinstance(kernel, Matern52) else 'squared exponential'}"
    claims: list[tuple[str, peers.Step, dict[str, float]]] = [
        ("scikit-learn", peers.scikit_learn(kernel, *data), {"at_least": 20}),
        (
            "a direct Cholesky each step",
            peers.direct_cholesky(kernel, *data, kept=False),
            {"at_least": 7 if work is W1 else 10},
        ),
        ("a direct Cholesky each step, k(X, Λ) kept", peers.direct_cholesky(kernel, *data, kept=True), {}),
    ]
    botorch = {"at_least": 75.0 if work is W4 else 100.0}
    if peers.installed("botorch"):
        claims.append(("BoTorch", peers.botorch(kernel, *data), botorch))
    else:
        yield missing(f"{on}: BoTorch", "botorch", **botorch)
    agree(work, kernel, data, claims[0][1], claims[1][1])
    factor = work.T / SAMPLED[work.name]
    runs: list[Callable[[], Any]] = [lambda: ours(kernel, *data)]
    runs += [partial(sampled, work, step) for _, step, _ in claims]
    own, *theirs = in_turn(runs, REPETITIONS[work.name])
    for (name, _, asked), taken in zip(claims, theirs, strict=True):
        times = ratio([factor * s for s in taken], own)
        yield spread_row(f"{on}: {name}", times, note=f"ours {min(own):.3g} s", **asked)


def sampled(work: Workload, step: peers.Step) -> None:
    """The middle step of each of as many equal stretches of 1 … T."""
    n = SAMPLED[work.name]
    for i in range(n):
        step(max(1, round((i + 0.5) * work.T / n)))


def agree(work: Workload, kernel: Kernel, data: Any, *steps: peers.Step) -> None:
    """All contenders compute the same posterior mean, or the comparison would mean nothing."""
    mean = ours(kernel, *data).mean
    for step in steps:
        assert np.allclose(step(work.T), mean, atol=1e-9)


def bandwidth() -> Iterator[Row]:
    for work, asked in ((W3, 30.0), (W4, 60.0)):
        loop, products = partial(ours, KERNELS[1], *work.data), products_alone(work)
        loop()
        found: tuple[list[float], list[float]] = [], []
        for _ in range(REPETITIONS[work.name]):
            bound = 8.0 * work.N * sum(t + 1 for t in range(work.T)) / read_bandwidth(8 * work.N * work.T)
            for shares, run in zip(found, (loop, products), strict=True):
                shares.append(100.0 * bound / seconds(run))
        whole, least = map(Spread.of, found)
        yield spread_row(f"{work.name}: of the memory-bandwidth bound", whole, unit="%", at_least=asked)
        yield spread_row(f"{work.name}: NumPy's products of a row with V alone, of that bound", least, unit="%")


def products_alone(work: Workload) -> Callable[[], None]:
    """All that reads V, and nothing else: what no loop in NumPy can be faster than."""
    V, row, product = np.ones((work.T, work.N)), np.ones(work.T), np.empty(work.N)

    def run() -> None:
        for t in range(1, work.T):
            row[:t].dot(V[:t], out=product)

    return run


def noise_share() -> Iterator[Row]:
    """A plan's draws through the product's door, all before the first step, beside a search of as many steps."""
    mechanism = DiscreteGaussian(GRID, spent_units(0.01), 1.0)

    def draws(plan: Draws) -> None:
        Noise(OperatingSystemNoise(), Memory()).prepare_draws(plan)

    for work in (W2, W3, W4):
        plan = tuple((mechanism.spend(f"score of step {t}"), mechanism) for t in range(work.T))
        runs = [partial(ours, KERNELS[1], *work.data), partial(draws, plan)]
        own, noise = in_turn(runs, REPETITIONS[work.name])
        share = Spread.of([100.0 * n / (n + o) for n, o in zip(noise, own, strict=True)])
        each = f"{min(noise) / work.T * 1e6:.0f} µs a draw; training and scoring not counted"
        yield spread_row(f"{work.name}: noise in the loop", share, unit="%", at_most=5.0, note=each)


def memory() -> Iterator[Row]:
    allowed = 8 * W4.N * (W4.T + 8) / 1e6
    yield Row("W4: extra memory", peak(partial(ours, KERNELS[1], *W4.data)), unit="MB", at_most=allowed)
    step = peers.scikit_learn(KERNELS[1], *W4.data)
    yield Row("W4: extra memory of scikit-learn's last step", peak(lambda: step(W4.T)), unit="MB")


def peak(run: Callable[[], Any]) -> float:
    """Megabytes allocated at the most."""
    tracemalloc.start()
    run()
    found = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return found


if __name__ == "__main__":
    main(rows)
