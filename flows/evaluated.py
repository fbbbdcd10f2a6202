"""What a private evaluation gives back."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpbo.tasks.reporting.mlflow_lookup import Tracked

if TYPE_CHECKING:
    from dpbo_core.queries.evaluation.run import EvaluationResult


@dataclass(frozen=True)
class Evaluated:
    """A report and where it is shown: None where MLflow failed, and `warnings` say what to do.

    `champion` says what became of the registered model's alias, where that was asked for.
    """

    result: "EvaluationResult"
    tracked: Tracked | None
    warnings: tuple[str, ...] = ()
    champion: str = ""
