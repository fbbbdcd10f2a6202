"""What people look at: pictures and pages of a release, the one door to MLflow. Nothing here imports Prefect."""

from dpbo.tasks.reporting.mlflow_door import Tracked, find_release, log_release

__all__ = ["Tracked", "find_release", "log_release"]
