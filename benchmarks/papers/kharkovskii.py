"""Tables 1 to 9, figures 2a to 2c and Branin–Hoo of Kharkovskii et al. (2020).

The synthetic task and Branin–Hoo need no data. Loans and property prices are not at hand: their stand-ins are drawn
tables of the same n, d, T and δ, and functions drawn from a Gaussian process, and are called stand-ins wherever
they are shown. Their shapes and lengthscales are chosen so that σ_min lies where the paper's tables say that it
does, between the ω of the last column that keeps its singular values and of the first that does not (202 to 238 for
loans, 174 to 205 for prices), and so that the rows themselves have the regret that the paper implies (its figure's
excess taken from its table's value: 0.077 − 0.003 and 0.453 − 0.051).
"""

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np

from benchmarks.outsourced import (
    LENGTHSCALE,
    PRINTED,
    TABLES,
    Plain,
    Published,
    Sound,
    Task,
    branin,
    curve,
    drawn,
    grid,
    smallest,
)
from benchmarks.papers.cells import Cell

RUNS = 50  # the paper's
LENGTHS = {"loans": 2.55, "property": 0.75}  # else that of the synthetic task
FEATURES = 400  # of a drawn function on a table that is no grid
SETTINGS = {  # δ, T, r of the figure, log ε of the figure, and what is printed: excess over the rows themselves
    "synthetic": (1e-5, 50, 10, {1.1: 0.011, 0.9: 0.069, 0.0: 0.099}),
    "loans": (1e-5, 50, 15, {2.9: 0.003, 2.0: 0.019, 1.0: 0.05}),
    "property": (1e-4, 100, 15, {2.8: 0.051, 1.0: 0.017, 0.5: 0.082}),
}
NUMBERED = {  # table: task, log ε, r by column, S_T as printed
    **{number: ("synthetic", e, TABLES[e], PRINTED[e]) for number, e in ((1, 1.1), (2, 1.3), (3, 1.5))},
    4: ("loans", 2.7, (3, 6, 8, 10, 15, 20), (0.083, 0.088, 0.078, 0.069, 0.081, 0.076)),
    5: ("loans", 2.9, (3, 9, 12, 15, 20, 30), (0.091, 0.076, 0.078, 0.077, 0.1, 0.096)),
    6: ("loans", 3.1, (5, 10, 15, 20, 30, 50), (0.097, 0.091, 0.069, 0.084, 0.104, 0.127)),
    7: ("property", 2.6, (3, 6, 8, 10, 15, 20), (0.682, 0.516, 0.495, 0.485, 0.485, 0.493)),
    8: ("property", 2.8, (3, 9, 12, 15, 20, 30), (0.567, 0.553, 0.479, 0.453, 0.493, 0.52)),
    9: ("property", 3.0, (5, 10, 15, 20, 30, 50), (0.591, 0.523, 0.486, 0.482, 0.489, 0.488)),
}
HOO = (0.0, 1.1, 2.0)
LARGEST = {1: 10, 2: 15, 3: 20, 4: 10, 5: 15, 6: 20, 7: 10, 8: 15, 9: 20}  # r that keeps σ_min ≥ ω, as printed
ROWS = {"synthetic": 0.003, "loans": 0.074, "property": 0.402}  # regret of the rows themselves, as implied


@lru_cache(maxsize=4)
def table(name: str) -> Any:
    """The rows, centred, then scaled to a largest norm of 25."""
    if name in ("synthetic", "branin"):
        return grid()
    rng = np.random.default_rng(len(name))
    if (
        name == "loans"
    ):  # amount, rate and income of 36,000 applicants: not independent, and a few incomes are far out
        raw = rng.standard_normal((36_000, 3)) @ np.array([[0.8, 0.2, 0.3], [0.0, 0.4, 0.1], [0.0, 0.0, 0.6]])
        raw = np.column_stack([np.log1p(np.exp(raw[:, :2])), np.exp(0.68 * raw[:, 2])])
        raw = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    else:  # 2,004 addresses in 30 neighbourhoods of an island twice as long as high
        towns = rng.uniform(size=(30, 2))
        raw = (towns[rng.integers(30, size=2004)] + 0.03 * rng.standard_normal((2004, 2))) * [1.0, 0.45]
    raw = raw - raw.mean(axis=0)
    return raw * (25.0 / np.linalg.norm(raw, axis=1).max())


