"""The story of a private objective: the public half once, a task a score, and what was asked shown in MLflow."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpbo.flows.plain_output import announce_stage
from dpbo.flows.prefect_page import announce_refusal, name_run, wait_until_recorded
from dpbo.flows.prefect_runtime.liveness import alive
from dpbo.flows.private_flow import PrivateFlow
from dpbo.flows.publishing import UNNAMED, publish_release
from dpbo.flows.requested_study import study_of
from dpbo.tasks import policies
from dpbo.tasks.queries import close, score
from dpbo.tasks.reporting.mlflow_lookup import Tracked
from dpbo_core.errors import BudgetRefused
from dpbo_core.privacy.release import Release
from dpbo_core.queries.objective_for_a_loop.objective_handle import objective_of_study
from dpbo_core.queries.objective_for_a_loop.released_score import Score
from dpbo_core.queries.objective_for_a_loop.score_session import ScoreSession
from dpbo_core.study_file import StudySpec

UNRECORDED = "Prefect's record of the run may lack tasks"


@dataclass(frozen=True)
class Scored:
    """The scores that a flow asked for, in order, and how many are left."""

    scores: tuple[Score, ...]
    scores_left: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Closed:
    """The release of a private objective and where it is shown: None where MLflow failed."""

    release: Release
    tracked: Tracked | None
    warnings: tuple[str, ...] = ()


@policies.private_flow(name="score privately", **policies.FLOW)
def score_privately(
    study: StudySpec, params: Sequence[Mapping[str, Any]] = (), folder: str = ".", pad_steps: float = 0.0
) -> Scored:
    """Ask a study's private objective for scores: the first ever asked charges for all, and one asked about before
    is free; a task each, padded to a whole multiple of `pad_steps` seconds.

    Args:
        study: with [objective], which says how many scores its (ε, δ) buys.
        params: the hyperparameters to score.
        folder: the folder that the study's data paths are relative to.
        pad_steps: 0 for none.

    Raises:
        NoScoresLeft: more were asked for than were paid for; what was released stands.
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: nothing was charged.
        Sealed: something failed on sensitive data; run it again and it continues.
    """
    flow, session = _flow_and_session(study, folder, pad_steps)
    with alive(flow.stores.running):
        scores = tuple(_score_in_task(session, flow.study, one) for one in params)
        flow.warnings.tried(UNRECORDED, lambda: wait_until_recorded(len(scores)))
        return Scored(scores, session.scores_left, tuple(flow.warnings.lines))


@policies.private_flow(name="close the private objective", **policies.FLOW)
def close_privately(study: StudySpec, folder: str = ".", pad_steps: float = 0.0) -> Closed:
    """Draw a private objective's final choice if one was paid for, record its release and show it in MLflow;
    nothing more is scored.

    Args, Raises: as `score_privately`. A choice that was paid for is drawn now, unless it was before.
    """
    flow, session = _flow_and_session(study, folder, pad_steps)
    with alive(flow.stores.running):
        release = close(session)
        announce_stage(flow.study.name, "the release is recorded; MLflow's page follows")
        tracked = publish_release(flow, release)
        flow.warnings.tried(UNRECORDED, lambda: wait_until_recorded(1 + (tracked is not None)))
        return Closed(release, tracked, tuple(flow.warnings.lines))


def _flow_and_session(study: StudySpec, folder: str, time_quantum: float) -> tuple[PrivateFlow, ScoreSession]:
    """A study's checked Prefect flow, and its private objective, ready to be asked; nothing is charged yet."""
    flow = PrivateFlow.begin(study_of(study), folder, time_quantum)
    flow.warnings.tried(UNNAMED, lambda: name_run(flow.study, "objective"))
    return flow, ScoreSession(objective_of_study(flow.study, flow.run), flow.run)


def _score_in_task(session: ScoreSession, study: StudySpec, params: Mapping[str, Any]) -> Score:
    """One private score, drawn in a Prefect task; raises the refusal of a budget that cannot pay."""
    answer = score(session, params)
    if isinstance(answer, BudgetRefused):
        raise announce_refusal(answer, study)
    return answer
