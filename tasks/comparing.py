"""Every method beside its rivals on public data: train, compare, show."""

from pathlib import Path

from prefect import task

from dpbo.tasks import policies
from dpbo.tasks.reporting.comparison_page import save_comparison
from dpbo_core.comparison.cell_runs import Cell, measured_at, measured_own, trained


@task(name="train every candidate", **policies.SENSITIVE_TASK)
def train_table(name: str, folder: Path) -> int:
    """Train every candidate on a data set, unless `folder` has their scores already, which are written there;
    returns how many there are.
    """
    return len(trained(name, folder)[1].sums)


@task(name="compare on one data set", **policies.SENSITIVE_TASK)
def compare_on(name: str, epsilon: float, repetitions: int, folder: Path) -> list[Cell]:
    """Measure every method and rival `repetitions` times on a public data set at one ε, by the candidates' scores
    that are in `folder`.
    """
    return measured_at(name, epsilon, repetitions, folder)


@task(name="compare on a task of one's own", **policies.SENSITIVE_TASK)
def compare_on_own(file: Path, epsilon: float, repetitions: int) -> list[Cell]:
    """Measure every method and rival at one ε, `repetitions` times, by the records' scores in the user's file."""
    return measured_own(file, epsilon, repetitions)


@task(name="show the comparison", **policies.SENSITIVE_TASK)
def show_comparison(cells: list[Cell], out: Path, tracking_uri: str) -> tuple[Path, ...]:
    """Write a comparison's table, picture and numbers to `out` and MLflow: the paths of the files."""
    return save_comparison(cells, out, tracking_uri)
