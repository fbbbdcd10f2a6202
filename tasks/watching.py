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
    """Make a look (private check) ready, uncharged, or read the recorded one; destroys a finished watch's noise."""
    return open_look(study, run, name=name, section=section, vaults=vaults)


@task(name="look", **policies.SENSITIVE_TASK)
def look(opened: OpenLook, run: Run, vaults: Path) -> Look | BudgetRefused:
    """Charge the watch once, draw noise, compare today's score, record the result; a refusal is returned."""
    return policies.or_refused(lambda: opened.finish(run, vaults))


@task(name="show the looks", **policies.PUBLISHING_TASK)
def publish_looks(looked: Look, account: Account, tracking_uri: str) -> Tracked:
    """Log in MLflow the looks (private checks) of a watch that are not there yet, and its price: where they are."""
    return log_looks(looked, account, tracking_uri)