@lru_cache(maxsize=RUNS)
def task(name: str, number: int) -> Task:
    """The function of run `number`, and its first row's seed: the same for every transform."""
    X, rng = table(name), np.random.default_rng((0, number))
    if name == "synthetic":
        return drawn(X, rng, LENGTHSCALE)
    if name == "branin":
        return branin(X)
    length = LENGTHS.get(name, LENGTHSCALE)
    omega = rng.standard_normal((X.shape[1], FEATURES)) / length
    f = (
        np.sqrt(2.0 / FEATURES)
        * np.cos(X @ omega + rng.uniform(0, 2 * math.pi, FEATURES))
        @ rng.standard_normal(FEATURES)
    )
    return Task(X, (f - f.mean()) / f.std(), length)


def published(name: str, log_epsilon: float, r: int) -> Published:
    """The paper's transform, at a task's δ."""
    return Published(math.exp(log_epsilon), r, SETTINGS[name][0] if name in SETTINGS else 1e-5)


def lifted(name: str, log_epsilon: float, r: int) -> bool:
    """Whether the published transform raises the singular values of the task's table."""
    return published(name, log_epsilon, r).lifts(table(name))


def sigma_min(name: str) -> float:
    """Of the task's table."""
    return smallest(table(name))


def implied(name: str) -> tuple[float, float]:
    """σ_min by the paper: at least every ω whose column it says keeps σ_min, under that of the next column."""
    floors, raised = [], []
    for number, (of, log_epsilon, dims, _) in NUMBERED.items():
        if of == name:
            at = dims.index(LARGEST[number])
            floors.append(published(name, log_epsilon, dims[at]).floor)
            raised.append(published(name, log_epsilon, dims[at + 1]).floor)
    return max(floors), min(raised)


def one(name: str, transform: Any, number: int) -> Any:
    """Simple regret by step of one run."""
    which = task(name, number)
    Z, noise = transform(which.X, np.random.default_rng((2, number)))
    return curve(which, Z, np.random.default_rng((1, number)), noise, steps_of(name))


def steps_of(name: str) -> int:
    """T of a task: rows asked about."""
    return SETTINGS[name][1] if name in SETTINGS else 50


def key(name: str, log_epsilon: float | None = None, r: int | None = None) -> str:
    """The cell of a task: the rows themselves, the sound transform, or the published one with r columns."""
    if log_epsilon is None:
        return f"kharkovskii/{name}/rows"
    return f"kharkovskii/{name}/e^{log_epsilon}/" + ("sound" if r is None else f"r={r}")


def cells() -> list[Cell]:
    """Everything, the cheap tasks first."""
    wanted: dict[str, Any] = {}

    def add(name: str, log_epsilon: float | None = None, r: int | None = None) -> None:
        transform: Any = Plain()
        if log_epsilon is not None and r is not None:
            transform = published(name, log_epsilon, r)
        elif log_epsilon is not None:
            transform = Sound(math.exp(log_epsilon), SETTINGS[name][0] if name in SETTINGS else 1e-5)
        wanted[key(name, log_epsilon, r)] = partial(one, name, transform)

    for name in ("synthetic", "branin", "property", "loans"):
        add(name)
        if name == "branin":
            for log_epsilon in HOO:
                add(name, log_epsilon, 10)
                add(name, log_epsilon)
            continue
        for log_epsilon in SETTINGS[name][3]:
            add(name, log_epsilon, SETTINGS[name][2])
            add(name, log_epsilon)
        for of, log_epsilon, dims, _ in NUMBERED.values():
            if of == name:
                add(name, log_epsilon)
                for r in dims:
                    add(name, log_epsilon, r)
    return [Cell(name, run, RUNS) for name, run in wanted.items()]
