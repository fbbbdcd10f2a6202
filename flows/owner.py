"""Whether the owner of the data started this run, or somebody who may start runs through Prefect.

It is said by the process that calls the flow, never by a flow's parameter or an environment variable, which whoever
may start a run could give; a run that a worker or a served deployment begins is nobody's who said so.
"""

import getpass
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING

from dpbo.flows.prefect_runtime.liveness import current_flow_run
from dpbo.flows.prefect_runtime.run_server import run_server
from dpbo.tasks.policies import without_prefect
from dpbo_core.errors import PolicyRefused, printable
from dpbo_core.ledger.charge import Caller
from dpbo_core.ledger.ledger import PrivacyLedger

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

_OWNER: ContextVar[bool] = ContextVar("the owner of the data started this run", default=False)


@contextmanager
def owners_terminal() -> Iterator[None]:
    """Return a context in which called flows act for the data's owner, as in `dpbo tune`: for the owner's scripts.

    Such flows may open a budget cap and record files. If no Prefect server is configured, the script gets its own,
    behind a password.

    Raises:
        DpboError: that server could not be started.
    """
    with nullcontext() if without_prefect() else run_server(), acting_as_owner():
        yield


@contextmanager
def acting_as_owner() -> Iterator[None]:
    """Context in which called flows act for the data's owner, on whichever Prefect server there is, or none."""
    token = _OWNER.set(True)
    try:
        yield
    finally:
        _OWNER.reset(token)


def refuse_job_variables() -> None:
    """Refuse a run that was started with job variables of its own, or inside one that was.

    They set the environment of a work pool's process, and with it which ledger pays and which study was fixed by
    its hash. A deployment's own are from who made it, who is trusted as the worker is.

    Raises:
        PolicyRefused: it has some.
    """
    run = current_flow_run()
    while run is not None:
        if run.job_variables:
            raise PolicyRefused(
                "this run was started with job variables of its own, which can name another ledger or study",
                cause="whoever started it gave some; a private run is started as its deployment says",
                remedy="start it without, or let the owner of the data run the study with dpbo tune",
            )
        run = _parent(run)


def _parent(run: "FlowRun") -> "FlowRun | None":
    from prefect.client.orchestration import get_client

    if run.parent_task_run_id is None:
        return None
    with get_client(sync_client=True) as client:
        called = client.read_task_run(run.parent_task_run_id).flow_run_id
        return None if called is None else client.read_flow_run(called)


def at_the_terminal() -> bool:
    """Return whether the owner's own process called this flow."""
    return _OWNER.get()


def caller(ledger: PrivacyLedger) -> Caller:
    """The owner where the owner's process called this flow, as the user who owns the ledger; else an operator."""
    return Caller.OWNER if at_the_terminal() and ledger.is_ours else Caller.OPERATOR


def check_owner(flow: str) -> None:
    """Refuse (PolicyRefused, which names `flow`) unless the data's owner's own process called this flow.

    Raises:
        PolicyRefused: Prefect started it, and nothing was opened.
    """
    if not at_the_terminal():
        raise PolicyRefused(
            f"{flow} is not allowed by the owner's policy",
            cause="its parameters name files and folders, and a run that Prefect started may only name a study's",
            remedy="its owner calls it inside `with dpbo.owners_terminal():`",
        )


def asked_by() -> str:
    """Who started this run, for the ledger: account and host; of a flow run its creator and deployment.

    What Prefect says of a run is the word of whoever may start runs; the account and the host are this process's.
    """
    account = f"uid {os.getuid()}"
    with suppress(KeyError, OSError, ImportError):
        account = getpass.getuser()
    here = f"{account} on {socket.gethostname()}"
    run = current_flow_run()
    if at_the_terminal() or run is None:
        return here
    creator = (
        "nobody by name" if run.created_by is None else str(run.created_by.display_value or run.created_by.type)
    )
    deployment = "no deployment" if run.deployment_id is None else f"deployment {run.deployment_id}"
    return printable(f"Prefect's run of {creator}, {deployment}, by {here}")
