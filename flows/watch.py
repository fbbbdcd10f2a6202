"""The story of a watch: one look, its bit on the timeline; at an alarm an event and, if asked for, a new tune."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dpbo.flows.plain_output import announce_stage
from dpbo.flows.prefect_page import ALARM, announce_refusal, emit, wait_until_recorded
from dpbo.flows.prefect_runtime.liveness import alive, run_logger
from dpbo.flows.private_flow import PrivateFlow, Warnings
from dpbo.flows.requested_study import study_of
from dpbo.flows.tune import Tuned, tune
from dpbo.tasks import policies
from dpbo.tasks.queries import look, prepare_look, publish_looks
from dpbo.tasks.reporting.mlflow_lookup import Tracked
from dpbo_core.errors import BudgetRefused, DpboError
from dpbo_core.problem.reading import read_section
from dpbo_core.queries.watch.recorded_looks import Look, newest_edition
from dpbo_core.study_file import StudySpec, WatchSection


@dataclass(frozen=True)
class Watched:
    """A look and where it is shown: None where MLflow failed, and `warnings` say what to do.

    `tuned` is what an alarm started, where that was asked for and the budget had room.
    """

    look: Look
    tracked: Tracked | None
    tuned: Tuned | None = None
    warnings: tuple[str, ...] = ()


@policies.private_flow(name="watch privately", **policies.FLOW)
def watch_privately(
    study: StudySpec,
    name: str,
    folder: str = ".",
    wanted: WatchSection | None = None,
    retune: bool = False,
    pad: float = 0.0,
) -> Watched:
    """Check once, as `name`, whether the released model's score fell; a watch's first check pays for all until an
    alarm, and the same name again is free.

    Args:
        study: whose released model is watched (from Prefect's form: the same fields as JSON).
        name: of the look, your own: a date, say. The same name again has the same bit, and reads nothing.
        folder: the folder that the study's data paths are relative to.
        wanted: drop, ε and the rest, in the place of the study's [watch].
        retune: at an alarm tune the study anew, as the edition that the look is called, if the budget has room; and
            watch what that released from then on, for a price of its own.
        pad: the task on sensitive data takes a whole number of so many seconds; 0 for none.

    Returns:
        Whether the score is said to have fallen, recorded in the ledger and shown in MLflow. At an alarm an event
        dpbo.watch.alarm is emitted.

    Raises:
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: the study is not tuned yet, today's table is too small,
            the watch is over, or its budget does not pay for it; nothing was charged.
        DpboError: the watch's secret noise is not here, or is old.
        Sealed: something failed on sensitive data; run it again and it continues.
    """
    return watch(study_of(study), name, folder, section_of(wanted), retune=retune, pad=pad)


@policies.private_flow(name="tune and watch", **policies.FLOW)
def tune_and_watch(
    study: StudySpec, name: str, folder: str = ".", wanted: WatchSection | None = None, pad: float = 0.0
) -> tuple[Tuned, Watched]:
    """Tune a study, unless that is done, check its released model once, and at an alarm tune anew: a scheduled run.

    Args, Raises: as `watch_privately`; and as a tune of the study.
    """
    study = study_of(study)
    tuned = tune(PrivateFlow.begin(study, folder, pad).on_schedule())
    return tuned, watch(study, name, folder, section_of(wanted), retune=True, pad=pad)


def section_of(section: WatchSection | Mapping[str, Any] | None) -> WatchSection | None:
    """A [watch] section from Prefect's form, read as strictly as a file's; None where there is none.

    Raises:
        StudyInvalid: with the message that the same mistake in a file would get.
    """
    if section is None or isinstance(section, WatchSection):
        return section
    stated = {key: value for key, value in section.items() if value is not None}
    read: WatchSection = read_section(WatchSection, stated, "[watch]")
    return read


def watch(
    study: StudySpec, name: str, folder: str, wanted: WatchSection | None, *, retune: bool, pad: float
) -> Watched:
    """Check the released model once (with `retune` the newest edition's), warn, publish and, with `retune`, tune
    anew at an alarm; inside whatever flow runs it.
    """
    flow, section = PrivateFlow.begin(study, folder, pad), wanted or study.watch or WatchSection()
    warnings = flow.warnings
    if retune:
        study = newest_edition(study, flow.run, section, name)
    with alive(flow.stores.running):
        looked = _take_look(study, flow, name, section)
        (account,) = flow.run.ledger.accounts(study.privacy.dataset)
        announce_stage(study.name, "the look is recorded; MLflow's page follows")
        tracked = warnings.tried(
            "the look is recorded, but MLflow does not show it",
            lambda: publish_looks(looked, account, flow.stores.tracking),
        )
        if looked.alarm:
            warnings.tried("Prefect was not told of the alarm", lambda: _alarm(study, looked))
        n_tasks = 2 if looked.replayed else 3  # prepare look, look (unless it was recorded), publish looks
        warnings.tried("Prefect's record of the run may lack tasks", lambda: wait_until_recorded(n_tasks))
    tuned = _retuned(study, folder, looked, warnings) if retune and looked.alarm else None
    return Watched(looked, tracked, tuned, tuple(warnings.lines))


def _take_look(study: StudySpec, flow: PrivateFlow, name: str, section: WatchSection) -> Look:
    """One look (private check) called `name`: taken now, a watch's first charged, or read back if recorded."""
    announce_stage(study.name, f"preparing look {name}")
    opened = prepare_look(study, flow.run, flow.stores.vaults, name, section)
    if isinstance(opened, Look):
        return opened
    announce_stage(study.name, "looking at today's records")
    answer = look(opened, flow.run, flow.stores.vaults)
    if isinstance(answer, BudgetRefused):
        raise announce_refusal(answer, study)
    return answer


def _alarm(study: StudySpec, looked: Look) -> None:
    """Warn in the run's log of an alarm, and emit an event that automations can listen to."""
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


def _retuned(study: StudySpec, folder: str, looked: Look, warnings: Warnings) -> Tuned | None:
    """Tune the study anew as an edition named after the look; None and a warning where its budget refuses."""
    try:
        return tune(PrivateFlow.begin(replace(study, edition=looked.name), folder).on_schedule())
    except BudgetRefused as refused:
        warning = DpboError(
            f"the alarm stands, and was not followed by a tune: {refused.what}", remedy=refused.remedy
        )
        warnings.add(warning.message())
        return None
