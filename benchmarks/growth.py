"""How the cost of each part grows, with the fitted exponent beside the theoretical one.

    python -m benchmarks.growth [--json]

The exponent is the slope of log time on log size by least squares, over sizes that grow fourfold or twofold. Below
theory means that something fixed still weighs; above it, that memory has become the limit.

![Time against size for each part](../pictures/growth.png)
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.rows import Row, main
from benchmarks.scoring import table as records
from benchmarks.timing import seconds
from benchmarks.training import table
from benchmarks.workloads import KERNELS, NOISE, Workload, ours
from dpbo_core.models.linear.fit import LinearModel, train
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.theorems import srinivas_2010

FIGURE = Path(__file__).parent.parent / "docs" / "pictures" / "growth.png"


@dataclass(frozen=True)
class Part:
    """One part, one size that grows."""

    name: str
    grows: str
    theory: float
    sizes: tuple[int, ...]
    prepared: Callable[[int], Callable[[], Any]]


def search(work: Workload) -> Callable[[], Any]:
    return partial(ours, KERNELS[1], *work.data)


def gain(work: Workload) -> Callable[[], Any]:
    candidates = work.candidates
    return partial(
        srinivas_2010.information_gain_bound,
        gram=lambda i: KERNELS[1].column(candidates, candidates[i]),
        n_steps=work.T,
        noise_variance=NOISE,
    )


def training(n: int, d: int) -> Callable[[], Any]:
    X, y = table(n, d)
    return partial(train, X, y, loss="logistic", regularization=1e-3)


def scoring(m: int) -> Callable[[], Any]:
    objective = Objective(Sensitive(records(m)), Sigmoid(10.0))
    return partial(objective.evaluate, LinearModel(np.ones(50), 0.1, 0.0))


PARTS = (
    Part(
        "search, T = 50",
        "N",
        1.0,
        (8_000, 16_000, 32_000, 64_000),
        lambda N: search(Workload("", N, 2, 50)),
    ),
    Part("search, N = 30,000", "T", 2.0, (50, 100, 200, 400), lambda T: search(Workload("", 30_000, 2, T))),
    Part("bound on γ_T, T = 50", "N", 1.0, (8_000, 16_000, 32_000, 64_000), lambda N: gain(Workload("", N, 3, 50))),
    Part("training, d = 50", "n", 1.0, (25_000, 50_000, 100_000, 200_000), lambda n: training(n, 50)),
    Part("training, n = 10,000", "d", 2.0, (50, 100, 200, 400), lambda d: training(10_000, d)),
    Part("scoring, 50 features", "m", 1.0, (10_000, 40_000, 160_000, 640_000), scoring),
)


def rows() -> Iterator[Row]:
    found = []
    for part in PARTS:
        taken = [fastest(part.prepared(size)) for size in part.sizes]
        slope = float(np.polyfit(np.log(part.sizes), np.log(taken), 1)[0])
        found.append((part, taken, slope))
        yield Row(
            f"{part.name}: exponent in {part.grows}",
            slope,
            unit=f"(theory {part.theory:g})",
            note=spoken(part, taken),
        )
    draw(found)


def fastest(run: Callable[[], Any]) -> float:
    run()
    return min(seconds(run) for _ in range(3))


def spoken(part: Part, taken: list[float]) -> str:
    return f"{taken[0]:.2g} s at {part.sizes[0]:,}, {taken[-1]:.2g} s at {part.sizes[-1]:,}"


def draw(found: list[tuple[Part, list[float], float]]) -> None:
    """Time against size, both logarithmic, one panel a part; the dashed line has the theoretical slope."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(10.5, 6.0), layout="constrained")
    for axis, (part, taken, slope) in zip(axes.flat, found, strict=True):
        sizes = np.array(part.sizes, dtype=float)
        axis.loglog(sizes, taken, "o-", color="#1b6ca8", label=f"fitted {slope:.2f}")
        axis.loglog(
            sizes,
            taken[-1] * (sizes / sizes[-1]) ** part.theory,
            "--",
            color="0.5",
            label=f"theory {part.theory:g}",
        )
        axis.set(title=part.name, xlabel=part.grows, ylabel="seconds")
        axis.legend(frameon=False)
    figure.savefig(FIGURE, dpi=110, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    main(rows)
