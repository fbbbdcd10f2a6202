"""`rowwise = "enforced"`: what the core asks of the feature that scores each record in a process of its own.

Without that feature such a study is refused; it is never scored in another way.
"""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from dpbo_core.errors import StudyInvalid
from dpbo_core.models.scores.kinds import RecordScore
from dpbo_core.privacy.named_parts import declared, load

# modules that a pickle names → modules that predicting needs
ModulesNeeded = MutableMapping[tuple[str, ...], tuple[str, ...]]


class IsolatedModel(Protocol):
    """Scores records one by one, each in a process of its own. It holds public things only."""

    def scores(self, rows: NDArray[Any], truth: NDArray[Any], score: RecordScore) -> NDArray[Any]:
        """Return each record's score in [0, G], (m,) float64; 0 if its process fails."""


@dataclass(frozen=True)
class EnforcedPrediction:
    """The feature, as three functions."""

    check: Callable[[], None]  # refuses a machine that cannot confine a process to predicting one record
    seconds_expected: Callable[[int, int], float]  # of scoring so many records by so many models on this machine
    # gives a fitted estimator a process per record, tried on PUBLIC rows (n, d): (estimator, rows, truth, score,
    # needed_by=ModulesNeeded)
    alone: Callable[..., IsolatedModel]


def enforced_prediction() -> EnforcedPrediction:
    """Return the installed feature."""
    value = declared("dpbo.rowwise").get("enforced")
    if value is None:
        raise StudyInvalid(
            'rowwise = "enforced" needs the feature isolation, and this installation has none',
            cause="it was left out when dpbo was built",
            remedy="install dpbo whole; or name an estimator that dpbo knows to predict each row alone",
        )
    return load(value)  # type: ignore[no-any-return]
