"""How every private flow begins: Prefect is set up safely, the stores are open, the owner's policy is asked.

What fails beside a release is a warning here, and never a reason to keep the release from whoever paid for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self, TypeVar

from dpbo.flows.owner import asked_by, at_the_terminal, caller, refuse_job_variables
from dpbo.flows.prefect_runtime.liveness import current_flow_run, run_logger
from dpbo.flows.prefect_runtime.run_server import is_temporary
from dpbo.flows.prefect_runtime.settings import check_prefect_settings
from dpbo.flows.stores import Stores
from dpbo.flows.useless_spend import ask_or_refuse, refuse
from dpbo.tasks.reporting.mlflow_lookup import check_target
from dpbo_core.errors import DpboError
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import MODEL, file_source
from dpbo_core.preparation.preconditions import check_policy
from dpbo_core.preparation.run import Run
from dpbo_core.scoring.partitioned import Workers
from dpbo_core.study_file import StudySpec

T = TypeVar("T")
AGAIN = (
    "mend it and run the same command again: it publishes, draws nothing and spends nothing; dpbo show prints the "
    "release at any time"
)


class Warnings:
    """What could not be done beside a release: a line each, in the order it happened, and in the run's log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        """Add a warning, and log it, unless it is there already."""
        if line and line not in self.lines:
            self.lines.append(line)
            run_logger().warning("%s", line)

    def tried(self, what: str, work: Callable[[], T]) -> T | None:
        """Do `work`: its result, or where it fails None and the warning `what` without foreign error text."""
        try:
            return work()
        except DpboError as error:
            line = f"{what}. {error.message()}"
        except Exception as error:  # noqa: BLE001  what failed is public work, and the release is recorded
            line = DpboError(f"{what} ({type(error).__name__})", remedy=AGAIN).message()
        self.add(line)
        return None


@dataclass(frozen=True, eq=False, repr=False)
class PrivateFlow:
    """One private flow under way.

    Attributes:
        study: as written.
        run: which ledger pays, who asks, in which folder.
        stores: where the ledger, the vaults and MLflow's store are.
        warnings: what could not be done beside the release.
        registers: whether the final model becomes a version of MLflow's registered model of the study's name.
    """

    study: StudySpec
    run: Run
    stores: Stores
    warnings: Warnings
    registers: bool = False

    @classmethod
    def begin(cls, study: StudySpec, folder: str, time_quantum: float = 0.0, *, model: str | None = None) -> Self:
        """Check Prefect's settings and the owner's policy, and begin a study's flow; no data is opened yet.

        Nothing will be charged where MLflow can never show a release of the dataset; where it cannot now, it warns.

        Args:
            study: as written.
            folder: the folder that its data paths are relative to.
            time_quantum: seconds; tasks on sensitive data take a whole number of them.
            model: the folder of a saved model that is evaluated in the place of the study's own.

        Raises:
            DpboError: Prefect's settings would show what is private. PolicyRefused: the owner's policy says no.
        """
        check_prefect_settings()
        stores, warnings = Stores(), Warnings()
        stores.make_folder()
        ledger = PrivacyLedger(stores.ledger)
        run = Run(
            ledger,
            folder,
            caller=caller(ledger),
            time_quantum=time_quantum,
            before_charge=lambda: warnings.add(check_target(study.privacy.dataset, stores.tracking)),
            consent=partial(ask_or_refuse if at_the_terminal() else refuse, study),
            asked_by=asked_by(),
            steps_seen=current_flow_run() is not None and not is_temporary(),
        )
        if run.caller is not Caller.OWNER:
            refuse_job_variables()
        check_policy(study, run, *(() if model is None else (file_source(model, MODEL),)))
        return cls(study, run, stores, warnings)

    def on_schedule(self) -> Self:
        """This flow as a schedule's run, whose search begins with earlier runs' releases."""
        return replace(self, run=replace(self.run, scheduled=True))

    def scored_by(self, workers: Workers | None) -> Run:
        """This flow's `Run`, with `workers` (None: this process) to score a validation set of many files."""
        return replace(self.run, workers=workers)
