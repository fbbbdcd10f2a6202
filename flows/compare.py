"""The story of a comparison: train every candidate once, run every contender by the hundred, show who loses least.

Public data only: it opens no study's data and no ledger, so nothing here is charged, and nothing is protected.
"""

from dataclasses import dataclass
from pathlib import Path

from prefect import flow

from dpbo.flows.prefect_runtime.fanning_out import PIECES, task_runner
from dpbo.flows.prefect_runtime.owner import check_owner
from dpbo.flows.prefect_runtime.prefect_page import wait_until_recorded
from dpbo.flows.prefect_runtime.progress import Progress
from dpbo.flows.prefect_runtime.settings import FOLDER, Stores
from dpbo.tasks import policies
from dpbo.tasks.comparing import compare_on, compare_on_own, show_comparison, train_table
from dpbo_core.comparison.cell_runs import Cell, epsilons_of, names_of


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison: its cells, and the files that show them."""

    cells: tuple[Cell, ...]
    files: tuple[Path, ...]


@flow(name="compare on public data", **policies.FLOW)
def compare_methods(
    repetitions: int = 100,
    out: str = "comparison",
    only: tuple[str, ...] = (),
    epsilons: tuple[float, ...] = (),
    own: str | None = None,
) -> Comparison:
    """Compare every method on public data sets, or a task of one's own, at no charge, and write a page into `out`.

    Args:
        repetitions: runs of each contender in each cell.
        out: the folder for the page, its picture and its numbers.
        only: names of tasks; all of them if empty.
        epsilons: the ε of the cells; 0.1, 0.3, 1 and 3 if empty.
        own: a file of record scores, in place of the public data sets.

    Raises:
        PolicyRefused: Prefect started it; its files are its owner's to name.
    """
    check_owner("a comparison")
    names, levels, stores = () if own else names_of(only), epsilons_of(epsilons), Stores()
    stores.make_folder()
    fanned_out = measure.with_options(task_runner=task_runner(max(1, len(names)) * len(levels)))
    file = None if own is None else str(Path(own).resolve())
    cells: list[Cell] = fanned_out(names, levels, repetitions, str(FOLDER.resolve() / "comparison"), file)
    files = show_comparison(cells, Path(out), stores.tracking)
    wait_until_recorded(len((measure, show_comparison)))
    return Comparison(tuple(cells), files)


@flow(name="measure", **policies.FLOW)
def measure(
    names: tuple[str, ...], epsilons: tuple[float, ...], repetitions: int, folder: str, own: str | None = None
) -> list[Cell]:
    """Train each data set's candidates, their scores written to `folder`, or read the file `own` of one's own task,
    and measure methods and rivals at each ε, `repetitions` times.

    Raises:
        PolicyRefused: Prefect started it.
    """
    check_owner("a comparison")
    tables_folder = Path(folder)
    tables = {name: train_table.submit(name, tables_folder) for name in names if own is None}
    measured = [
        compare_on.submit(name, epsilon, repetitions, tables_folder, return_state=False, wait_for=[table])
        for name, table in tables.items()
        for epsilon in epsilons
    ]
    if own is not None:
        measured = [compare_on_own.submit(Path(own), level, repetitions, return_state=False) for level in epsilons]
    with Progress("compare", len(tables) + len(measured), PIECES) as progress:
        for table in tables.values():
            progress.counted(table.result())  # its own error, and not that of a task which waited for it
        return [cell for job in measured for cell in progress.counted(job.result())]
