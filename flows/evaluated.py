"""What a private evaluation gives back."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbo.tasks.reporting.shown import Tracked

if TYPE_CHECKING:
    from dpbo_core.evaluation.run import EvaluationResult


@dataclass(frozen=True)
class Evaluated:
    """A report and where it is shown: None where MLflow failed, and `warnings` say what to do."""

    result: "EvaluationResult"
    tracked: Tracked | None
    warnings: tuple[str, ...] = ()
