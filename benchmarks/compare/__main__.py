"""Every method beside its rivals, on public data alone: a table, a page and a picture.

python -m benchmarks.compare [--task FILE.npz] [--only NAME]… [--epsilon E]… [--repetitions N] [--json]

It opens no study's data and no ledger, so nothing is charged and nothing is protected. `--task` names a file of
record scores of your own (`own_task.py` says what it holds).
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.compare.cell_runs import Cell, epsilons_of, measured_at, measured_own, names_of, trained
from benchmarks.compare.own_task import read_task
from benchmarks.compare.page import save_comparison
from dpbo.flows.cli.running import check_public_here
from dpbo.flows.terminal import Progress, Screen
from dpbo_core.errors import DpboError, StudyInvalid
from dpbo_core.ledger.sources import PUBLIC_ROLE, file_source

TABLES = Path("build", "comparison_tables")  # the candidates' scores, which are trained once


def measured(names: Sequence[str], epsilons: Sequence[float], repetitions: int, own: Path | None) -> list[Cell]:
    """The cells of every contender at each ε, on these tasks or the file `own`, in a process for each core."""
    with ProcessPoolExecutor(os.cpu_count()) as processes:
        tables = [] if own is not None else [processes.submit(trained, name, TABLES) for name in names]
        runs: list[Callable[[], list[Cell]]] = [
            partial(measured_at, name, epsilon, repetitions, TABLES) for name in names for epsilon in epsilons
        ]
        if own is not None:
            runs = [partial(measured_own, own, epsilon, repetitions) for epsilon in epsilons]
        with Progress("compare", len(tables) + len(runs), "pieces of work") as progress:
            for table in tables:
                table.result()
                progress.show(None)
            jobs, cells = [processes.submit(run) for run in runs], list[Cell]()
            for job in jobs:
                cells += job.result()
                progress.show(None)
            return cells


def print_cells(cells: Sequence[Cell], files: Sequence[Path]) -> None:
    """Print a table of losses by task and ε, and where the page is."""
    screen = Screen()
    for task in dict.fromkeys(cell.task for cell in cells):
        here = [cell for cell in cells if cell.task == task]
        epsilons = sorted({cell.epsilon for cell in here})
        rows = []
        for name in dict.fromkeys(cell.contender for cell in here):
            regrets = {cell.epsilon: cell.regret for cell in here if cell.contender == name}
            rows.append([name, *("–" if regrets.get(e) is None else f"{regrets[e]:.4f}" for e in epsilons)])
        title = f"{task}, m = {here[0].n_validation:,}: how far below the best"
        screen.table(["", *(f"ε = {e:g}" for e in epsilons)], rows, left=1, wraps=0, title=title)
        screen.say()
    screen.say("view: " + ", ".join(str(file) for file in files))


def main(words: Sequence[str] | None = None) -> int:
    """Run the command: its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--task", type=Path, metavar="FILE.npz", help="record scores of your own")
    parser.add_argument("--only", action="append", default=[], help="a data set by name; repeat for more")
    parser.add_argument("--epsilon", action="append", type=float, default=[], help="repeat for more")
    parser.add_argument("--repetitions", type=int, default=100, help="runs of each contender in each cell")
    parser.add_argument("--out", type=Path, default=Path("comparison"), help="the folder for the page")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    asked = parser.parse_args(words)
    try:
        if asked.repetitions < 2:
            raise StudyInvalid(f"--repetitions {asked.repetitions}", remedy="give at least 2")
        if asked.task is not None:
            if asked.only:
                raise StudyInvalid("--task and --only together", remedy="give one of them")
            check_public_here((file_source(asked.task, PUBLIC_ROLE),))
            read_task(asked.task)
        names = () if asked.task else names_of(tuple(asked.only))
        cells = measured(names, epsilons_of(tuple(asked.epsilon)), asked.repetitions, asked.task)
    except DpboError as error:
        sys.stderr.write(f"{error.message()}\n")
        return error.exit_code
    files = save_comparison(cells, asked.out)
    if asked.json:
        document = {"cells": [cell.to_json() for cell in cells], "files": [str(file) for file in files]}
        sys.stdout.write(f"{json.dumps(document, allow_nan=False)}\n")
    else:
        print_cells(cells, files)
    return 0


if __name__ == "__main__":
    sys.exit(main())
