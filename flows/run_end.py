"""How a run ends: its name, events and notes on Prefect's page, its release in MLflow, or its refusal.

A run that was refused or cannot go on ends in a state with a name, an event, and no stack trace. Whatever fails of
showing a recorded release is a warning, and the next run tries again: nothing here may keep a release from whoever
paid for it, and nothing here draws or spends.
"""

import math
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import NAMESPACE_OID, UUID, uuid5

from dpbo.flows.prefect_runtime.liveness import current_flow_run, run_logger
from dpbo.flows.private_flow import RERUN_HINT, PrivateFlow
from dpbo.tasks.reporting.document import in_markdown, interval, summary
from dpbo.tasks.reporting.mlflow_run import find_release
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo.tasks.reporting.overview import quotable
from dpbo.tasks.reporting.release_document import release_document
from dpbo.tasks.tuning import publish, train
from dpbo_core.errors import BudgetRefused, DpboError, PolicyRefused, printable
from dpbo_core.ledger.accounting.account import Account, Balance, balance_after
from dpbo_core.ledger.accounting.forecast import alert_share
from dpbo_core.privacy.release import Release, StudyResult, displayed_metric
from dpbo_core.study import StudySpec
from dpbo_core.study.final_training import FinalModel, model_is_public
from dpbo_core.study.tuning import ReplayedStudy, StudyRun

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

    from dpbo_core.report.evaluation import EvaluationResult


T = TypeVar("T")
RELEASED, NEARLY_SPENT, ALARM = "dpbo.release", "dpbo.budget.alert", "dpbo.watch.alarm"  # our events
SEPARATOR = " · "
RECORD_TIMEOUT_S = 10.0  # seconds; nothing of a study depends on what Prefect recorded
PAGE_SIZE = 200  # what Prefect's API returns at once
BUDGET, POLICY, FAILED = "Refused: budget", "Refused: policy", "Failed"
OUTCOMES = {BUDGET: "refused by the budget", POLICY: "refused by the policy", FAILED: "failed"}  # in a run's name
PACKAGE = __name__.partition(".")[0] + "."  # our flows are in dpbo.flows and in dpbo.features
REFUSAL_EVENT = "dpbo.run.refused"  # the event
FLOW_RUN_VARIABLE = "PREFECT__FLOW_RUN_ID"  # set by a worker, and by prefect.serve
UNNAMED_RUN_WARNING = "Prefect's page does not name this run"


def announce(release: Release, account: Account, tracked: Tracked | None, mlflow_page: str) -> None:
    """Show a release on Prefect's page, as an artifact and an event, and warn if its budget is nearly spent.

    The event's id is derived from the release's, and Prefect is asked whether it has it. So publishing again sends
    no second event or warning.
    """
    if current_flow_run() is None:
        return
    from prefect.artifacts import create_markdown_artifact

    balance = balance_after(account, release.release_id)
    text = summary(release_document(release, account=account))
    page = "Pictures, certificate and model in MLflow"
    link = () if tracked is None else (f"[{page}](<{mlflow_page}/{tracked.location}>)",)
    newest = [entry.edition for entry in account.entries if entry.study == release.study][-1:]
    key = f"release-{slug(release.study)}"  # whose page opens on what was written last
    create_markdown_artifact(
        key=key if release.edition in newest else f"{key}-{slug(release.edition)}",
        markdown="\n\n".join((text, *link)),
        description=in_markdown(f"What {release.study}, edition {release.edition}, released"),
    )
    event_id = uuid5(NAMESPACE_OID, f"{RELEASED} {release.release_id}")
    if _has_event(event_id):
        return
    emit(RELEASED, "study", release.study, _facts(release, balance), event_id=event_id)
    if balance is not None and balance.share >= alert_share():
        _alert(release, balance)


def _has_event(event_id: UUID) -> bool:
    """Whether Prefect's server holds an event of this id; it keeps events for seven days, unless set otherwise."""
    from prefect.client.orchestration import get_client
    from prefect.events.filters import EventFilter, EventIDFilter

    with get_client(sync_client=True) as client:
        return client.read_events(EventFilter(id=EventIDFilter(id=[event_id])), limit=1).total > 0


def _facts(release: Release, balance: Balance | None) -> dict[str, Any]:
    metric = displayed_metric(release)
    low, high = (None, None) if metric is None or metric.interval is None else metric.interval
    return {
        "release_id": release.release_id,
        "study": release.study,
        "edition": release.edition,
        "dataset": release.dataset,
        "metric": None if metric is None else metric.name,
        "score": None if metric is None else metric.value,
        "low": low,
        "high": high,
        "left": balance.remaining if balance is not None and math.isfinite(balance.remaining) else None,
    }


