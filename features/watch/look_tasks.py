"""A look of a watch: what is public of it is one task; the spend, the records and the draw are another."""

from pathlib import Path

from dpbo.features.watch.looks import OpenLook, open_look
from dpbo.features.watch.mlflow_timeline import log_looks
from dpbo.features.watch.recorded_looks import Look
from dpbo.tasks import policies
from dpbo.tasks.policies import private_task
from dpbo.tasks.reporting.mlflow_lookup import Tracked
from dpbo_core.errors import BudgetRefused
from dpbo_core.ledger.accounting.account import Account
from dpbo_core.study import StudySpec, WatchSection
from dpbo_core.study.context import QueryContext


@private_task(name="prepare look", **policies.SENSITIVE_TASK)
def prepare_look(
    study: StudySpec, context: QueryContext, vaults: Path, name: str, section: WatchSection
) -> OpenLook | Look:
    """Make a look (private check) ready, uncharged, or read the recorded one; destroys a finished watch's noise."""
    return open_look(study, context, name=name, section=section, vaults=vaults)


@private_task(name="look", **policies.SENSITIVE_TASK)
def look(opened: OpenLook, context: QueryContext, vaults: Path) -> Look | BudgetRefused:
    """Charge the watch once, draw noise, compare today's score, record the result; a refusal is returned."""
    return policies.or_refused(lambda: opened.finish(context, vaults))


@private_task(name="show the looks", **policies.PUBLISHING_TASK)
def publish_looks(looked: Look, account: Account, tracking_uri: str) -> Tracked:
    """Log in MLflow the looks (private checks) of a watch that are not there yet, and its price: where they are."""
    return log_looks(looked, account, tracking_uri)
