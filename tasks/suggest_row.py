"""Write the modeller's next query."""

from pathlib import Path

from prefect import task

from dpbo_core.methods.outsourced import session
from dpbo_core.methods.outsourced.messages import Query
from tasks import policies


@task(name="suggest row", **policies.SENSITIVE_TASK)
def suggest_row(table: Path, state: Path, out: Path) -> Query:
    """The query, written after the state that remembers it."""
    return session.suggest(table, state, out)
