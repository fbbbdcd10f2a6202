"""A study from its file to its release: resolved once, its split of the data, what is precomputed, its run.

Imported on first use: a command that reads a study file alone needs none of the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbo_core.study.resolve import advise_study as advise_study
    from dpbo_core.study.resolve import plan_study as plan_study
    from dpbo_core.study.run import open_study as open_study
    from dpbo_core.study.run import run_study as run_study
    from dpbo_core.study.study_file import read_study as read_study

_HOME = {
    "advise_study": "resolve",
    "open_study": "run",
    "plan_study": "resolve",
    "read_study": "study_file",
    "run_study": "run",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"dpbo_core.study.{_HOME[name]}"), name)
    raise AttributeError(f"module 'dpbo_core.study' has no attribute {name!r}")
