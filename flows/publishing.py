"""A recorded release is shown where people look: whatever fails of that is a warning, and the next run tries again.

Nothing here may keep a release from whoever paid for it, and nothing here draws or spends.
"""

from dpbo.flows.prefect_page import add_outcome, announce, outcome_of
from dpbo.flows.private_flow import RERUN_HINT, PrivateFlow
from dpbo.tasks.reporting.mlflow_run import find_release
from dpbo.tasks.reporting.mlflow_store import Tracked
from dpbo.tasks.tuning import publish, train
from dpbo_core.errors import DpboError
from dpbo_core.privacy.release import Release
from dpbo_core.study import StudySpec
from dpbo_core.study.final_training import FinalModel, model_is_public
from dpbo_core.study.tuning import ReplayedStudy, StudyRun

UNNAMED_RUN_WARNING = "Prefect's page does not name this run"


def name_outcome(flow: PrivateFlow, *releases: Release) -> None:
    """Add the releases' number, their ε and what is left to the run's name in Prefect; a failure is a warning."""
    (account,) = flow.context.ledger.accounts(releases[0].dataset)
    flow.warnings.tried(UNNAMED_RUN_WARNING, lambda: add_outcome(outcome_of(account, *releases)))


def publish_release(
    flow: PrivateFlow, study: StudySpec, release: Release, opened: StudyRun | ReplayedStudy | None = None
) -> Tracked | None:
    """Show `release` in MLflow, its final model trained if need be, and Prefect: its MLflow page (None: failed)."""
    context, stores, warnings = flow.context, flow.stores, flow.warnings
    (account,) = context.ledger.accounts(study.privacy.dataset)

    def logged() -> Tracked:
        missing: tuple[str, ...] = ()
        model: FinalModel | None = None
        if find_release(release, stores.tracking) is None and model_is_public(release):
            before = len(warnings.lines)
            model = warnings.tried(
                "the final model could not be trained", lambda: train(study, context.folder, release, opened)
            )
            missing = ("the final model",) if len(warnings.lines) > before else ()
        return publish(release, account, stores.tracking, model, flow.registers, missing)

    tracked = warnings.tried("the release is recorded, but MLflow does not show it", logged)
    if tracked is not None and tracked.missing:
        lacks = ", ".join(tracked.missing)
        warnings.add(DpboError(f"MLflow shows the release without {lacks}", remedy=RERUN_HINT).message())
    warnings.tried(
        "Prefect's page does not show the release", lambda: announce(release, account, tracked, stores.mlflow_page)
    )
    return tracked
