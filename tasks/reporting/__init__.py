"""What people look at: pictures and pages of a release, and what MLflow keeps. Nothing here imports Prefect.

Imported on first use: whoever asks where a release is shown needs neither pictures nor models.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbo.tasks.reporting.mlflow_lookup import Tracked as Tracked
    from dpbo.tasks.reporting.mlflow_run import find_release as find_release
    from dpbo.tasks.reporting.mlflow_run import log_release as log_release

_HOME = {"Tracked": "mlflow_lookup", "find_release": "mlflow_run", "log_release": "mlflow_run"}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"dpbo.tasks.reporting.{_HOME[name]}"), name)
    raise AttributeError(f"module 'dpbo.tasks.reporting' has no attribute {name!r}")
