"""Differentially private Bayesian optimisation: the core, free of Prefect and MLflow.

What is listed here is the public interface; every other module may change from one version to the next. Everything
is imported on first use, so that `import dpbo_core` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpbo_core.errors import AlreadySpent as AlreadySpent
    from dpbo_core.errors import AssumptionNotAccepted as AssumptionNotAccepted
    from dpbo_core.errors import BudgetExceeded as BudgetExceeded
    from dpbo_core.errors import BudgetRefused as BudgetRefused
    from dpbo_core.errors import DpboError as DpboError
    from dpbo_core.errors import LedgerDamaged as LedgerDamaged
    from dpbo_core.errors import NoBudget as NoBudget
    from dpbo_core.errors import NoScoresLeft as NoScoresLeft
    from dpbo_core.errors import Sealed as Sealed
    from dpbo_core.errors import StudyInvalid as StudyInvalid
    from dpbo_core.ledger.accounting.account import PrivacyBudget as PrivacyBudget
    from dpbo_core.ledger.ledger import PrivacyLedger as PrivacyLedger
    from dpbo_core.ledger.outside_spends import Budget as Budget
    from dpbo_core.privacy.release import Release as Release
    from dpbo_core.privacy.release import StudyResult as StudyResult
    from dpbo_core.report.evaluation import EvaluationResult as EvaluationResult
    from dpbo_core.report.evaluation import evaluate_study as evaluate_study
    from dpbo_core.report.evaluation import plan_evaluation as plan_evaluation
    from dpbo_core.report.evaluation import run_and_evaluate as run_and_evaluate
    from dpbo_core.search.search_space import Categorical as Categorical
    from dpbo_core.search.search_space import Integer as Integer
    from dpbo_core.search.search_space import Real as Real
    from dpbo_core.sklearn_api.private_search import PrivateSearch as PrivateSearch
    from dpbo_core.sklearn_api.private_selection import PrivateSelection as PrivateSelection
    from dpbo_core.study import StudySpec as StudySpec
    from dpbo_core.study import WatchSection as WatchSection
    from dpbo_core.study.final_training import FinalModel as FinalModel
    from dpbo_core.study.resolve import advise_study as advise_study
    from dpbo_core.study.resolve import plan_study as plan_study
    from dpbo_core.study.spec import read_study as read_study
    from dpbo_core.study.tuning import open_study as open_study
    from dpbo_core.study.tuning import run_study as run_study
    from dpbo_core.theorems.event_price import calibrate as calibrate
    from dpbo_core.theorems.event_price import price as price

_NAMES_OF = {  # by module
    "errors": "AlreadySpent AssumptionNotAccepted BudgetExceeded BudgetRefused DpboError LedgerDamaged NoBudget "
    "NoScoresLeft Sealed StudyInvalid",
    "ledger.accounting.account": "PrivacyBudget",
    "ledger.ledger": "PrivacyLedger",
    "ledger.outside_spends": "Budget",
    "privacy.release": "Release StudyResult",
    "report.evaluation": "EvaluationResult evaluate_study plan_evaluation run_and_evaluate",
    "search.search_space": "Categorical Integer Real",
    "sklearn_api.private_search": "PrivateSearch",
    "sklearn_api.private_selection": "PrivateSelection",
    "study": "StudySpec WatchSection",
    "study.final_training": "FinalModel",
    "study.resolve": "advise_study plan_study",
    "study.spec": "read_study",
    "study.tuning": "open_study run_study",
    "theorems.event_price": "calibrate price",
}
_HOME = dict(sorted((name, module) for module, names in _NAMES_OF.items() for name in names.split()))
__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"dpbo_core.{_HOME[name]}"), name)
    raise AttributeError(f"module 'dpbo_core' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
