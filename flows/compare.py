"""The story of a comparison: train every candidate once, run every contender by the hundred, show who loses least.

Public data only: it opens no study's data and no ledger, so nothing here is charged, and nothing is protected.
"""

from dataclasses import dataclass
from pathlib import Path

from prefect import flow

from dpbo_core.comparison.cells import Cell
from dpbo_core.comparison.measuring import names_of
from flows.recording import wait_until_recorded
from flows.settings import FOLDER, Stores
from tasks import policies
from tasks.compare_on import compare_on
from tasks.show_comparison import show_comparison


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
    cells = [cell for name in names for cell in compare_on(name, repetitions, FOLDER.resolve() / "comparison")]
    files = show_comparison(cells, Path(out), stores.tracking)
    wait_until_recorded(len(names) + 1)
    return Comparison(tuple(cells), files)
