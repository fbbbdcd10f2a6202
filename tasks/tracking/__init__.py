"""The one door to MLflow, and what stands behind it: the store, the numbers, the model."""

from tasks.tracking.door import Tracked, find_release, log_release

__all__ = ["Tracked", "find_release", "log_release"]
