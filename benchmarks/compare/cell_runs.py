"""The comparison itself: every contender on one task at one ε, many times.

A task is trained once and kept in a folder; then any ε is measured wherever the folder can be read.

| symbol | name here | meaning | shape |
|---|---|---|---|
| f* | `scores.max()` | the best score of Λ | scalar |
| r | `regret` | f* − f(chosen) | scalar ≥ 0 |
| — | `score_error` | distance of the released score from f(chosen), or f* where nothing is chosen | scalar ≥ 0 |
| — | `covered` | share of the runs whose interval held f(chosen) | scalar |
| — | `*_error` | standard error of the mean over the repetitions | scalar |
"""

import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.compare import rivals
from benchmarks.compare.own_task import read_task
from benchmarks.compare.rivals import Outcome, run_on
from benchmarks.compare.tasks import TASKS, ScoreTable, TableScorer, on_table
from dpbo_core.errors import DpboError, StudyInvalid, suggestion
from dpbo_core.methods import METHODS, method_named
from dpbo_core.methods.advice import recommendation
from dpbo_core.methods.contract import Method
from dpbo_core.methods.kusner_gp import ExactGP, NoisyGP
from dpbo_core.methods.lipschitz import Lipschitz
from dpbo_core.methods.private_grid import PrivateGrid
from dpbo_core.methods.private_trajectory import PrivateTrajectory
from dpbo_core.methods.problem import Problem
from dpbo_core.methods.public import Public

SPREAD = PrivateGrid(evaluate="sobol")
PAIRED = PrivateGrid(evaluate="tried", base_measure="public", paired=True)
CHOSEN_FORMS: tuple[tuple[str, Method], ...] = (
    ("private_grid, sobol", SPREAD),
    ("private_grid, public_shortlist", PrivateGrid(evaluate="public_shortlist")),
    ("private_grid, all", PrivateGrid()),
    ("private_grid, base measure", PrivateGrid(evaluate="tried", base_measure="public")),
    ("private_grid, base measure, paired", PAIRED),
    ("public score alone", Public()),
    ("private_trajectory", PrivateTrajectory()),
    ("private_trajectory, public prior", PrivateTrajectory(prior="public")),
    ("private_trajectory, permute-and-flip", PrivateTrajectory(final_share=0.8)),
    ("noisy_gp", NoisyGP()),
    ("exact_gp", ExactGP(rate_constant=1.0, decay_constant=0.1)),
    ("lipschitz", Lipschitz()),
    ("Algorithm 1 as published", NoisyGP(calibration="published", cap_at_range=False, outputs="candidate")),
    ("Algorithm 3 as published", Lipschitz(calibration="published")),
)
METHODS_COMPARED: tuple[tuple[str, Method], ...] = (
    *CHOSEN_FORMS,
    *(  # every other that tunes on validation records, as it is by default
        (kind, cls())
        for kind, cls in METHODS.items()
        if not cls.trains_privately and cls not in {type(method) for _, method in CHOSEN_FORMS}
    ),
)
EPSILONS = (0.1, 0.3, 1.0, 3.0)
NOT_PRIVATE = "GP-UCB, not private"
MORE_TRAININGS = ("all", "base measure")  # in a name: more of Λ is trained than the study has steps for
Run = Callable[[int], Outcome]


@dataclass(frozen=True)
class Cell:
    """One contender on one task at one ε; None where it releases no such thing."""

    task: str
    epsilon: float
    n_validation: int
    contender: str
    repetitions: int
    regret: float | None
    regret_error: float | None
    score_error: float | None
    score_error_error: float | None
    covered: float | None

    def to_json(self) -> dict[str, Any]:
        """A result as `--json` prints it: task, ε, method or rival, its regret and error of the score."""
        return asdict(self)


def cells_of(task: str, problem: Problem, table: ScoreTable, epsilon: float, repetitions: int) -> list[Cell]:
    """The results at one ε on one task of every method and rival that can run; the one advised again as "auto".

    Args:
        task: its name.
        problem: whose candidates the table scores.
        table: of scores.
        epsilon: of every private contender, which pays δ = 1e-6 where it pays a δ at all.
        repetitions: at least 2; number i has seed i.
    """
    per_step = problem.score_per_step if table.pairs is None else 1.0 / max(1, table.pairs)
    scores = table.sums.astype(np.float64) * per_step
    world, scorer = on_table(replace(problem, epsilon=epsilon), table)
    cells = []
    for name, run in _runs(world, scorer, scores):
        outcomes = [run(seed) for seed in range(repetitions)]
        cells.append(_cell(task, world, name, scores, outcomes))
    advised = auto_of(world)
    return [*cells, *(replace(cell, contender="auto") for cell in cells if cell.contender == advised)]


def auto_of(problem: Problem) -> str | None:
    """The name, among those compared, of the method that "auto" chooses; None if none would run."""
    choice = recommendation(problem)
    if choice is None:
        return None
    method = method_named(choice.kind, choice.options)
    return next(name for name, other in METHODS_COMPARED if other == method)


