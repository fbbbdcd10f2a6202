"""One look of a watch: what is public of it in one task, then the draw, the table and the bit in another."""

from collections.abc import Callable
from pathlib import Path

from prefect import task

from dpbo.tasks import policies
from dpbo.tasks.reporting.mlflow_lookup import CheckedLedger, Tracked
from dpbo.tasks.reporting.study_series import log_looks
from dpbo_core.errors import BudgetRefused
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.queries.watch.looks import OpenLook, open_look
from dpbo_core.queries.watch.recorded_looks import Look
from dpbo_core.study_file import StudySpec, WatchSection


@task(name="prepare look", **policies.SENSITIVE_TASK)
def prepare_look(
    study: StudySpec, folder: str | Path, ledger_url: str, vaults: Path, name: str, wanted: WatchSection
) -> OpenLook | Look:
    """Train the released model, check the table's header and size; or find the bit that was recorded."""
    return open_look(
        study, ledger=PrivacyLedger(ledger_url), name=name, folder=folder, section=wanted, vaults=vaults
    )


@task(name="look", **policies.SENSITIVE_TASK)
def look(
    opened: OpenLook, ledger_url: str, vaults: Path, pad: float, ready: Callable[[], None], *, owner: bool
) -> Look | BudgetRefused:
    """Draw, read today's table once, compare, record; or the ledger's refusal, which is an answer.

    `ready` is asked before a first charge, and may refuse by raising.
    """
    return policies.or_refused(
        lambda: opened.finish(CheckedLedger(ledger_url, ready), vaults, pad=pad, owner=owner)
    )


@task(name="show the looks", **policies.PUBLISHING_TASK)
def publish_looks(looked: Look, tracking_uri: str) -> Tracked:
    """The timeline of a watch's bits, each look once."""
    return log_looks(looked, tracking_uri)
