"""Differentially private Bayesian optimisation: the core, free of Prefect and MLflow.

Everything here is imported on first use, so that `import dpbo_core` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbo_core.accounting.budget import PrivacyBudget
    from dpbo_core.accounting.ledger import PrivacyLedger
    from dpbo_core.privacy.release import Release
    from dpbo_core.sklearn_api.private_search import PrivateSearch
    from dpbo_core.space.search_space import Categorical, Integer, Real
    from dpbo_core.spec import StudySpec
    from dpbo_core.study.resolve import plan_study
    from dpbo_core.study.run import StudyResult, run_study
    from dpbo_core.study.study_file import read_study

__all__ = [
    "Categorical",
    "Integer",
    "PrivacyBudget",
    "PrivacyLedger",
    "PrivateSearch",
    "Real",
    "Release",
    "StudyResult",
    "StudySpec",
    "plan_study",
    "read_study",
    "run_study",
]

_HOME = {
    "Categorical": "space.search_space",
    "Integer": "space.search_space",
    "PrivacyBudget": "accounting.budget",
    "PrivacyLedger": "accounting.ledger",
    "PrivateSearch": "sklearn_api.private_search",
    "Real": "space.search_space",
    "Release": "privacy.release",
    "StudyResult": "study.run",
    "StudySpec": "spec",
    "plan_study": "study.resolve",
    "read_study": "study.study_file",
    "run_study": "study.run",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"dpbo_core.{_HOME[name]}"), name)
    raise AttributeError(f"module 'dpbo_core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
