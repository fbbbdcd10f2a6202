"""How every private flow begins: Prefect is set up safely, the stores are open, and it is known who asks.

What fails beside a release is a warning here, and never a reason to keep the release from whoever paid for it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeVar

from dpbo.flows.owner import asked_by, at_the_terminal, caller, refuse_job_variables
from dpbo.flows.prefect_runtime.liveness import current_flow_run, run_logger
from dpbo.flows.prefect_runtime.run_server import is_temporary
from dpbo.flows.prefect_runtime.settings import check_prefect_settings
from dpbo.flows.spend_consent import consent
from dpbo.flows.stores import Stores
from dpbo.tasks.reporting.mlflow_store import check_target
from dpbo_core.errors import DpboError
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.context import IfUseless, QueryContext
from dpbo_core.study.query import PrivateQuery, together

T = TypeVar("T")
RERUN_HINT = (
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
        """Return the result of `work`; if it fails, None, and the warning `what` is added without the
        error's text.
        """
        try:
            return work()
        except DpboError as error:
            line = f"{what}. {error.message()}"
        except Exception as error:  # noqa: BLE001  what failed is public work, and the release is recorded
            line = DpboError(f"{what} ({type(error).__name__})", remedy=RERUN_HINT).message()
        self.add(line)
        return None


@dataclass(frozen=True, eq=False, repr=False)
class PrivateFlow:
    """A running private flow."""

    context: QueryContext  # which ledger pays, who asks, in which folder
    stores: Stores  # where the ledger, the vaults and MLflow's store are
    warnings: Warnings  # what could not be done beside the release
    # whether the final model becomes a version of MLflow's registered model of the study's name
    registers: bool = False

    @classmethod
    def begin(cls, folder: str | Path, *, registers: bool = False) -> Self:
        """Check Prefect's settings and who started the run, and begin its flow; no data is opened yet."""
        check_prefect_settings()
        stores = Stores()
        stores.make_folder()
        ledger = PrivacyLedger(stores.ledger)
        context = QueryContext(
            ledger,
            folder,
            caller=caller(ledger),
            if_useless=IfUseless.REFUSE,
            asked_by=asked_by(),
            steps_seen=current_flow_run() is not None and not is_temporary(),
        )
        if context.caller is not Caller.OWNER:
            refuse_job_variables()
        return cls(context, stores, Warnings(), registers)

    def on_schedule(self) -> Self:
        """This flow as a schedule's run, whose search begins with earlier runs' releases."""
        return replace(self, context=replace(self.context, scheduled=True))

    def before_charge(self, study: StudySpec, context: QueryContext, *queries: PrivateQuery) -> QueryContext:
        """Return the context in which some queries may be charged, after the checks that precede a first charge.

        Nothing is charged where MLflow can never show a release of the dataset; where it cannot now, it warns.
        """
        if context.ledger.reserved(queries[0].key.fingerprint) is not None:
            return context
        if context.if_useless is not IfUseless.SPEND:
            agreed = consent(study, together(*queries), may_ask=at_the_terminal())
            context = replace(context, if_useless=agreed)
        self.warnings.add(check_target(study.privacy.dataset, self.stores.tracking))
        return context
