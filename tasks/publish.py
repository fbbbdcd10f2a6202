"""Show a recorded release in MLflow."""

from prefect import task

from dpbo_core.privacy.release import Release
from tasks import policies
from tasks.tracking import Tracked, log_release


@task(name="publish", **policies.PUBLISHING_TASK)
def publish(release: Release, tracking_uri: str) -> Tracked:
    """Log the release once; asked again, find what was logged."""
    return log_release(release, tracking_uri)
