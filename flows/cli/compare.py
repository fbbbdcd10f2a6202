"""`dpbo compare`: every method beside its rivals, on public data alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpbo.flows.cli.running import own_server
from dpbo.flows.cli.studies import check_public_here
from dpbo.flows.cli.terminal import Screen, print_result
from dpbo.flows.prefect_runtime.owner import owners_terminal
from dpbo.flows.prefect_runtime.settings import quiet_environment
from dpbo_core.comparison.cell_runs import epsilons_of, names_of
from dpbo_core.comparison.own_task import read_task
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.sources import PUBLIC, file_source

if TYPE_CHECKING:
    from dpbo.flows.compare import Comparison


def compare(
    repetitions: Annotated[int, typer.Option(min=2, help="Runs of each method in each cell.")] = 100,
    only: Annotated[
        list[str] | None, typer.Option(help="A data set by name; repeat for more. All if none.")
    ] = None,
    task: Annotated[
        Path | None, typer.Option(metavar="FILE.npz", help="Record scores of your own, in place of the data sets.")
    ] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="An ε; repeat for more. 0.1, 0.3, 1 and 3 if none.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder for the page and its picture.")] = Path("comparison"),
) -> None:
    """Measure every method beside its rivals, on public data alone: a table, a picture, and MLflow."""
    names, epsilons, own = tuple(only or ()), tuple(epsilon or ()), None if task is None else str(task)
    names_of(names)
    epsilons_of(epsilons)
    if task is not None:
        if only:
            raise StudyInvalid("--task and --only together", remedy="give one of them")
        check_public_here((file_source(task, PUBLIC),))
        read_task(task)
    quiet_environment()
    from dpbo.flows.compare import compare_methods

    with own_server(), owners_terminal():
        comparison = compare_methods(repetitions, str(out), names, epsilons, own)
    files = [str(file) for file in comparison.files]
    print_result(
        lambda: {"cells": [cell.to_json() for cell in comparison.cells], "files": files},
        lambda: print_comparison(comparison),
    )


def print_comparison(comparison: "Comparison") -> None:
    """Print a comparison as `dpbo compare` shows it: a table of losses by task and ε."""
    screen = Screen()
    for task in dict.fromkeys(cell.task for cell in comparison.cells):
        here = [cell for cell in comparison.cells if cell.task == task]
        epsilons = sorted({cell.epsilon for cell in here})
        rows = []
        for name in dict.fromkeys(cell.contender for cell in here):
            regrets = {cell.epsilon: cell.regret for cell in here if cell.contender == name}
            rows.append([name, *("–" if regrets.get(e) is None else f"{regrets[e]:.4f}" for e in epsilons)])
        title = f"{task}, m = {here[0].n_validation:,}: how far below the best"
        screen.table(["", *(f"ε = {e:g}" for e in epsilons)], rows, left=1, wraps=0, title=title)
        screen.say()
    screen.say("look: " + ", ".join(str(file) for file in comparison.files))