def one_line(result: "StudyResult | EvaluationResult") -> str:
    """Return the release in a line, for a run's state message: its first figures and strongest answers."""
    document = release_document(result.release)
    figures = [f"{row[0]} {row[1]}" for table in document.short_tables[:1] for row in table.rows]
    answers = [f"{fact.name} {fact.strong}" for fact in document.verdict_first if fact.strong]
    again = " (released before; nothing was spent now)" if result.replayed else ""
    return printable(f"edition {result.release.edition}: {', '.join((*figures, *answers))}{again}")


def with_message(value: T, result: "StudyResult | EvaluationResult") -> T:
    """Wrap `value`, for a flow to return, in a Prefect state whose message is the release in a line."""
    return with_text(value, one_line(result)) if current_flow_run() is not None else value


def with_text(value: T, text: str) -> T:
    """Wrap `value`, for a flow to return, in a Prefect state with this message; outside of a run it stays."""
    if current_flow_run() is None:
        return value
    from prefect.states import Completed

    return cast("T", Completed(data=value, message=text))


def slug(name: str) -> str:
    """Return a study's name reduced to the letters that Prefect allows in a key."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "study"


def _alert(release: Release, balance: Balance) -> None:
    run_logger().warning(
        "dataset %s: ε = %.4g of %.4g is spent (%.0f%%); budget is never refunded",
        release.dataset,
        balance.spent,
        balance.limit,
        100 * balance.share,
    )
    left = {"spent": balance.spent, "limit": balance.limit, "remaining": balance.remaining}
    emit(NEARLY_SPENT, "dataset", release.dataset, left | {"study": release.study, "edition": release.edition})


def emit(event: str, kind: str, name: str, payload: dict[str, Any], *, event_id: UUID | None = None) -> None:
    """Emit an event about the study or dataset (`kind`) of this name, for automations; nothing outside a run.

    Prefect keeps one event of an id: `event_id`, or a new one.
    """
    if current_flow_run() is None:
        return
    from prefect.events import emit_event

    resource = {"prefect.resource.id": f"dpbo.{kind}.{slug(name)}", "prefect.resource.name": name}
    emit_event(event=event, resource=resource, payload=payload, id=event_id)


def name_run(*parts: str, **tags: str) -> None:
    """Name the current flow run "study · edition · what" and tag it with dataset, method and the study's folder.

    Nothing is done outside of a run. Set once it is known, since a template of Prefect's would render arguments.
    """
    run = current_flow_run()
    if run is None:
        return
    from prefect.client.orchestration import get_client

    named = dict.fromkeys([*run.tags, *(f"{kind}: {tag}" for kind, tag in tags.items())])
    with get_client(sync_client=True) as client:
        client.update_flow_run(run.id, name=SEPARATOR.join(filter(None, parts)), tags=list(named))


def tags_of(study: StudySpec, folder: str | Path) -> dict[str, str]:
    """Return the tags of a study's runs: its dataset, its method, and the name of the folder that it lies in."""
    return {"dataset": study.privacy.dataset, "method": study.method, "folder": folder_name(folder)}


def folder_name(folder: str | Path) -> str:
    """Return the name of a folder alone, without the folders above it."""
    return printable(Path(folder).resolve().name or "/")


def add_outcome(outcome: str) -> None:
    """Add the outcome to the current flow run's name, after a colon; a retry is named anew before it."""
    run = current_flow_run()
    if run is None:
        return
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        name = client.read_flow_run(run.id).name
        if not name.endswith(outcome):
            client.update_flow_run(run.id, name=f"{name}: {outcome}")


def outcome_of(account: Account, *releases: Release) -> str:
    """Return what a run's name ends with: the first number that its releases state, their ε, and what is left.

    The number has its 90% interval in brackets, if it has one.
    """
    text, number = "no score", next(filter(None, map(quotable, releases)), None)
    if number is not None:
        ends = "" if number.interval is None else f" ({interval(number.interval).replace(' to ', '–')})"
        text = f"{number.name} {number.value:.3g}{ends}"
    epsilon = sum(release.guarantee.epsilon for release in releases)
    return f"{text}, {price_and_rest(epsilon, account)}"


def price_and_rest(epsilon: float, account: Account) -> str:
    """Return the ε of a query and what is left of its dataset's budget: "ε 1 (3 left)"."""
    left = "no limit" if math.isinf(account.left) else f"{account.left:.3g} left"
    return f"ε {'∞' if math.isinf(epsilon) else f'{epsilon:g}'} ({left})"


