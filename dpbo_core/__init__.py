"""Differentially private Bayesian optimisation: the core, free of Prefect and MLflow.

What is listed here is the public interface; every other module may change from one version to the next. Everything
is imported on first use, so that `import dpbo_core` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbo_core.accounting.budget import PrivacyBudget as PrivacyBudget
    from dpbo_core.errors import AssumptionNotAccepted as AssumptionNotAccepted
    from dpbo_core.errors import BudgetExceeded as BudgetExceeded
    from dpbo_core.errors import BudgetRefused as BudgetRefused
    from dpbo_core.errors import DpboError as DpboError
    from dpbo_core.errors import LedgerDamaged as LedgerDamaged
    from dpbo_core.errors import NoBudget as NoBudget
    from dpbo_core.errors import NoScoresLeft as NoScoresLeft
    from dpbo_core.errors import Sealed as Sealed
    from dpbo_core.errors import StudyInvalid as StudyInvalid
    from dpbo_core.final_model.train import FinalModel as FinalModel
    from dpbo_core.ledger.ledger import PrivacyLedger as PrivacyLedger
    from dpbo_core.preparation.resolve import advise_study as advise_study
    from dpbo_core.preparation.resolve import plan_study as plan_study
    from dpbo_core.privacy.release import Release as Release
    from dpbo_core.privacy.release import StudyResult as StudyResult
    from dpbo_core.queries.evaluation.run import EvaluationResult as EvaluationResult
    from dpbo_core.queries.evaluation.run import evaluate_study as evaluate_study
    from dpbo_core.queries.evaluation.run import plan_evaluation as plan_evaluation
    from dpbo_core.queries.evaluation.run import run_and_evaluate as run_and_evaluate
    from dpbo_core.queries.tuning.run import open_study as open_study
    from dpbo_core.queries.tuning.run import run_study as run_study
    from dpbo_core.queries.watch.looks import look_once as look_once
    from dpbo_core.queries.watch.recorded_looks import Look as Look
    from dpbo_core.queries.watch.watching import plan_watch as plan_watch
    from dpbo_core.sklearn_api.private_objective import PrivateObjective as PrivateObjective
    from dpbo_core.sklearn_api.private_search import PrivateSearch as PrivateSearch
    from dpbo_core.sklearn_api.private_selection import PrivateSelection as PrivateSelection
    from dpbo_core.space.search_space import Categorical as Categorical
    from dpbo_core.space.search_space import Integer as Integer
    from dpbo_core.space.search_space import Real as Real
    from dpbo_core.study_file import StudySpec as StudySpec
    from dpbo_core.study_file import WatchSection as WatchSection
    from dpbo_core.study_file.toml_file import read_study as read_study

_HOME = {
    "AssumptionNotAccepted": "errors",
    "BudgetExceeded": "errors",
    "BudgetRefused": "errors",
    "Categorical": "space.search_space",
    "DpboError": "errors",
    "EvaluationResult": "queries.evaluation.run",
    "FinalModel": "final_model.train",
    "Integer": "space.search_space",
    "LedgerDamaged": "errors",
    "Look": "queries.watch.recorded_looks",
    "NoBudget": "errors",
    "NoScoresLeft": "errors",
    "PrivacyBudget": "accounting.budget",
    "PrivacyLedger": "ledger.ledger",
    "PrivateObjective": "sklearn_api.private_objective",
    "PrivateSearch": "sklearn_api.private_search",
    "PrivateSelection": "sklearn_api.private_selection",
    "Real": "space.search_space",
    "Release": "privacy.release",
    "Sealed": "errors",
    "StudyInvalid": "errors",
    "StudyResult": "privacy.release",
    "StudySpec": "study_file",
    "WatchSection": "study_file",
    "advise_study": "preparation.resolve",
    "evaluate_study": "queries.evaluation.run",
    "look_once": "queries.watch.looks",
    "open_study": "queries.tuning.run",
    "plan_evaluation": "queries.evaluation.run",
    "plan_study": "preparation.resolve",
    "plan_watch": "queries.watch.watching",
    "read_study": "study_file.toml_file",
    "run_and_evaluate": "queries.evaluation.run",
    "run_study": "queries.tuning.run",
}
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"dpbo_core.{_HOME[name]}"), name)
    raise AttributeError(f"module 'dpbo_core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
