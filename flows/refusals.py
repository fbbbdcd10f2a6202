"""How a run ends that was refused or cannot go on: a state with a name, an event, and no stack trace."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpbo.flows.prefect_page import add_outcome, emit
from dpbo.flows.prefect_runtime.liveness import current_flow_run, run_logger
from dpbo_core.errors import BudgetRefused, DpboError, PolicyRefused
from dpbo_core.study import StudySpec

if TYPE_CHECKING:
    from prefect.client.schemas.objects import State

BUDGET, POLICY, FAILED = "Refused: budget", "Refused: policy", "Failed"
OUTCOMES = {BUDGET: "refused by the budget", POLICY: "refused by the policy", FAILED: "failed"}  # in a run's name
PACKAGE = __name__.partition(".")[0] + "."  # our flows are in dpbo.flows and in dpbo.features
REFUSAL_EVENT = "dpbo.run.refused"  # the event
FLOW_RUN_VARIABLE = "PREFECT__FLOW_RUN_ID"  # set by a worker, and by prefect.serve


def state_name(error: DpboError) -> str:
    """Return the name of the state in which a run ends that raised this error."""
    if isinstance(error, PolicyRefused):
        return POLICY
    return BUDGET if isinstance(error, BudgetRefused) else FAILED


def failed_run(error: DpboError, study: object) -> Any:
    """Return the state in which a flow ends that raised an error of ours: cancelled by the budget, or failed.

    Whoever called the flow gets the error raised. Nothing of it is stored, whatever the caller's flow stores.
    """
    if not _is_own_flow():
        raise error
    from prefect.states import Cancelled, Failed

    message, bare = error.message(), error.with_traceback(None)
    name = state_name(error)
    with suppress(Exception):  # whoever waits for the run gets its message, whatever becomes of its name
        add_outcome(OUTCOMES[name])
    if isinstance(error, BudgetRefused):
        with suppress(Exception):  # and whatever becomes of the event
            emit(REFUSAL_EVENT, "study", getattr(study, "name", str(study)), _payload(error, study))
    run_logger().warning("%s", message)
    return ended((Cancelled if name == BUDGET else Failed)(name=name, message=message, data=bare))


def _is_own_flow() -> bool:
    if current_flow_run() is None:
        return False
    from prefect.context import FlowRunContext

    context = FlowRunContext.get()
    ours = context is not None and context.flow is not None and context.flow.fn.__module__
    return bool(ours) and str(ours).startswith(PACKAGE)


def ended(state: "State[Any]") -> "State[Any]":
    """Return the state in which a flow ends that did not complete; a process that exists for this run ends here.

    Prefect would log a stack trace there, of what a state raises that is none of success.
    """
    run = current_flow_run()
    if run is None or os.environ.get(FLOW_RUN_VARIABLE) != str(run.id):
        return state
    from prefect.client.orchestration import get_client
    from prefect.exceptions import Abort

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, state, force=True)
    end = Abort(state.message)
    end.state = state  # type: ignore[attr-defined]  # Prefect's engine reads it
    raise end


def _payload(refused: BudgetRefused, study: object) -> dict[str, Any]:
    facts = {"by": "policy" if isinstance(refused, PolicyRefused) else "budget", "says": refused.message()}
    if not isinstance(study, StudySpec):
        return facts
    return facts | {"dataset": study.privacy.dataset, "edition": study.edition, "method": study.method}
