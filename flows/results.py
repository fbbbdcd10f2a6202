"""What a private tune and a private evaluation give back."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo_core.privacy.release import StudyResult

if TYPE_CHECKING:
    from dpbo_core.report.evaluation import EvaluationResult


@dataclass(frozen=True)
class Tuned:
    """A study's result and where it is shown: None if MLflow failed, and `warnings` state what to do.

    `evaluation` and `shown` are the same of its last step, where its [evaluation] states a price.
    """

    result: StudyResult
    tracked: Tracked | None
    warnings: tuple[str, ...] = ()
    evaluation: "EvaluationResult | None" = None
    shown: Tracked | None = None


@dataclass(frozen=True)
class Evaluated:
    """A report and where it is shown: None if MLflow failed, and `warnings` state what to do."""

    result: "EvaluationResult"
    tracked: Tracked | None
    warnings: tuple[str, ...] = ()
