"""How the cost of each part grows, with the fitted exponent beside the theoretical one.

    python -m benchmarks.growth [--json]

The exponent is the slope of log time on log size by least squares, over sizes that grow twofold to tenfold. Below
theory means that something fixed still weighs; above it, that memory has become the limit. The last step's exponent
is beside it.

A study is `run_study` on 5,000 training rows, in a process of its own that has run a small one before: its
processor seconds, and the most memory that the process had, imports included. Records are Parquet files of at most
250,000 each, written beforehand; 50,000,000 × 10 are 4.3 GB. A ledger's account comes from sums that an index
holds; what it lists is read when it is asked for, in a process of its own.

Opening a study bends between d = 256 and 512: decoding and encoding cost n·d, and Newton's seven Hessians, of 5,000
rows and d² each, come to as much there. A Hessian of 5,000 × 512 takes 32 ms, of which BLAS takes 29: nothing is
left to mend.

![Time and memory against size for each part](../pictures/growth.png)
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.ledger import grown
from benchmarks.rows import Row, main
from benchmarks.scoring import table as records
from benchmarks.startup import peak
from benchmarks.timing import seconds
from benchmarks.training import table
from benchmarks.whole_commands import written
from benchmarks.workloads import KERNELS, NOISE, Workload, ours
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.models.linear.fit import LinearModel, train
from dpbo_core.models.scores.sigmoid import Sigmoid
from dpbo_core.models.scoring.in_memory import Objective
from dpbo_core.privacy.sensitive import Sensitive
from dpbo_core.study import StudySpec
from dpbo_core.study.query import QueryContext
from dpbo_core.study.run import Run
from dpbo_core.study.tuning import open_study, run_study
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


@dataclass(frozen=True)
class Study:
    """What a study is made of; one of these grows."""

    n: int = 250_000
    d: int = 10
    N: int = 16
    T: int = 0  # steps of a trajectory; 0 for a grid

    def spec(self, folder: Path, name: str) -> StudySpec:
        search = {"search": {"steps": self.T}} if self.T else {}
        return StudySpec.from_dict(
            {
                "study": {"name": name, "method": "private_trajectory" if self.T else "private_grid"},
                "privacy": {"dataset": name, "epsilon": 1.0} | ({"delta": 1e-6} if self.T else {}),
                "data": {
                    "training": str(folder / "training.parquet"),
                    "validation": str(folder / "validation"),
                    "target": "y",
                    "n_validation": self.n,
                },
                "model": {"estimator": "logistic", "score": "accuracy"},
                "space": {"lambda": {"low": 1e-4, "high": 1.0, "log": True, "points": self.N}},
            }
            | search
        )


GRID, PATH = Study(), Study(n=100_000, N=256, T=8)
STUDIES = (  # a study, what of it grows, its sizes, and the exponents of seconds and memory that theory has
    ("a grid of 16, d = 10", GRID, "n", (10_000, 100_000, 1_000_000, 10_000_000, 50_000_000), 1.0, 0.0),
    ("a grid, 250,000 × 10", GRID, "N", (16, 64, 256, 1024, 4096), 1.0, 1.0),
    ("a grid of 16, n = 250,000", GRID, "d", (32, 64, 128, 256, 512), 2.0, 1.0),
    ("a trajectory, 100,000 × 10", PATH, "T", (8, 32, 128), 1.0, 1.0),
)


@dataclass(frozen=True)
class Grown:
    """What was measured of one part: seconds at each size, and gigabytes, where they were looked at."""

    name: str
    grows: str
    sizes: tuple[int, ...]
    seconds: list[float]
    theory: float
    memory: list[float] | None = None
    memory_theory: float = 0.0

    def rows(self) -> Iterator[Row]:
        yield exponent_row(f"{self.name}: exponent in {self.grows}", self.theory, self.sizes, self.seconds, "s")
        if self.memory:
            what = f"{self.name}: memory's exponent in {self.grows}"
            yield exponent_row(what, self.memory_theory, self.sizes, self.memory, "GB")


def rows() -> Iterator[Row]:
    found = []
    for grown_part in measured():
        found.append(grown_part)
        yield from grown_part.rows()
    draw(found)


def measured() -> Iterator[Grown]:
    for name, study, grows, sizes, theory, memory_theory in STUDIES:
        taken = [alone(replace(study, **{grows: size})) for size in sizes]
        seconds_taken, memory = [one[0] for one in taken], [one[1] for one in taken]
        yield Grown(name, grows, sizes, seconds_taken, theory, memory, memory_theory)
    yield from of_entries()
    yield of_opening()
    for part in PARTS:
        taken = [fastest(part.prepared(size)) for size in part.sizes]
        yield Grown(part.name, part.grows, part.sizes, taken, part.theory)


def alone(study: Study) -> tuple[float, float]:
    """(processor seconds, GB) of one study in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="dpbo-growth-") as name:
        folder = Path(name)
        written(folder / "small", 1_000, study.d, 1)
        written(folder / "whole", study.n, study.d, -(-study.n // 250_000))
        with get_context("spawn").Pool(1) as pool:
            return pool.apply(studied, (study, folder))


def studied(study: Study, folder: Path) -> tuple[float, float]:
    """What this process takes for a study, once it has run a small one, and the most memory that it had."""
    ledger = PrivacyLedger(f"sqlite:///{folder}/ledger.db")
    for name in ("small", "whole"):
        ledger.set_budget(PrivacyBudget.of(name, epsilon=20.0, delta=1e-4))
    with threadpool_limits(1):
        small = replace(study, n=1_000, N=min(study.N, 8), T=min(study.T, 8))
        run_study(small.spec(folder / "small", "small"), ledger=ledger)
        begun = time.process_time()
        run_study(study.spec(folder / "whole", "whole"), ledger=ledger)
        return time.process_time() - begun, peak()


def of_entries() -> Iterator[Grown]:
    """A reservation and an account as a SQLite ledger grows: both sum over an index of all entries."""
    sizes, reserving, accounts, listed = (1_250, 5_000, 20_000, 80_000), [], [], []
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/ledger.db"
        for _, _, used, ledger in grown(url, sizes):
            reserving.append(used)
            accounts.append(fastest(partial(ledger.accounts, "d")))
            with get_context("spawn").Pool(1) as pool:
                listed.append(pool.apply(entries_of, (url,)))
    yield Grown("a reservation", "entries", sizes, reserving, 1.0)
    yield Grown("a dataset's account", "entries", sizes, accounts, 1.0)
    seconds_taken, memory = [one[0] for one in listed], [one[1] for one in listed]
    yield Grown("what an account lists", "entries", sizes, seconds_taken, 1.0, memory, 1.0)


def entries_of(url: str) -> tuple[float, float]:
    (account,) = PrivacyLedger(url).accounts("d")
    return seconds(lambda: list(account.entries)), peak()


def of_opening() -> Grown:
    """Opening a study: both files are read and encoded, and the first model trained: Newton's Hessians are n·d²."""
    sizes = (64, 128, 256, 512)
    with tempfile.TemporaryDirectory() as name:
        taken = [opening(Path(name) / str(d), d) for d in sizes]
    return Grown("opening a study, n = 20,000", "d", sizes, taken, 2.0)


def opening(folder: Path, d: int) -> float:
    written(folder, 20_000, d, 1)
    taken = []
    for turn in range(3):
        ledger = PrivacyLedger(f"sqlite:///{folder}/{turn}.db")
        ledger.set_budget(PrivacyBudget.of("opened", epsilon=20.0, delta=1e-4))
        study = Run.of(Study(n=20_000, d=d, N=64).spec(folder, "opened"), QueryContext(ledger, folder))
        taken.append(seconds(partial(open_study, study)))
    return min(taken)


def exponent_row(what: str, theory: float, sizes: tuple[int, ...], taken: list[float], unit: str) -> Row:
    slope = float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])
    last = float(np.log(taken[-1] / taken[-2]) / np.log(sizes[-1] / sizes[-2]))
    note = f"{taken[0]:.2g} {unit} at {sizes[0]:,}, {taken[-1]:.2g} {unit} at {sizes[-1]:,}; last step {last:.2f}"
    return Row(what, slope, unit=f"(theory {theory:g})", note=note)


