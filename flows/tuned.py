"""What a private tune gives back."""

from dataclasses import dataclass

from dpbo.tasks.reporting.shown import Tracked
from dpbo_core.study.replay import StudyResult


@dataclass(frozen=True)
class Tuned:
    """A study's result and where it is shown: None where MLflow failed, and `warnings` say what to do."""

    result: StudyResult
    tracked: Tracked | None
    warnings: tuple[str, ...] = ()
