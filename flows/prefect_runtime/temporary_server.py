"""A Prefect server for one command, where none is configured: nobody else gets in, and it ends with the command.

Prefect would start one itself, open to every local user, again in each process of its task runners, and left behind
by a command that is killed. This one is one for all of them: they are told its address and its password with the
flow's settings, through pipes between processes of this user or Dask's TLS.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from dpbo.flows.prefect_runtime.liveness import current_flow_run
from dpbo.flows.prefect_runtime.loopback import taken
from dpbo.flows.prefect_runtime.prefect_child import SHORT, address_of, awaited, not_started, start
from dpbo.flows.prefect_runtime.settings import default_home, prefect_settings

if TYPE_CHECKING:
    from dpbo.flows.prefect_runtime.child_process import Leashed

STDERR = 2
_OURS: ContextVar[bool] = ContextVar("Prefect's server ends with this command", default=False)
PATIENCE = 5.0  # seconds; nothing of a study depends on what Prefect recorded


@contextmanager
def locked_server(meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Context with a Prefect server: the configured one, in a flow the flow's, or one of this run with a password;
    `meanwhile` is called while it starts.

    The password is in memory, and in the environments of the server and of this run's task processes.

    It starts before Prefect itself is loaded here, where its folder is known without.

    Args:
        meanwhile: what is done while the server starts.

    Raises:
        DpboError: the server could not be started.
    """
    home = default_home()
    if home is None:
        current = prefect_settings()
        if current.api.url is not None or current_flow_run() is not None:
            meanwhile()
            yield
            return
        home = current.home.resolve()
    password = secrets.token_urlsafe(32)
    child, port = _started(password, home, meanwhile)
    from prefect import settings

    ours = {settings.PREFECT_API_URL: address_of(port), settings.PREFECT_API_AUTH_STRING: password}
    try:
        with settings.temporary_settings(ours):
            token = _OURS.set(True)
            try:
                yield
            finally:
                _OURS.reset(token)
                _send_what_is_left()
    finally:
        child.close()


def ends_with_us() -> bool:
    """Whether this flow's server is this command's own, so that it has no page to look at."""
    return _OURS.get()


def _started(password: str, home: Path, meanwhile: Callable[[], object]) -> "tuple[Leashed, int]":
    """Start a server, call `meanwhile`, and wait for its first answer: the child process and its port."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    listening = taken(0)
    port = 0 if listening is None else int(listening.getsockname()[1])
    if listening is not None:
        with listening:  # the server's alone from then on: where it has died, nobody waits for an answer
            child = start(listening, auth=password, home=home, log=STDERR, extra=SHORT)
        try:
            meanwhile()
        except BaseException:
            child.close()
            raise
        if awaited(child, port):
            return child, port
    raise not_started(port, "what it wrote is above; dpbo doctor looks at the installation")


def _send_what_is_left() -> None:
    """Send the events and log lines that Prefect's threads still hold, and end these threads."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        worker.drain_all(timeout=PATIENCE, at_exit=False)