def _runs(problem: Problem, scorer: TableScorer, scores: NDArray[np.float64]) -> list[tuple[str, Run]]:
    """The methods and rivals on one task: each a name, and a function from a seed to a run's outcome."""
    sigma = rivals.selection_noise(problem)
    runs: list[tuple[str, Run]] = [
        (NOT_PRIVATE, lambda seed: rivals.gp_ucb(problem, scores, seed=seed)),
        ("random search with Laplace", lambda seed: rivals.random_search_with_laplace(problem, scores, seed=seed)),
        (
            "uniform selection, random stopping",
            lambda seed: rivals.uniform_selection(problem, scores, sigma=sigma, seed=seed),
        ),
    ]
    for name, method in METHODS_COMPARED:
        if method == PAIRED and not problem.score.graded:
            continue  # it is the same without
        try:
            method.plan(problem)
        except DpboError:  # Algorithm 3 needs a linear model, say
            continue
        runs.append((name, run_of(method, problem, scorer)))
    return runs


def run_of(method: Method, problem: Problem, scorer: TableScorer) -> Run:
    """A function from a seed to the outcome of a run of `method` on a table; its public work is done once."""
    if method == SPREAD:  # a design of its own each time: one may be lucky
        return lambda seed: run_on(method, with_seed(problem, seed), scorer, seed=seed)
    prepared = method.prepare(problem)
    return lambda seed: run_on(method, prepared, scorer, seed=seed)


def with_seed(problem: Problem, seed: int) -> Problem:
    """The problem with another seed of its search."""
    return replace(problem, search=problem.search.replace(seed=seed))


def _cell(task: str, problem: Problem, name: str, scores: NDArray[np.float64], outcomes: list[Outcome]) -> Cell:
    """The result of one method or rival: its outcomes' mean regret and error of the score."""
    regrets = [float(scores.max() - scores[o.index]) for o in outcomes if o.index is not None]
    truths = [float(scores.max() if o.index is None else scores[o.index]) for o in outcomes]
    errors = [abs(o.score - f) for o, f in zip(outcomes, truths, strict=True) if o.score is not None]
    held = [o.interval[0] <= f <= o.interval[1] for o, f in zip(outcomes, truths, strict=True) if o.interval]
    regret, regret_error = _mean(regrets)
    error, error_error = _mean(errors)
    return Cell(
        task=task,
        epsilon=problem.epsilon,
        n_validation=problem.n_averaged,
        contender=name,
        repetitions=len(outcomes),
        regret=regret,
        regret_error=regret_error,
        score_error=error,
        score_error_error=error_error,
        covered=float(np.mean(held)) if held else None,
    )


def _mean(values: list[float]) -> tuple[float | None, float | None]:
    """The mean and its standard error; None and None of no values."""
    if not values:
        return None, None
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def names_of(only: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the tasks to compare on: `only`, or all if it is empty; an unknown one is refused.

    Raises:
        StudyInvalid: an unknown name.
    """
    names = tuple(task.name for task in TASKS)
    for name in only:
        if name not in names:
            raise StudyInvalid(
                f"there is no task {name!r}{suggestion(name, names)}", remedy=f"use {', '.join(names)}"
            )
    return tuple(name for name in names if not only or name in only)


def epsilons_of(asked: tuple[float, ...]) -> tuple[float, ...]:
    """The values of ε to compare at, positive or refused, sorted and distinct; the usual four if none is asked for.

    Raises:
        StudyInvalid: one is no positive number.
    """
    for epsilon in asked:
        if not 0.0 < epsilon < math.inf:
            raise StudyInvalid(f"--epsilon {epsilon:g} is no price", remedy="give positive numbers; 1 is usual")
    return tuple(sorted(set(asked))) or EPSILONS


def measured_own(file: Path, epsilon: float, repetitions: int) -> list[Cell]:
    """The results of every method and rival at one ε on a user's own task, named after its file."""
    return cells_of(file.stem, *read_task(file), epsilon, repetitions)


def measured_at(name: str, epsilon: float, repetitions: int, folder: Path) -> list[Cell]:
    """The results of every method and rival at one ε on one task; its trainings are cached in `folder`."""
    return cells_of(name, *trained(name, folder), epsilon, repetitions)


def trained(name: str, folder: Path) -> tuple[Problem, ScoreTable]:
    """A task's problem with its table of scores in place of training, read from `folder` or computed into it."""
    (task,) = (item for item in TASKS if item.name == name)
    problem, records = task.make()
    public = [problem.candidates.points, problem.n_training, problem.n_averaged, repr(problem.model)]
    text = json.dumps([name, "record by record", version("scikit-learn"), *public], default=dict)
    cached = folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.npz"
    if not cached.exists():
        table = task.table(problem, records)
        folder.mkdir(parents=True, exist_ok=True)
        with cached.with_suffix(f".{os.getpid()}").open("wb") as file:
            np.savez(file, **table.arrays())
        cached.with_suffix(f".{os.getpid()}").replace(cached)
    with np.load(cached) as arrays:
        table = ScoreTable.of(arrays["steps"], arrays["public_steps"], arrays["public"])
    return on_table(problem, table)[0], table
