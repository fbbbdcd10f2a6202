"""A private objective: one task a score."""

from collections.abc import Mapping
from typing import Any

from prefect import task

from dpbo.tasks import policies
from dpbo_core.errors import BudgetRefused
from dpbo_core.privacy.release import Release
from dpbo_core.queries.objective_for_a_loop.score_session import Score, ScoreSession


@task(name="score", **policies.SENSITIVE_TASK)
def score(session: ScoreSession, params: Mapping[str, Any]) -> Score | BudgetRefused:
    """Train a model with `params`, charge and draw its private score; a refusal is returned, not raised."""
    return policies.or_refused(lambda: session.ask(params))


@task(name="close", **policies.SENSITIVE_TASK)
def close(session: ScoreSession) -> Release:
    """End a private objective: draw the final choice if one was paid for, and record the release."""
    return session.close()
