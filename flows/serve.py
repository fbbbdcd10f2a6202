"""The story of a schedule: each run is one edition of the study, tuned privately, or refused by name."""

import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import prefect
from prefect import settings
from prefect.client.orchestration import get_client
from prefect.client.schemas import filters
from prefect.client.schemas.objects import State
from prefect.deployments.runner import EntrypointType  # type: ignore[attr-defined]
from prefect.schedules import Cron, Interval
from prefect.states import Cancelled, Completed
from prefect.utilities.services import critical_service_loop

from dpbo.flows.prefect_runtime.flow_runs import current_flow_run, follow, prefect_settings, refuse_folder_settings
from dpbo.flows.prefect_runtime.run_server import answers
from dpbo.flows.prefect_runtime.schedule_server import POLL_INTERVAL_S, ScheduleServer, loopback_server
from dpbo.flows.private_flow import PrivateFlow, asked_by, check_fields, consent, edition_at, scheduled_study
from dpbo.flows.run_end import BUDGET, ended, failed_run, one_line, slug, state_name
from dpbo.flows.stores import STORES_FOLDER, Stores
from dpbo.flows.tune import tune
from dpbo.tasks import policies
from dpbo_core.errors import DpboError
from dpbo_core.ledger.accounting.admission import Price
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import is_pattern
from dpbo_core.report.study_price import price_of
from dpbo_core.study import StudySpec
from dpbo_core.study.editions import planned_for_schedule
from dpbo_core.study.preconditions import approve_study, check_step_times, refuse_beside
from dpbo_core.study.resolve import plan_study, resolve
from dpbo_core.study.run import Run, useless_study
from dpbo_core.study.spec import read_study, study_digest

if TYPE_CHECKING:
    from prefect.settings.legacy import Setting

MISSED_STATE = "Skipped: missed"
GRACE_PERIOD = timedelta(minutes=1)  # how late a run may be although the next one is due
SERVER_VARIABLE = "DPBO_SERVED_BY"  # the process of `dpbo serve`, told to the flow runs it starts
STUDY_DIGEST_VARIABLE = (
    "DPBO_SERVED_STUDY"  # SHA-256 of the study when serve began; a run inherits it from serve alone
)
OUTAGE_MESSAGE = "Service exceeded error threshold"  # of Prefect's runner, after three polls without an answer
RUN_POLL_INTERVAL_S = 2  # seconds between two looks for a run that is due


@policies.private_flow(name="tune on schedule", **policies.FLOW_OPTIONS)
def tune_on_schedule(study: str, register: bool = False) -> State[Any]:
    """Return a scheduled tune, as Prefect's state: completed, refused or skipped. A retry gives the same release.

    Args:
        study: path of the study file, relative to where the schedule is served.
        register: make each final model a version of the registered model of the study's name.

    Returns:
        Completed; "Refused: budget", cancelled, or "Refused: policy", failed, where nothing was charged; and
        "Skipped: missed", cancelled, where a later run was due already, so that missed ones never run in a burst.
    """
    follow(os.environ.get(SERVER_VARIABLE))
    refuse_folder_settings(Path())
    fired = fired_at()
    if overtaken(fired):
        return ended(missed_state())
    path, edition, lasting = Path(study), None, False
    try:
        written = scheduled_study(path, os.environ.get(STUDY_DIGEST_VARIABLE))
        lasting = not is_pattern(written.privacy.dataset)
        edition = edition_at(written, fired)
        flow = PrivateFlow.begin(path.parent, registers=register).on_schedule()
        result = tune(flow, Run.of(edition, flow.context)).result
    except DpboError as error:
        return failure_line(error, edition or study, lasting=lasting)
    return Completed(message=print_line(one_line(result)))


def failure_line(error: DpboError, study: StudySpec | str, *, lasting: bool = True) -> State[Any]:
    """Return the state of a scheduled run that an error ended; `dpbo serve` prints its name and message.

    After a budget refusal the schedule is paused, if it is `lasting`: the next run would be refused too.
    """
    print_line(f"{state_name(error)}. {error.message()}")
    run = current_flow_run()
    if lasting and state_name(error) == BUDGET and run is not None and run.auto_scheduled and run.deployment_id:
        with get_client(sync_client=True) as client:
            client.pause_deployment(run.deployment_id)
        print_line("The schedule is paused: its next runs would be refused too. dpbo serve starts it again.")
    state: State[Any] = failed_run(error, study)
    return state


def fired_at() -> datetime:
    """Return the UTC time at which this run was due by its schedule, or was started by hand."""
    run = current_flow_run()
    if run is None or run.expected_start_time is None:
        return datetime.now(UTC).replace(microsecond=0)
    return run.expected_start_time.astimezone(UTC)


def overtaken(fired: datetime) -> bool:
    """Whether a later scheduled run has been due for over a minute; if so, cancels all due runs but the last."""
    run = current_flow_run()
    if run is None or run.deployment_id is None or not run.auto_scheduled:
        return False
    now = datetime.now(UTC)
    later = filters.FlowRunFilter(
        deployment_id=filters.FlowRunFilterDeploymentId(any_=[run.deployment_id]),
        expected_start_time=filters.FlowRunFilterExpectedStartTime.model_validate(  # its own type of time varies
            {"after_": fired + timedelta(milliseconds=1), "before_": now}
        ),
    )
    with get_client(sync_client=True) as client:
        runs = [item for item in client.read_flow_runs(flow_run_filter=later) if item.auto_scheduled]
        due = sorted(runs, key=lambda item: item.expected_start_time or fired)
        if not due or (due[0].expected_start_time or now) > now - GRACE_PERIOD:
            return False
        # a process for each, only to end it, could take as long as the schedule's interval
        for missed in due[:-1]:
            if missed.state is not None and missed.state.is_scheduled():
                client.set_flow_run_state(missed.id, missed_state(), force=True)
    return True


