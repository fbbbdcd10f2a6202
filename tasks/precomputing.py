"""Public work, before anything is charged: a task a chunk of Λ."""

from prefect import task

from dpbo.tasks import policies
from dpbo_core.preparation.precomputed import PublicWork

Indices = tuple[int, ...]


@task(name="cross-validate candidates", **policies.SENSITIVE_TASK)
def cross_validate_chunk(work: PublicWork, indices: Indices) -> int:
    """Cross-validate some candidates on public records: the number of scores so far."""
    return work.cross_validate(indices)


@task(name="search on public data", **policies.SENSITIVE_TASK)
def search_publicly(work: PublicWork) -> int:
    """Finish a search on public data, whose trials depend on one another: the number of scores so far."""
    return work.search()


@task(name="train candidates", **policies.SENSITIVE_TASK)
def train_chunk(work: PublicWork, indices: Indices) -> int:
    """Train some candidates before the charge, as the steps may not train: the number of models so far."""
    return work.train(indices)


@task(name="try out a training", **policies.SENSITIVE_TASK)
def try_out(work: PublicWork) -> bool:
    """Train one candidate before the charge, so that a failure, which raises, costs nothing: True."""
    return work.try_out()
