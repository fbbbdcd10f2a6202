"""The story of a watch: one look, its bit on the timeline; an event at an alarm."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from dpbo.features.watch.looks import OpenLook, open_look
from dpbo.features.watch.mlflow_timeline import log_looks
from dpbo.features.watch.recorded_looks import Look
from dpbo.flows.prefect_runtime.liveness import is_alive, run_logger
from dpbo.flows.private_flow import PrivateFlow, study_of
from dpbo.flows.run_end import (
    ALARM,
    UNNAMED_RUN_WARNING,
    add_outcome,
    emit,
    failed_run,
    name_run,
    price_and_rest,
    tags_of,
    wait_until_recorded,
    with_text,
)
from dpbo.flows.terminal import announce_stage
from dpbo.tasks import policies
from dpbo.tasks.policies import or_refused, private_task
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo_core.errors import BudgetRefused, DpboError
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.query import QueryContext


@private_task(name="prepare look", **policies.SENSITIVE_TASK_OPTIONS)
def prepare_look(
    study: StudySpec, context: QueryContext, vaults: Path, name: str, section: WatchSection
) -> OpenLook | Look:
    """Make a look (private check) ready, uncharged, or read the recorded one; destroys a finished watch's noise."""
    return open_look(study, context, name=name, section=section, vaults=vaults)


@private_task(name="look", **policies.SENSITIVE_TASK_OPTIONS)
def look(opened: OpenLook, context: QueryContext, vaults: Path) -> Look | BudgetRefused:
    """Charge the watch once, draw noise, compare today's score, record the result; a refusal is returned."""
    return policies.or_refused(lambda: opened.finish(context, vaults))


@private_task(name="show the looks", **policies.PUBLISHING_TASK_OPTIONS)
def publish_looks(looked: Look, account: Account, tracking_uri: str) -> Tracked:
    """Log in MLflow the looks (private checks) of a watch that are not there yet, and its price: where they are."""
    return log_looks(looked, account, tracking_uri)


@dataclass(frozen=True)
class Watched:
    """A look and where it is shown: None if MLflow failed, and `warnings` state what to do."""

    look: Look
    tracked: Tracked | None
    warnings: tuple[str, ...] = ()


@policies.private_flow(name="watch privately", **policies.FLOW_OPTIONS)
def watch_privately(study: StudySpec, name: str, folder: str = ".", wanted: WatchSection | None = None) -> Watched:
    """Check once, as `name`, whether the released model's score fell; a watch's first check pays for all until an
    alarm, and the same name again is free.

    Args:
        study: whose released model is watched (from Prefect's form: the same fields as JSON).
        name: of the look, your own: a date, say. The same name again has the same bit, and reads nothing.
        folder: the folder that the study's data paths are relative to.
        wanted: drop, ε and the rest, instead of the study's [watch].

    Returns:
        Whether the score is said to have fallen, recorded in the ledger and shown in MLflow. At an alarm an event
        dpbo.watch.alarm is emitted.

    Raises:
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: the study is not tuned yet, today's table is too small,
            the watch is over, or its budget does not pay for it; nothing was charged.
        DpboError: the watch's secret noise is not here, or is old.
        Sealed: something failed on sensitive data; run it again and it continues.
    """
    try:
        study = study_of(study)
        watched = watch(study, name, folder, section_of(wanted))
        return with_text(watched, look_line(watched))
    except DpboError as error:
        return cast("Watched", failed_run(error, study))


def section_of(section: WatchSection | Mapping[str, Any] | None) -> WatchSection | None:
    """Return a [watch] section from Prefect's form, read as strictly as a file's; None if there is none."""
    if section is None or isinstance(section, WatchSection):
        return section
    stated = {key: value for key, value in section.items() if value is not None}
    return WatchSection.read(stated)


def watch(study: StudySpec, name: str, folder: str, wanted: WatchSection | None) -> Watched:
    """Check the released model once, warn and publish, inside whatever flow runs it."""
    flow, section = PrivateFlow.begin(folder), wanted or study.watch or WatchSection()
    warnings, tags = flow.warnings, tags_of(study, folder)
    warnings.tried(UNNAMED_RUN_WARNING, lambda: name_run(study.name, study.edition, f"look {name}", **tags))
    with is_alive(flow.stores.running):
        looked = _take_look(study, flow, name, section)
        (account,) = flow.context.ledger.accounts(study.privacy.dataset)
        announce_stage(study.name, "the look is recorded; MLflow's page follows")
        tracked = warnings.tried(
            "the look is recorded, but MLflow does not show it",
            lambda: publish_looks(looked, account, flow.stores.tracking),
        )
        if looked.alarm:
            warnings.tried("Prefect was not told of the alarm", lambda: _alarm(study, looked))
        outcome = f"{'ALARM' if looked.alarm else 'holds'}, {price_and_rest(looked.guarantee.epsilon, account)}"
        warnings.tried(UNNAMED_RUN_WARNING, lambda: add_outcome(outcome))
        n_tasks = 2 if looked.replayed else 3  # prepare look, look (unless it was recorded), publish looks
        warnings.tried("Prefect's record of the run may lack tasks", lambda: wait_until_recorded(n_tasks))
    return Watched(looked, tracked, tuple(warnings.lines))


def look_line(watched: Watched) -> str:
    """Return the look's result in a few words, for the flow run's state message."""
    look = watched.look
    again = " (recorded before)" if look.replayed else ""
    return f"look {look.name}: {'ALARM' if look.alarm else 'holds'}, number {look.number}{again}"


def _take_look(study: StudySpec, flow: PrivateFlow, name: str, section: WatchSection) -> Look:
    """One look (private check) called `name`: taken now, a watch's first charged, or read back if recorded."""
    announce_stage(study.name, f"preparing look {name}")
    opened = prepare_look(study, flow.context, flow.stores.vaults, name, section)
    if isinstance(opened, Look):
        return opened
    announce_stage(study.name, "looking at today's records")
    answer = or_refused(
        lambda: look(opened, flow.before_charge(study, flow.context, opened.query), flow.stores.vaults)
    )
    if isinstance(answer, BudgetRefused):
        raise answer
    return answer


def _alarm(study: StudySpec, looked: Look) -> None:
    run_logger().warning(
        "study %s, edition %s: look %s raises the alarm: its score has fallen by about %g, or it is a false alarm",
        study.name,
        study.edition,
        looked.name,
        looked.terms.drop,
    )
    emit(
        ALARM,
        "study",
        study.name,
        {
            "dataset": study.privacy.dataset,
            "edition": study.edition,
            "look": looked.name,
            "looks": looked.number,
            "drop": looked.terms.drop,
            "epsilon": looked.terms.epsilon,
        },
    )
