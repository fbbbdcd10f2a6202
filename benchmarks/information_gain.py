"""The bound on the information gain γ_T: what it costs beside the search that it is for, and how tight it is.

python -m benchmarks.information_gain [--json]
"""

import math
from collections.abc import Iterator
from functools import partial

from benchmarks.rows import Row, main, spread_row
from benchmarks.timing import in_turn, ratio
from benchmarks.workloads import KERNELS, NOISE, W1, W2, W3, W4, Workload, ours
from dpbo_core.search.gp import Kernel, Matern52, Posterior
from dpbo_core.theorems import srinivas_2010

REPETITIONS = {"W1": 7, "W2": 7, "W3": 5, "W4": 5}


def rows() -> Iterator[Row]:
    for work in (W1, W2, W3, W4):
        for kernel in KERNELS:
            on = f"{work.name}, {'Matérn-5/2' if isinstance(kernel, Matern52) else 'squared exponential'}"
            runs = [partial(bound, work, kernel), partial(ours, kernel, *work.data)]
            cost = ratio(*in_turn(runs, REPETITIONS[work.name]))
            yield spread_row(f"{on}: cost of the bound, of the search", cost, at_most=1.1)
            yield Row(f"{on}: the bound, of greedy's gain", bound(work, kernel) / greedy(work, kernel), at_most=1.3)


def bound(work: Workload, kernel: Kernel) -> float:
    candidates = work.candidates
    return srinivas_2010.information_gain_bound(
        gram=lambda i: kernel.column(candidates, candidates[i]), n_steps=work.T, noise_variance=NOISE
    )


def greedy(work: Workload, kernel: Kernel) -> float:
    """F of T observations where the posterior variance is largest each time: below γ_T."""
    posterior, gain = Posterior(work.candidates, kernel, NOISE, expected=work.T), 0.0
    for _ in range(work.T):
        i = int(posterior.variance.argmax())
        gain += 0.5 * math.log1p(float(posterior.variance[i]) / NOISE)
        posterior.observe(i, 0.0)
    return gain


if __name__ == "__main__":
    main(rows)
