"""One look of a watch: what is public of it in one task, then the draw, the table and the bit in another."""

from pathlib import Path

from prefect import task

from dpbo.tasks import policies
from dpbo.tasks.reporting.mlflow_lookup import Tracked
from dpbo.tasks.reporting.study_series import log_looks
from dpbo_core.accounting.account import Account
from dpbo_core.errors import BudgetRefused
from dpbo_core.preparation.run import Run
from dpbo_core.queries.watch.looks import OpenLook, open_look
from dpbo_core.queries.watch.recorded_looks import Look
from dpbo_core.study_file import StudySpec, WatchSection


@task(name="prepare look", **policies.SENSITIVE_TASK)
def prepare_look(study: StudySpec, run: Run, vaults: Path, name: str, section: WatchSection) -> OpenLook | Look:
    """A look (private check) made ready: model trained, table's header checked; or the recorded one."""
    return open_look(study, run, name=name, section=section, vaults=vaults)


@task(name="look", **policies.SENSITIVE_TASK)
def look(opened: OpenLook, run: Run, vaults: Path) -> Look | BudgetRefused:
    """Draw noise, compare today's score with the threshold, record the result; a refusal is returned."""
    return policies.or_refused(lambda: opened.finish(run, vaults))


@task(name="show the looks", **policies.PUBLISHING_TASK)
def publish_looks(looked: Look, account: Account, tracking_uri: str) -> Tracked:
    """Log each look (private check) of a watch once, and its price, in MLflow: the page."""
    return log_looks(looked, account, tracking_uri)
