"""What a run leaves on Prefect's page: the release as a table, a link to MLflow, an alert at 80% of a budget."""

import re
from contextlib import suppress
from typing import Any

from prefect import get_run_logger
from prefect.artifacts import create_link_artifact, create_table_artifact
from prefect.events import emit_event

from dpbo.tasks.reporting.literal import in_markdown
from dpbo.tasks.reporting.panels import ALERT
from dpbo.tasks.reporting.shown import Tracked
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.balance import Balance, balance_after
from dpbo_core.errors import BudgetRefused
from dpbo_core.privacy.metric_shown import metric_shown
from dpbo_core.privacy.release import Release
from dpbo_core.spec import StudySpec

NEARLY_SPENT, RUN_REFUSED, ALARM = "dpbo.budget.alert", "dpbo.run.refused", "dpbo.watch.alarm"  # our events


def announce(release: Release, account: Account, tracked: Tracked | None, mlflow_page: str) -> None:
    """Everything here was released: the table repeats the certificate's first lines."""
    key = f"release-{slug(release.study)}"
    balance = balance_after(account, release.release_id)
    create_table_artifact(
        key=key,
        table=rows(release, balance),
        description=in_markdown(f"{release.study}, edition {release.edition}. {release.guarantee.in_words()}"),
    )
    if tracked is not None:
        create_link_artifact(
            key=f"{key}-mlflow", link=f"{mlflow_page}/{tracked.location}", link_text="The release in MLflow"
        )
    if balance is not None and balance.share >= ALERT:
        _alert(account.budget.dataset, balance)


def rows(release: Release, balance: Balance | None) -> list[dict[str, Any]]:
    """Name and value, as people read them."""
    value = release.value
    table = dict(value.get("hyperparameters", {}))
    metric = metric_shown(release)
    if metric is not None:
        table[metric.name] = metric.value
    table |= {name: told["value"] for name, told in value.get("metrics", {}).items()}
    table |= {"epsilon": release.guarantee.to_json()["epsilon"], "delta": release.guarantee.delta}
    if balance is not None and balance.limit < float("inf"):
        table |= {"budget spent": balance.spent, "budget left": balance.remaining}
    return [{"name": name, "value": item} for name, item in table.items()]


def told_of(refused: BudgetRefused, study: StudySpec) -> BudgetRefused:
    """`refused`, after an event was emitted that an automation can listen to; it says what the message says."""
    with suppress(Exception):  # whoever waits for the run gets its message, whatever becomes of the event
        emit_event(
            event=RUN_REFUSED,
            resource={"prefect.resource.id": f"dpbo.study.{slug(study.name)}", "prefect.resource.name": study.name},
            payload={
                "dataset": study.privacy.dataset,
                "edition": study.edition,
                "method": study.method,
                "says": refused.message(),
            },
        )
    return refused


def slug(name: str) -> str:
    """A study's name in the letters that Prefect allows in a key."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "study"


def _alert(dataset: str, balance: Balance) -> None:
    """A warning in the run's log, and an event that an automation can listen to."""
    get_run_logger().warning(
        "dataset %s: ε = %.4g of %.4g is spent (%.0f%%); nothing is ever given back",
        dataset,
        balance.spent,
        balance.limit,
        100 * balance.share,
    )
    emit_event(
        event=NEARLY_SPENT,
        resource={"prefect.resource.id": f"dpbo.dataset.{slug(dataset)}", "prefect.resource.name": dataset},
        payload={"spent": balance.spent, "limit": balance.limit, "remaining": balance.remaining},
    )
