"""Public work, before anything is charged: a task a candidate wherever the task runner puts it, or a chunk here."""

from pathlib import Path

from prefect import task

from dpbo.tasks import policies
from dpbo_core.models.estimators import Model
from dpbo_core.preparation.precomputed import PublicWork, cross_validate_candidate, train_candidate
from dpbo_core.study_file import StudySpec


@task(name="train candidate", **policies.SENSITIVE_TASK)
def candidate(study: StudySpec, folder: str | Path, index: int, allowed_score: str | None) -> Model:
    """Train the model of candidate `index` on the study's public training set."""
    return train_candidate(study, folder, index, allowed_score)


@task(name="cross-validate candidate", **policies.SENSITIVE_TASK)
def public_score(study: StudySpec, folder: str | Path, index: int, allowed_score: str | None) -> float:
    """Cross-validate candidate `index` on the study's public training set."""
    return cross_validate_candidate(study, folder, index, allowed_score)


@task(name="cross-validate candidates", **policies.SENSITIVE_TASK)
def cross_validate_chunk(work: PublicWork, indices: tuple[int, ...]) -> int:
    """Cross-validate a chunk of Λ on public records."""
    return work.cross_validate(indices)


@task(name="search on public data", **policies.SENSITIVE_TASK)
def search_publicly(work: PublicWork) -> int:
    """Finish a public search, each trial of which follows from those before."""
    return work.search()


@task(name="train candidates", **policies.SENSITIVE_TASK)
def train_chunk(work: PublicWork, indices: tuple[int, ...]) -> int:
    """Train a chunk of Λ, for a study whose steps may not train."""
    return work.train(indices)


@task(name="try out a training", **policies.SENSITIVE_TASK)
def try_out(work: PublicWork) -> bool:
    """Train one candidate of a study whose steps train, so that one that cannot be trained costs nothing."""
    return work.try_out()
