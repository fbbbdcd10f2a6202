"""What a run leaves on Prefect's page: what was released, with a link to MLflow; an alert at 80% of a budget."""

import re
from collections.abc import Iterator
from contextlib import suppress

from prefect import get_run_logger
from prefect.artifacts import create_markdown_artifact
from prefect.events import emit_event

from dpbo.tasks.reporting.certificate_words import meaning, values_shown
from dpbo.tasks.reporting.literal import in_markdown
from dpbo.tasks.reporting.panels import ALERT
from dpbo.tasks.reporting.shown import Tracked
from dpbo_core.accounting.accounts import Account
from dpbo_core.accounting.balance import Balance, balance_after
from dpbo_core.errors import BudgetRefused
from dpbo_core.privacy.release import Release
from dpbo_core.spec import StudySpec

NEARLY_SPENT, RUN_REFUSED, ALARM = "dpbo.budget.alert", "dpbo.run.refused", "dpbo.watch.alarm"  # our events


def announce(release: Release, account: Account, tracked: Tracked | None, mlflow_page: str) -> None:
    """One artifact a study, a version of it an edition; everything in it was released."""
    balance = balance_after(account, release.release_id)
    create_markdown_artifact(
        key=f"release-{slug(release.study)}",
        markdown="\n\n".join(_paragraphs(release, balance, tracked, mlflow_page)),
        description=in_markdown(f"What {release.study}, edition {release.edition}, released"),
    )
    if balance is not None and balance.share >= ALERT:
        _alert(account.budget.dataset, balance)


def _paragraphs(
    release: Release, balance: Balance | None, tracked: Tracked | None, mlflow_page: str
) -> Iterator[str]:
    yield f"**{in_markdown(f'{release.study} · edition {release.edition} · {release.method}')}**"
    yield "\n".join(
        ("| released | |", "|---|---|", *(f"| {in_markdown(n)} | {in_markdown(x)} |" for n, x in rows(release)))
    )
    yield f"{in_markdown(release.guarantee.in_words())} {meaning(release)}"  # the latter is ours, to the last word
    if balance is not None and balance.limit < float("inf"):
        yield (
            f"{in_markdown(release.dataset)}: ε {balance.spent:.4g} of {balance.limit:g} is spent, and "
            f"{balance.remaining:.4g} is left."
        )
    if tracked is not None:
        yield f"[The release in MLflow](<{mlflow_page}/{tracked.location}>), with picture, certificate and model."


def rows(release: Release) -> list[tuple[str, str]]:
    """Name and value, as the certificate has them; of a report every figure."""
    figures = release.value.get("metrics", {})
    if figures:
        return [(name.replace("_", " "), f"{told['value']}") for name, told in figures.items()]
    return list(values_shown(release))


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
