"""Compare on one public data set at one ε."""

from pathlib import Path

from prefect import task

from dpbo_core.comparison.cells import Cell
from dpbo_core.comparison.measuring import measured_at
from tasks import policies


@task(name="compare on one data set", **policies.SENSITIVE_TASK)
def compare_on(name: str, epsilon: float, repetitions: int, folder: Path) -> list[Cell]:
    """Every contender; what was trained before is looked up."""
    return measured_at(name, epsilon, repetitions, folder)
