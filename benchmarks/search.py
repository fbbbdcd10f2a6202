"""The search loop beside scikit-learn's Gaussian process, on one index sequence, in one process, one thread.

    python benchmarks/search.py [repetitions]

Both see the same candidates, kernel, noise and values; scikit-learn refits and predicts all N at each step.
Times are interleaved; the ratio is the median of pairwise ratios with its smallest and largest.
"""

import statistics
import sys
import time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpbo_core.gp.kernels import Matern52
from dpbo_core.gp.posterior import Posterior

WORKLOADS = {"W1": (1_000, 1, 50), "W2": (10_000, 2, 50), "W3": (36_000, 3, 50)}
NOISE = 1e-2


def ours(candidates: Any, indices: Any, values: Any) -> Any:
    posterior = Posterior(candidates, Matern52(0.3), NOISE)
    for index, value in zip(indices, values, strict=True):
        posterior.observe(int(index), float(value))
        np.argmax(posterior.mean + 2.0 * posterior.std)
    return posterior.mean


def theirs(candidates: Any, indices: Any, values: Any) -> Any:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern

    for t in range(1, len(indices) + 1):
        model = GaussianProcessRegressor(Matern(0.3, nu=2.5), alpha=NOISE, optimizer=None)
        model.fit(candidates[indices[:t]], values[:t])
        mean, std = model.predict(candidates, return_std=True)
        np.argmax(mean + 2.0 * std)
    return mean


def seconds(run: Any, *arguments: Any) -> tuple[float, Any]:
    begun = time.perf_counter()
    result = run(*arguments)
    return time.perf_counter() - begun, result


def main(repetitions: int) -> None:
    print(f"{'':4} {'N':>7} {'d':>2} {'T':>3} {'ours (s)':>9} {'sklearn (s)':>11} {'ratio':>6}  smallest … largest")
    for name, (N, d, T) in WORKLOADS.items():
        rng = np.random.default_rng(0)
        candidates = rng.random((N, d))
        indices = rng.integers(0, N, T)
        values = np.sin(5 * candidates[indices].sum(axis=1)) + 0.1 * rng.normal(size=T)
        pairs = []
        for _ in range(repetitions):
            (a, mean_a), (b, mean_b) = (seconds(run, candidates, indices, values) for run in (ours, theirs))
            assert np.allclose(mean_a, mean_b, atol=1e-9)
            pairs.append((a, b))
        ratios = sorted(b / a for a, b in pairs)
        ours_median, theirs_median = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
        size, spread = f"{name:4} {N:7} {d:2} {T:3}", f"{ratios[0]:.1f} … {ratios[-1]:.1f}"
        print(f"{size} {ours_median:9.4f} {theirs_median:11.3f} {statistics.median(ratios):6.1f}  {spread}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
