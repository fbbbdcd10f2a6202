"""A Prefect server for one command, where none is configured: nobody else gets in, and it ends with the command.

Prefect would start one itself, open to every local user, again in each process of its task runners, and left behind
by a command that is killed. This one is one for all of them: they are told its address and its password with the
flow's settings, through pipes between processes of this user or Dask's TLS.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dpbo.flows.prefect_runtime.listening import taken
from dpbo.flows.prefect_runtime.prefect_child import SHORT, address_of, awaited, not_started, start

if TYPE_CHECKING:
    from dpbo.flows.prefect_runtime.leash import Leashed

STDERR = 2
PATIENCE = 5.0  # seconds; nothing of a study depends on what Prefect recorded


@contextmanager
def locked_server(meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
    """While it is open Prefect's clients have a server: the configured one, or one of this run behind a password.

    The password is in memory, and in the environments of the server and of this run's task processes.

    Args:
        meanwhile: what is done while the server starts.

    Raises:
        DpboError: the server could not be started.
    """
    from prefect import settings

    if settings.get_current_settings().api.url is not None:
        meanwhile()
        yield
        return
    password = secrets.token_urlsafe(32)
    child, port = _started(password, meanwhile)
    ours = {settings.PREFECT_API_URL: address_of(port), settings.PREFECT_API_AUTH_STRING: password}
    try:
        with settings.temporary_settings(ours):
            try:
                yield
            finally:
                _send_what_is_left()
    finally:
        child.close()


def _started(password: str, meanwhile: Callable[[], object]) -> "tuple[Leashed, int]":
    from prefect.settings import get_current_settings

    home = get_current_settings().home.resolve()
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
    """Events and log lines that Prefect's threads still hold; they know this server, so the threads end too."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        worker.drain_all(timeout=PATIENCE, at_exit=False)
