"""What a run leaves on Prefect's page: its name, what was released, and events for who must know."""

import math
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import NAMESPACE_OID, UUID, uuid5

from dpbo.flows.prefect_runtime.liveness import current_flow_run, run_logger
from dpbo.tasks.reporting.budget_alert import alert_share
from dpbo.tasks.reporting.document import in_markdown, markdown
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo.tasks.reporting.overview import quotable
from dpbo.tasks.reporting.release_document import release_document
from dpbo_core.errors import printable
from dpbo_core.ledger.accounting.account import Account, Balance, balance_after
from dpbo_core.privacy.release import Release, StudyResult, displayed_metric
from dpbo_core.study import StudySpec

if TYPE_CHECKING:
    from dpbo_core.report.evaluation import EvaluationResult

T = TypeVar("T")
RELEASED, NEARLY_SPENT, ALARM = "dpbo.release", "dpbo.budget.alert", "dpbo.watch.alarm"  # our events
SEPARATOR = " · "
RECORD_TIMEOUT_S = 10.0  # seconds; nothing of a study depends on what Prefect recorded
PAGE_SIZE = 200  # what Prefect's API returns at once


def announce(release: Release, account: Account, tracked: Tracked | None, mlflow_page: str) -> None:
    """Show a release on Prefect's page, as an artifact and an event, and warn if its budget is nearly spent.

    The event's id is derived from the release's, and Prefect is asked whether it has it. So publishing again sends
    no second event or warning.
    """
    if current_flow_run() is None:
        return
    from prefect.artifacts import create_markdown_artifact

    balance = balance_after(account, release.release_id)
    text = markdown(release_document(release, account=account))
    page = "The release in MLflow, with picture, certificate and model"
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
    answers = [f"{fact.name} {fact.strong}" for fact in document.answers if fact.strong]
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
    """Return what a run's name ends with: the first number that its releases state, their ε, and what is left."""
    numbers = [number.value for number in map(quotable, releases) if number is not None]
    epsilon = sum(release.guarantee.epsilon for release in releases)
    return f"{f'{numbers[0]:.3g}' if numbers else 'no score'}, {price_and_rest(epsilon, account)}"


def price_and_rest(epsilon: float, account: Account) -> str:
    """Return the ε of a query and what is left of its dataset's budget: "ε 1, 3 left"."""
    left = "no limit" if math.isinf(account.left) else f"{account.left:.3g} left"
    return f"ε {'∞' if math.isinf(epsilon) else f'{epsilon:g}'}, {left}"


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
