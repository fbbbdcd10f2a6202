"""Private hyperparameter search as Prefect flows: what a program calls, and the `dpbo` command.

What is listed here is the public interface, beside that of `dpbo_core`. `flows/` and `tasks/` lie at the top of the
sources; links in this folder give them the names that they have when installed. Everything is imported on first
use, so that `import dpbo` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbo.flows.evaluate import Evaluated as Evaluated
    from dpbo.flows.evaluate import evaluate_privately as evaluate_privately
    from dpbo.flows.objective import close_privately as close_privately
    from dpbo.flows.objective import score_privately as score_privately
    from dpbo.flows.outsource import Outsourcing as Outsourcing
    from dpbo.flows.outsource import outsource as outsource
    from dpbo.flows.prefect_runtime.owner import owners_terminal as owners_terminal
    from dpbo.flows.serve import tune_on_schedule as tune_on_schedule
    from dpbo.flows.tune import Tuned as Tuned
    from dpbo.flows.tune import tune_privately as tune_privately
    from dpbo.flows.watch import Watched as Watched
    from dpbo.flows.watch import tune_and_watch as tune_and_watch
    from dpbo.flows.watch import watch_privately as watch_privately
    from dpbo.flows.watch_schedule import watch_on_schedule as watch_on_schedule

_HOME = {
    "Evaluated": "evaluate",
    "Outsourcing": "outsource",
    "Tuned": "tune",
    "Watched": "watch",
    "close_privately": "objective",
    "evaluate_privately": "evaluate",
    "outsource": "outsource",
    "owners_terminal": "prefect_runtime.owner",
    "score_privately": "objective",
    "tune_and_watch": "watch",
    "tune_on_schedule": "serve",
    "tune_privately": "tune",
    "watch_on_schedule": "watch_schedule",
    "watch_privately": "watch",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"dpbo.flows.{_HOME[name]}"), name)
    raise AttributeError(f"module 'dpbo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