def fastest(run: Callable[[], Any]) -> float:
    run()
    return min(seconds(run) for _ in range(3))


def draw(found: list[Grown]) -> None:
    """Time against size, both logarithmic, one panel a part, and memory; dashed lines have theory's slope."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter

    figure, axes = plt.subplots(-(-len(found) // 4), 4, figsize=(14.0, 10.0), layout="constrained")
    for axis in axes.flat[len(found) :]:
        axis.remove()
    for axis, part in zip(axes.flat, found, strict=False):
        sizes = np.array(part.sizes, dtype=float)
        axis.set_title(part.name, fontsize=10)
        sides = [(axis, part.seconds, part.theory, "#1b6ca8", "seconds")]
        if part.memory:
            sides.append((axis.twinx(), part.memory, part.memory_theory, "#b5483a", "GB"))
            sides[1][0].set_ylim(0.02, 5.0)
        for side, taken, theory, colour, unit in sides:
            slope = float(np.polyfit(np.log(sizes), np.log(taken), 1)[0])
            side.loglog(sizes, taken, "o-", color=colour)
            side.loglog(sizes, taken[-1] * (sizes / sizes[-1]) ** theory, "--", color=colour, alpha=0.4)
            side.set_ylabel(f"{unit}: {slope:.2f}, theory {theory:g}", color=colour)
            side.yaxis.set_minor_formatter(NullFormatter())
        axis.set_xticks(sizes[[0, -1]], [f"{size:,}" for size in (part.sizes[0], part.sizes[-1])])
        axis.set_xticks([], minor=True)
        axis.set_xlabel(part.grows)
    figure.savefig(FIGURE, dpi=90, metadata={"Software": None})
    plt.close(figure)


if __name__ == "__main__":
    main(rows)
