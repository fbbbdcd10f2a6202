"""Take an answer into the modeller's search."""

from pathlib import Path

from prefect import task

from dpbo_core.methods.outsourced import session
from dpbo_core.methods.outsourced.session import Progress
from tasks import policies


@task(name="take answer", **policies.SENSITIVE_TASK)
def take_answer(answer: Path, state: Path) -> Progress:
    """Where the search stands after it."""
    return session.update(answer, state)
