"""The feature as the core asks for it (`dpbo_core.models.enforced.EnforcedPrediction`)."""

from typing import Any

from numpy.typing import NDArray

from dpbo.features.isolation.available import check_enforceable, seconds_expected
from dpbo.features.isolation.enforced_model import Alone, alone
from dpbo_core.models.enforced import ModulesNeeded
from dpbo_core.models.scores.record import RecordScore


class Enforced:
    """Every record predicted and scored in a process of its own."""

    def check(self) -> None:
        """Refuse a machine that cannot confine a process to predicting one record."""
        check_enforceable()

    def seconds_expected(self, n_records: int, n_models: int) -> float:
        """Return the estimated seconds of scoring every record in its own process on this machine."""
        return seconds_expected(n_records, n_models)

    def alone(
        self,
        estimator: Any,
        rows: NDArray[Any],
        truth: NDArray[Any],
        score: RecordScore,
        *,
        needed_by: ModulesNeeded,
    ) -> Alone:
        """Return the fitted estimator with a process per record, tried on PUBLIC rows (n, d) with truth (n,)."""
        return alone(estimator, rows, truth, score, needed_by=needed_by)


ENFORCED = Enforced()
