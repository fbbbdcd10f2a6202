"""Write the comparison's page and log it."""

from pathlib import Path

from prefect import task

from dpbo_core.comparison.cells import Cell
from tasks import policies
from tasks.report.comparison import save_comparison


@task(name="show the comparison", **policies.SENSITIVE_TASK)
def show_comparison(cells: list[Cell], out: Path, tracking_uri: str) -> tuple[Path, ...]:
    """The table, the picture and the numbers, in a folder and in MLflow."""
    return save_comparison(cells, out, tracking_uri)