def wait_until_recorded(n_tasks: int) -> None:
    """Wait, ten seconds at most and then go on, until Prefect shows `n_tasks` finished task runs of this flow run.

    Prefect records task runs a moment after they end; its temporary server would stop before it has.
    """
    run = current_flow_run()
    if run is None:
        return
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId

    here = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
    end = time.monotonic() + RECORD_TIMEOUT_S
    with get_client(sync_client=True) as client:
        while time.monotonic() < end:
            runs = client.read_task_runs(flow_run_filter=here, limit=PAGE_SIZE, offset=max(0, n_tasks - PAGE_SIZE))
            done = sum(run.state is not None and run.state.is_final() for run in runs)
            if done >= min(n_tasks, PAGE_SIZE):
                return
            time.sleep(0.1)


def state_name(error: DpboError) -> str:
    """Return the name of the state in which a run ends that raised this error."""
    if isinstance(error, PolicyRefused):
        return POLICY
    return BUDGET if isinstance(error, BudgetRefused) else FAILED


def failed_run(error: DpboError, study: object) -> Any:
    """Return the state in which a flow ends that raised an error of ours: cancelled by the budget, or failed.

    Whoever called the flow gets the error raised. Nothing of it is stored, whatever the caller's flow stores.
    """
    if not _is_own_flow():
        raise error
    from prefect.states import Cancelled, Failed

    message, bare = error.message(), error.with_traceback(None)
    name = state_name(error)
    with suppress(Exception):  # whoever waits for the run gets its message, whatever becomes of its name
        add_outcome(OUTCOMES[name])
    if isinstance(error, BudgetRefused):
        with suppress(Exception):  # and whatever becomes of the event
            emit(REFUSAL_EVENT, "study", getattr(study, "name", str(study)), _payload(error, study))
    run_logger().warning("%s", message)
    return ended((Cancelled if name == BUDGET else Failed)(name=name, message=message, data=bare))


def _is_own_flow() -> bool:
    if current_flow_run() is None:
        return False
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    ours = context is not None and context.flow is not None and context.flow.fn.__module__
    return bool(ours) and str(ours).startswith(PACKAGE)


def ended(state: "State[Any]") -> "State[Any]":
    """Return the state in which a flow ends that did not complete; a process that exists for this run ends here.

    Prefect would log a stack trace there, of what a state raises that is none of success.
    """
    run = current_flow_run()
    if run is None or os.environ.get(FLOW_RUN_VARIABLE) != str(run.id):
        return state
    from prefect.client.orchestration import get_client
    from prefect.exceptions import Abort

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, state, force=True)
    end = Abort(state.message)
    end.state = state  # type: ignore[attr-defined]  # Prefect's engine reads it
    raise end


def _payload(refused: BudgetRefused, study: object) -> dict[str, Any]:
    facts = {"by": "policy" if isinstance(refused, PolicyRefused) else "budget", "says": refused.message()}
    if not isinstance(study, StudySpec):
        return facts
    return facts | {"dataset": study.privacy.dataset, "edition": study.edition, "method": study.method}


def name_outcome(flow: PrivateFlow, *releases: Release) -> None:
    """Add the releases' number, their ε and what is left to the run's name in Prefect; a failure is a warning."""
    (account,) = flow.context.ledger.accounts(releases[0].dataset)
    flow.warnings.tried(UNNAMED_RUN_WARNING, lambda: add_outcome(outcome_of(account, *releases)))


def publish_release(
    flow: PrivateFlow, study: StudySpec, release: Release, opened: StudyRun | ReplayedStudy | None = None
) -> Tracked | None:
    """Show `release` in MLflow, its final model trained if need be, and Prefect: its MLflow page (None: failed)."""
    context, stores, warnings = flow.context, flow.stores, flow.warnings
    (account,) = context.ledger.accounts(study.privacy.dataset)

    def logged() -> Tracked:
        missing: tuple[str, ...] = ()
        model: FinalModel | None = None
        if find_release(release, stores.tracking) is None and model_is_public(release):
            before = len(warnings.lines)
            model = warnings.tried(
                "the final model could not be trained", lambda: train(study, context.folder, release, opened)
            )
            missing = ("the final model",) if len(warnings.lines) > before else ()
        return publish(release, account, stores.tracking, model, flow.registers, missing)

    tracked = warnings.tried("the release is recorded, but MLflow does not show it", logged)
    if tracked is not None and tracked.missing:
        lacks = ", ".join(tracked.missing)
        warnings.add(DpboError(f"MLflow shows the release without {lacks}", remedy=RERUN_HINT).message())
    warnings.tried(
        "Prefect's page does not show the release", lambda: announce(release, account, tracked, stores.mlflow_page)
    )
    return tracked
