"""Private hyperparameter search as Prefect flows: everything that a program calls, and the `dpbo` command.

What is listed here is the public interface. What needs no Prefect lies in `dpbo_core`, and has this name too.
`flows/`, `tasks/` and `features/` lie at the top of the sources; links in this folder give them the names that they
have when installed. A feature declares its names in pyproject.toml. Everything is imported on first use, so that
`import dpbo` costs next to nothing.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import dpbo_core

if TYPE_CHECKING:
    from dpbo.features.objective.private_objective import PrivateObjective as PrivateObjective
    from dpbo.features.outsourced.flow import Outsourcing as Outsourcing
    from dpbo.features.outsourced.flow import outsource as outsource
    from dpbo.features.private_training.private_trials import PrivateTrials as PrivateTrials
    from dpbo.features.private_training.trial_families import Declared as Declared
    from dpbo.features.private_training.trial_families import DpSgd as DpSgd
    from dpbo.features.private_training.trial_families import Event as Event
    from dpbo.features.private_training.trial_families import PureDp as PureDp
    from dpbo.features.private_training.trial_families import Zcdp as Zcdp
    from dpbo.features.watch.flow import Watched as Watched
    from dpbo.features.watch.flow import watch_privately as watch_privately
    from dpbo.features.watch.looks import look_once as look_once
    from dpbo.features.watch.recorded_looks import Look as Look
    from dpbo.features.watch.schedule_flow import watch_on_schedule as watch_on_schedule
    from dpbo.features.watch.watching import plan_watch as plan_watch
    from dpbo.flows.evaluate import Evaluated as Evaluated
    from dpbo.flows.evaluate import evaluate_privately as evaluate_privately
    from dpbo.flows.private_flow import owners_terminal as owners_terminal
    from dpbo.flows.serve import tune_on_schedule as tune_on_schedule
    from dpbo.flows.tune import Tuned as Tuned
    from dpbo.flows.tune import tune_file as tune_file
    from dpbo.flows.tune import tune_privately as tune_privately
    from dpbo_core import AlreadySpent as AlreadySpent
    from dpbo_core import AssumptionNotAccepted as AssumptionNotAccepted
    from dpbo_core import Budget as Budget
    from dpbo_core import BudgetExceeded as BudgetExceeded
    from dpbo_core import BudgetRefused as BudgetRefused
    from dpbo_core import Categorical as Categorical
    from dpbo_core import DpboError as DpboError
    from dpbo_core import EvaluationResult as EvaluationResult
    from dpbo_core import FinalModel as FinalModel
    from dpbo_core import Integer as Integer
    from dpbo_core import LedgerDamaged as LedgerDamaged
    from dpbo_core import NoBudget as NoBudget
    from dpbo_core import NoScoresLeft as NoScoresLeft
    from dpbo_core import PrivacyBudget as PrivacyBudget
    from dpbo_core import PrivacyLedger as PrivacyLedger
    from dpbo_core import PrivateSearch as PrivateSearch
    from dpbo_core import PrivateSelection as PrivateSelection
    from dpbo_core import Real as Real
    from dpbo_core import Release as Release
    from dpbo_core import Sealed as Sealed
    from dpbo_core import StudyInvalid as StudyInvalid
    from dpbo_core import StudyResult as StudyResult
    from dpbo_core import StudySpec as StudySpec
    from dpbo_core import WatchSection as WatchSection
    from dpbo_core import advise_study as advise_study
    from dpbo_core import calibrate as calibrate
    from dpbo_core import evaluate_study as evaluate_study
    from dpbo_core import open_study as open_study
    from dpbo_core import plan_evaluation as plan_evaluation
    from dpbo_core import plan_study as plan_study
    from dpbo_core import price as price
    from dpbo_core import read_study as read_study
    from dpbo_core import run_and_evaluate as run_and_evaluate
    from dpbo_core import run_study as run_study

_HOME = {
    "Evaluated": "evaluate",
    "Tuned": "tune",
    "evaluate_privately": "evaluate",
    "owners_terminal": "private_flow",
    "tune_file": "tune",
    "tune_on_schedule": "serve",
    "tune_privately": "tune",
}


def _declared() -> Mapping[str, str]:
    """Return the names that installed features declare, each with its home."""
    from dpbo_core.privacy.named_parts import declared

    return declared("dpbo.names")


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"dpbo.flows.{_HOME[name]}"), name)
    if name in dpbo_core.__all__:
        return getattr(dpbo_core, name)
    if name == "__all__":
        return [*dict.fromkeys([*_HOME, *_declared(), *dpbo_core.__all__])]
    if name in _declared():
        from dpbo_core.privacy.named_parts import load

        return load(_declared()[name])
    raise AttributeError(f"module 'dpbo' has no attribute {name!r}, and no installed feature declares it")


def __dir__() -> list[str]:
    return sorted([*_HOME, *_declared(), *dpbo_core.__all__])
