"""A recorded release is shown where people look: whatever fails of that is a warning, and the next run tries again.

Nothing here may keep a release from whoever paid for it, and nothing here draws or spends.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

from prefect import get_run_logger

from dpbo.flows.prefect_runtime.owner import at_the_terminal
from dpbo.flows.prefect_runtime.prefect_page import announce
from dpbo.flows.prefect_runtime.settings import Stores
from dpbo.tasks.reporting.mlflow_lookup import Tracked, check_target
from dpbo.tasks.reporting.mlflow_run import find_release
from dpbo.tasks.tuning import publish, train
from dpbo_core.errors import DpboError, printable
from dpbo_core.final_model.train import FinalModel, model_is_public
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.privacy.release import Release
from dpbo_core.queries.tuning.run import ReplayedStudy, StudyRun
from dpbo_core.study_file import StudySpec

T = TypeVar("T")
UNNAMED = "Prefect's page does not name this run"
AGAIN = (
    "mend it and run the same command again: it publishes, draws nothing and spends nothing; dpbo show prints the "
    "release at any time"
)


class Warnings:
    """What could not be done beside a release: a line each, in the order it happened, and in the run's log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Once, however often it happens."""
        if line and line not in self.lines:
            self.lines.append(line)
            get_run_logger().warning("%s", line)

    def at_once(self, line: str) -> None:
        """Before anything is spent: at the owner's terminal on standard error, while it can still be stopped."""
        if line and at_the_terminal():
            sys.stderr.write(f"dpbo: warning: {printable(line)}\n")
            sys.stderr.flush()
            get_run_logger().warning("%s", line)
        else:
            self.add(line)

    def tried(self, what: str, work: Callable[[], T]) -> T | None:
        """The result of `work`; or None and a warning: the words of our own errors, of others the type."""
        try:
            return work()
        except DpboError as error:
            line = f"{what}. {error.message()}"
        except Exception as error:  # noqa: BLE001  what failed is public work, and the release is recorded
            line = DpboError(f"{what} ({type(error).__name__})", remedy=AGAIN).message()
        self.add(line)
        return None


def ready_for(dataset: str, stores: Stores, warnings: Warnings) -> None:
    """Asked before a study is charged for the first time: could its release be shown?

    Raises:
        DpboError: no waiting would mend it, so nothing is charged.
    """
    warnings.add(check_target(dataset, stores.tracking))


def publish_release(
    study: StudySpec,
    folder: str,
    run: StudyRun | ReplayedStudy | None,
    release: Release,
    stores: Stores,
    warnings: Warnings,
    *,
    register: bool,
) -> Tracked | None:
    """Train what was chosen, show the release in MLflow and on Prefect's page; None if MLflow does not show it."""
    (account,) = PrivacyLedger(stores.ledger).accounts(study.privacy.dataset)

    def shown() -> Tracked:
        missing: tuple[str, ...] = ()
        model: FinalModel | None = None
        if find_release(release, stores.tracking) is None and model_is_public(release):
            before = len(warnings.lines)
            model = warnings.tried(
                "the final model could not be trained", lambda: train(study, folder, release, run)
            )
            missing = ("the final model",) if len(warnings.lines) > before else ()
        return publish(release, account, stores.tracking, model, register, missing)

    tracked = warnings.tried("the release is recorded, but MLflow does not show it", shown)
    if tracked is not None and tracked.missing:
        lacks = ", ".join(tracked.missing)
        warnings.add(DpboError(f"MLflow shows the release without {lacks}", remedy=AGAIN).message())
    warnings.tried(
        "Prefect's page does not show the release",
        lambda: announce(release, account, tracked, stores.mlflow_page),
    )
    return tracked
