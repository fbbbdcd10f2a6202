"""Compare on one public data set."""

from pathlib import Path

from prefect import task

from dpbo_core.comparison.cells import Cell
from dpbo_core.comparison.measuring import measured
from tasks import policies


@task(name="compare on one data set", **policies.SENSITIVE_TASK)
def compare_on(name: str, repetitions: int, folder: Path) -> list[Cell]:
    """Every contender at every ε; what was trained before is looked up."""
    return measured(name, repetitions, folder)
