"""A schedule outlives its Prefect server: told an outage from a fault, and waited for its end."""

import signal
import sys
import time

import httpx

from dpbo.flows.prefect_runtime.prefect_child import answers
from dpbo.flows.prefect_runtime.server import PAUSE

GIVEN_UP = "Service exceeded error threshold"  # what Prefect's runner raises after three polls without an answer


def behind(error: BaseException) -> bool:
    """Whether no server answering is among the causes that `error` groups."""
    if isinstance(error, BaseExceptionGroup):
        return any(behind(part) for part in error.exceptions)
    return isinstance(error, httpx.TransportError) or GIVEN_UP in str(error)


def wait(api: str) -> None:
    """Return when a server answers at `api`; a termination signal ends the process in good order."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the runner that had it is no more
    while not answers(api):
        time.sleep(PAUSE)
