"""What people look at: pictures and pages of a release, and what MLflow keeps. Nothing here imports Prefect."""

from dpbo.tasks.reporting.mlflow_run import Tracked, find_release, log_release

__all__ = ["Tracked", "find_release", "log_release"]
