"""The story of a private tune: reserve, one task a step, finish, show what was released."""

from dataclasses import dataclass

from prefect import flow

from dpbo_core.study import StudyResult, StudySpec
from flows.progress import Progress
from flows.settings import Stores, check_prefect_settings
from tasks import policies
from tasks.finish import finish
from tasks.publish import publish
from tasks.reserve import reserve
from tasks.step import step
from tasks.tracking import Tracked


@dataclass(frozen=True)
class Tuned:
    """A study's result and where it is shown."""

    result: StudyResult
    tracked: Tracked


@flow(name="tune privately", **policies.FLOW)
def tune_privately(study: StudySpec, folder: str = ".") -> Tuned:
    """Run a study privately; call it on its own or as a subflow of your flow.

    Args:
        study: what to tune; its price is its own (ε, δ), charged to its dataset's budget before any record is read.
        folder: the folder that the study's data paths are relative to.

    Returns:
        The release, recorded in the ledger and shown in MLflow. The same study again gives the same release.

    Raises:
        StudyInvalid, BudgetRefused, AssumptionNotAccepted: nothing was charged.
        Sealed: a step failed; run the study again and it continues.
    """
    check_prefect_settings()
    stores = Stores()
    stores.make_folder()
    run = reserve(study, folder, stores.ledger)
    if run.replay is None:
        with Progress(study.name, run.n_steps) as progress:
            for _ in range(run.n_steps):
                progress.show(step(run))
    result = finish(run)
    return Tuned(result, publish(result.release, stores.tracking))
