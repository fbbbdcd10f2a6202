"""Train every candidate of one public data set, and keep their scores in a folder."""

from pathlib import Path

from prefect import task

from dpbo_core.comparison.measuring import trained
from tasks import policies


@task(name="train every candidate", **policies.SENSITIVE_TASK)
def train_table(name: str, folder: Path) -> int:
    """How many there are; whoever needs their scores reads the folder."""
    return len(trained(name, folder)[1].sums)
