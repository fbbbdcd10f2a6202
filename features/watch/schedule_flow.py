"""The story of a watch on a schedule: each run is one look, called by its slot in UTC; missed ones are skipped."""

import os
from datetime import UTC
from pathlib import Path
from typing import Any

from prefect import get_run_logger
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed

from dpbo.features.watch.flow import look_line, section_of, watch
from dpbo.features.watch.recorded_looks import WatchOver
from dpbo.features.watch.watching import plan_watch
from dpbo.flows.prefect_runtime.liveness import follow
from dpbo.flows.prefect_runtime.settings import refuse_folder_settings
from dpbo.flows.private_flow import consent, refuse_fields, scheduled_study
from dpbo.flows.run_end import ended, slug
from dpbo.flows.serve import (
    SERVER_VARIABLE,
    STUDY_DIGEST_VARIABLE,
    Schedule,
    failure_line,
    fired_at,
    missed_state,
    overtaken,
    print_line,
    served,
)
from dpbo.flows.stores import Stores
from dpbo.tasks import policies
from dpbo_core.errors import DpboError
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import filled_at
from dpbo_core.study import WatchSection
from dpbo_core.study.spec import read_study

ALARM_STATE = "Over: an alarm ended it"
TIME_SLOT = "{time}"  # a scheduled look is called by the UTC time at which it was due, to the second


@policies.private_flow(name="watch on schedule", **policies.FLOW_OPTIONS)
def watch_on_schedule(study: str, wanted: WatchSection | None = None) -> State[Any]:
    """A scheduled look (private check) as Prefect's state: completed, refused, over, skipped; a retry is the same.

    Args:
        study: path of the study file, relative to where the schedule is served.
        wanted: drop, ε and the rest, instead of the study's [watch].

    Returns:
        Completed; "Refused: budget" or "Refused: policy" as a tune's; or, cancelled and named so, "Over: an alarm
        ended it" after the last look of a watch, and "Skipped: missed" where a later run was due already.
    """
    follow(os.environ.get(SERVER_VARIABLE))
    refuse_folder_settings(Path())
    fired = fired_at().astimezone(UTC)
    if overtaken(fired):
        return ended(missed_state())
    path, spec = Path(study), None
    try:
        spec = scheduled_study(path, os.environ.get(STUDY_DIGEST_VARIABLE))
        refuse_fields(spec)
        section = (section_of(wanted) or spec.watch or WatchSection()).at(fired)
        watched = watch(spec, filled_at(TIME_SLOT, fired), str(path.parent), section)
    except WatchOver as over:
        get_run_logger().warning("%s", over.message())
        print_line(f"{ALARM_STATE}. {over.message()}")
        return ended(Cancelled(name=ALARM_STATE, message=over.message()))
    except DpboError as error:
        return failure_line(error, spec or study)
    return Completed(message=print_line(look_line(watched)))


def serve_watch(path: Path, wanted: WatchSection | None, schedule: Schedule) -> None:
    """Run a watch of a study by `schedule` from this machine, until it is stopped."""
    spec = read_study(path)
    refuse_fields(spec)
    plan = plan_watch(spec, ledger=PrivacyLedger(Stores().ledger), folder=path.parent, section=wanted)
    consent(spec, plan.useless, may_ask=False)
    section = None if wanted is None else wanted.to_table()
    parameters = {"study": os.path.relpath(path), "wanted": section}
    served(watch_on_schedule, path, parameters, schedule, each="a look", name=f"watch-{slug(spec.name)}")
