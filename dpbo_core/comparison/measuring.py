"""One task at several ε: trained once and kept in a folder, then every ε anywhere that can read the folder."""

import hashlib
import json
import math
import os
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from dpbo_core.comparison.cell_runs import Cell, cells_of
from dpbo_core.comparison.own_task import read_task
from dpbo_core.comparison.tasks import TASKS, ScoreTable, on_table
from dpbo_core.errors import StudyInvalid, suggestion
from dpbo_core.problem.problem import Problem

EPSILONS = (0.1, 0.3, 1.0, 3.0)


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


def measured(name: str, repetitions: int, folder: Path) -> list[Cell]:
    """The results of every method and rival at each of `EPSILONS` on one task, trained once and cached in `folder`.

    Args:
        name: of the task.
        repetitions: of each contender in each cell.
        folder: where the scores of public trainings are kept.
    """
    trained(name, folder)
    workers = min(len(EPSILONS), os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = [pool.submit(measured_at, name, epsilon, repetitions, folder) for epsilon in EPSILONS]
        return [cell for job in jobs for cell in job.result()]


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
