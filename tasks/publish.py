"""Show a recorded release in MLflow."""

from prefect import task

from dpbo_core.accounting.accounts import Account
from dpbo_core.final_model import FinalModel
from dpbo_core.privacy.release import Release
from tasks import policies
from tasks.tracking import Tracked, log_release


@task(name="publish", **policies.PUBLISHING_TASK)
def publish(
    release: Release,
    account: Account,
    tracking_uri: str,
    model: FinalModel | None,
    registered: bool,
    missing: tuple[str, ...] = (),
) -> Tracked:
    """Log the release once; asked again, find what was logged. `missing` is what could not be made of it."""
    return log_release(release, account, tracking_uri, model=model, registered=registered, missing=missing)
