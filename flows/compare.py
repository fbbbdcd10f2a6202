"""The story of a comparison: train every candidate once, run every contender by the hundred, show who loses least.

Public data only: it opens no study's data and no ledger, so nothing here is charged, and nothing is protected.
"""

from dataclasses import dataclass
from pathlib import Path

from prefect import flow

from dpbo.flows.prefect_runtime.fanning_out import task_runner
from dpbo.flows.prefect_runtime.recording import wait_until_recorded
from dpbo.flows.prefect_runtime.settings import FOLDER, Stores
from dpbo.tasks import policies
from dpbo.tasks.comparing import compare_on, show_comparison, train_table
from dpbo_core.comparison.cells import Cell
from dpbo_core.comparison.measuring import EPSILONS, names_of


@dataclass(frozen=True)
class Comparison:
    """The cells, and the files that show them."""

    cells: tuple[Cell, ...]
    files: tuple[Path, ...]


@flow(name="compare on public data", **policies.FLOW)
def compare_methods(repetitions: int = 100, out: str = "docs", only: tuple[str, ...] = ()) -> Comparison:
    """Compare every method on public data sets.

    Args:
        repetitions: runs of each contender in each cell.
        out: the folder for the page, its picture and its numbers.
        only: names of tasks; all of them if empty.
    """
    names, stores = names_of(only), Stores()
    stores.make_folder()
    fanned_out = measure.with_options(task_runner=task_runner(len(names) * len(EPSILONS)))
    cells: list[Cell] = fanned_out(names, repetitions, str(FOLDER.resolve() / "comparison"))
    files = show_comparison(cells, Path(out), stores.tracking)
    wait_until_recorded(len((measure, show_comparison)))
    return Comparison(tuple(cells), files)


@flow(name="measure", **policies.FLOW)
def measure(names: tuple[str, ...], repetitions: int, folder: str) -> list[Cell]:
    """A task a data set trains its candidates, then a task an ε runs the contenders, wherever the runner says."""
    kept = Path(folder)
    tables = {name: train_table.submit(name, kept) for name in names}
    measured = [
        compare_on.submit(name, epsilon, repetitions, kept, return_state=False, wait_for=[table])
        for name, table in tables.items()
        for epsilon in EPSILONS
    ]
    for table in tables.values():
        table.result()  # its own error, and not that of a task which waited for it
    return [cell for job in measured for cell in job.result()]
