"""How the cost of each part grows, with the fitted exponent beside the theoretical one.

    python -m benchmarks.growth [--json]

The exponent is the slope of log time on log size by least squares, over sizes that grow fourfold or twofold. Below
theory means that something fixed still weighs; above it, that memory has become the limit.

![Time against size for each part](../pictures/growth.png)
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.ledger import grown
from benchmarks.rows import Row, main
from benchmarks.scoring import table as records
from benchmarks.timing import seconds
from benchmarks.training import table
from benchmarks.whole_commands import written
from benchmarks.workloads import KERNELS, NOISE, Workload, ours
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.models.linear.fit import LinearModel, train
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import StudySpec
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study
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
        row = exponent_row(part.name, part.grows, part.theory, part.sizes, taken)
        found.append((part, taken, row.figure or 0.0))
        yield row
    draw(found)
    yield from of_entries()
    yield from of_opening()


def of_entries() -> Iterator[Row]:
    """A reservation and an account as a SQLite ledger grows; a charge's seal compares sums over all entries."""
    sizes, reserving, accounts = (1_250, 5_000, 20_000), [], []
    with tempfile.TemporaryDirectory() as folder:
        for _, _, used, ledger in grown(f"sqlite:///{folder}/ledger.db", sizes):
            reserving.append(used)
            accounts.append(fastest(partial(ledger.accounts, "d")))
    for what, theory, taken in (("a reservation", 1.0, reserving), ("a dataset's account", 1.0, accounts)):
        yield exponent_row(what, "entries", theory, sizes, taken)


def of_opening() -> Iterator[Row]:
    """Opening a study: both files are read and encoded, and the first model trained: Newton's Hessians are n·d²."""
    sizes = (64, 128, 256, 512)
    with tempfile.TemporaryDirectory() as name:
        taken = [opening(Path(name) / str(d), d) for d in sizes]
    yield exponent_row("opening a study, n = 20,000", "d", 2.0, sizes, taken)


def opening(folder: Path, d: int) -> float:
    training, parts = written(folder, 20_000, d, 1)
    study = StudySpec.from_dict(
        {
            "study": {"name": "opened", "method": "private_grid"},
            "privacy": {"dataset": "records", "epsilon": 1.0},
            "budget": {"epsilon": 20.0},
            "data": {"training": str(training), "validation": parts[0], "target": "y", "n_validation": 20_000},
            "model": {"estimator": "logistic", "score": "accuracy"},
            "space": {"lambda": {"low": 1e-4, "high": 1.0, "log": True, "points": 64}},
        }
    )
    taken = []
    for turn in range(3):
        context = QueryContext(PrivacyLedger(f"sqlite:///{folder}/{turn}.db"), str(folder))
        taken.append(seconds(partial(open_study, Run.of(study, context))))
    return min(taken)


def exponent_row(what: str, grows: str, theory: float, sizes: tuple[int, ...], taken: list[float]) -> Row:
    slope = float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])
    note = f"{taken[0]:.2g} s at {sizes[0]:,}, {taken[-1]:.2g} s at {sizes[-1]:,}"
    return Row(f"{what}: exponent in {grows}", slope, unit=f"(theory {theory:g})", note=note)


def fastest(run: Callable[[], Any]) -> float:
    run()
    return min(seconds(run) for _ in range(3))


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
