"""Public work, before anything is charged: a task a chunk of Λ, wherever the task runner puts it, or here."""

from pathlib import Path

from prefect import task

from dpbo.tasks import policies
from dpbo_core.models.estimators import Model
from dpbo_core.preparation.precomputed import PublicWork, cross_validate_candidates, train_candidates
from dpbo_core.study_file import StudySpec

Indices = tuple[int, ...]


@task(name="train candidates", **policies.SENSITIVE_TASK)
def candidates(study: StudySpec, folder: Path, indices: Indices, allowed_score: str | None) -> dict[int, Model]:
    """Train a chunk of Λ on the study's public training set, in any process."""
    return train_candidates(study, folder, indices, allowed_score)


@task(name="cross-validate candidates", **policies.SENSITIVE_TASK)
def public_scores(study: StudySpec, folder: Path, indices: Indices, allowed_score: str | None) -> dict[int, float]:
    """Cross-validate a chunk of Λ on the study's public training set, in any process."""
    return cross_validate_candidates(study, folder, indices, allowed_score)


@task(name="cross-validate candidates", **policies.SENSITIVE_TASK)
def cross_validate_chunk(work: PublicWork, indices: Indices) -> int:
    """Cross-validate a chunk of Λ on public records: the number of scores so far."""
    return work.cross_validate(indices)


@task(name="search on public data", **policies.SENSITIVE_TASK)
def search_publicly(work: PublicWork) -> int:
    """Run the rest of a public search, whose trials depend on one another: the number of scores."""
    return work.search()


@task(name="train candidates", **policies.SENSITIVE_TASK)
def train_chunk(work: PublicWork, indices: Indices) -> int:
    """Train a chunk of Λ before the charge, as the steps may not train: the number of models so far."""
    return work.train(indices)


@task(name="try out a training", **policies.SENSITIVE_TASK)
def try_out(work: PublicWork) -> bool:
    """Train one candidate before the charge, so that one that cannot be trained costs nothing."""
    return work.try_out()