def missed_state() -> State[Any]:
    """Prefect's state of a run that was skipped, since a later one was due."""
    return Cancelled(name=MISSED_STATE, message="A later run is due; this one spent nothing.")


def print_line(line: str) -> str:
    """Print `line` on the terminal of `dpbo serve`, and return it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
    return line


@contextmanager
def in_environment(name: str, value: str) -> Iterator[None]:
    """Context in which an environment variable is set for the processes started inside; it is unset at the end."""
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


@dataclass(frozen=True)
class Schedule:
    """When a flow runs, and on which Prefect server."""

    cron: str | None  # five fields, UTC; or
    every: float | None  # seconds between two runs. One of the two is set.
    port: int  # where a Prefect server is looked for or started
    trust: bool  # whether one may be used that asks nobody for a password

    def __str__(self) -> str:
        return f"cron {self.cron} (UTC)" if self.cron else f"every {self.every:g} s"


def serve(path: Path, schedule: Schedule, *, register: bool) -> None:
    """Tune an edition of the study at each time of `schedule`, from this machine, until it is stopped."""
    spec = read_study(path)
    check_fields(spec)
    refuse_beside(spec, path.parent)
    check_step_times(plan_study(spec, path.parent), seen=True)
    consent(spec, useless_study(spec, path.parent), may_ask=False)
    parameters = {"study": os.path.relpath(path), "register": register}
    spec = planned_for_schedule(spec, path.parent)
    price = price_of_run(spec, path.parent)
    each = f"an edition at {price.sums}" + (f"; {price.afterwards}" if price.afterwards else "")
    served(tune_on_schedule, path, parameters, schedule, each)


def price_of_run(spec: StudySpec, folder: Path) -> Price:
    """Return what each run of a schedule costs: its edition is new, also where the file's own was charged."""
    price = price_of(resolve(spec, folder), PrivacyLedger(Stores().ledger), folder)
    return replace(price, paid=False, changed="")


def served(
    scheduled: Any, path: Path, parameters: dict[str, Any], schedule: Schedule, each: str, name: str = ""
) -> None:
    """Approve the study in `path` as the owner, and run the flow `scheduled` on it at each time of `schedule` until
    stopped.

    `each` says what a run is, for people; `name` is of the deployment, the study's where "".
    """
    spec, stores = read_study(path), Stores()
    stores.make_folder()
    frozen = study_digest(path)
    approve_study(spec, ledger=PrivacyLedger(stores.ledger), folder=path.parent, owner=asked_by())
    home = prefect_settings().home
    with (
        in_environment(STUDY_DIGEST_VARIABLE, frozen),
        loopback_server(STORES_FOLDER.resolve(), port=schedule.port, home=home, trust=schedule.trust) as server,
        settings.temporary_settings(_settings(server)),
    ):
        os.environ[SERVER_VARIABLE] = str(os.getpid())
        interval = timedelta(seconds=schedule.every or 0.0)
        deployment = scheduled.to_deployment(
            name or slug(spec.name),
            schedule=Cron(schedule.cron, timezone="UTC") if schedule.cron else Interval(interval),
            parameters=parameters,
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        how = "started" if server.started else "found"
        asks = "" if server.password_file is None else f"Its page asks for the password in {server.password_file}\n"
        sys.stdout.write(
            f"{spec.name}: {schedule}; each run is {each}.\n"
            f"Prefect ({how}): {server.api.removesuffix('/api')}  (Ctrl-C stops and pauses the schedule)\n{asks}"
        )
        sys.stdout.flush()
        warnings.filterwarnings("ignore", message="coroutine 'Runner.astop'")  # Prefect's own, when it is stopped
        hide_tracebacks()
        while True:
            try:
                prefect.serve(deployment, limit=1, print_starting_message=False)
            except Exception as error:
                if not is_outage(error):
                    raise
                print_line(f"No Prefect server answers at {server.api}; the schedule goes on when one does.")
                signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the runner that had it is no more
                while not answers(server.api):
                    time.sleep(POLL_INTERVAL_S)
                print_line(f"A Prefect server answers again; {spec.name} is served.")
            else:
                return


def hide_tracebacks() -> None:
    """Silence, in this whole process, what Prefect's runner and asyncio log while no server answers."""
    for name in ("prefect.FlowRunCancellingObserver", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with suppress(ImportError):  # a Prefect that has it elsewhere traces as it does
        poller: Any = import_module("prefect.runner._scheduled_run_poller")
        poller.critical_service_loop = partial(critical_service_loop, printer=lambda *_: None)


def is_outage(error: BaseException) -> bool:
    """Return whether an error, or one in its group, means that no server answered."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_outage(part) for part in error.exceptions)
    return isinstance(error, httpx.TransportError) or OUTAGE_MESSAGE in str(error)


def _settings(server: ScheduleServer) -> "dict[Setting, Any]":
    now = prefect_settings()
    return {
        settings.PREFECT_LOGGING_SETTINGS_PATH: now.logging.config_path,  # as they are now, whatever lies in the
        settings.PREFECT_PROFILES_PATH: now.profiles_path,  # folder when a run starts
        settings.PREFECT_API_URL: server.api,
        settings.PREFECT_RUNNER_POLL_FREQUENCY: RUN_POLL_INTERVAL_S,
        settings.PREFECT_RUNNER_SERVER_ENABLE: False,  # a runner's own server would ask nobody for a password
        **({} if server.auth is None else {settings.PREFECT_API_AUTH_STRING: server.auth}),
    }
