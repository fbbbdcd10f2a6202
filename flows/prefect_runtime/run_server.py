"""Which Prefect server records a run: the one that is set, the one of the user's own flow, or a temporary one.

The temporary one is Prefect's own, on Prefect's own database, so `prefect server start` shows the run afterwards.
Its password is fresh for each command. Task processes get it with the flow's settings, through pipes between
processes of this user or Dask's TLS.
"""

import os
import secrets
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path

from dpbo.flows.prefect_runtime.liveness import current_flow_run
from dpbo.flows.prefect_runtime.prefect_process import (
    EPHEMERAL_SETTINGS,
    PrefectProcess,
    admits,
    answers,
    bound_socket,
    reserve_port,
    start_failure,
)
from dpbo.flows.prefect_runtime.settings import (
    bypass_proxies_for_loopback,
    configured_api,
    prefect_home,
    prefect_settings,
)
from dpbo_core.errors import DpboError, StudyInvalid

_TEMPORARY: ContextVar[bool] = ContextVar("this run's server ends with the command", default=False)
DRAIN_TIMEOUT_S = 5.0  # nothing of a study depends on what Prefect recorded
FIRST_START_MESSAGE = "Setting up Prefect's database, once: about 15 seconds\n"
DATABASE_FILE = "prefect.db"


@contextmanager
def run_server(needed: Sequence[str] = ()) -> Iterator[None]:
    """Context with a Prefect server for this run; while a temporary one starts, import the modules `needed`."""
    bypass_proxies_for_loopback()
    api = configured_api()
    if api is not None or current_flow_run() is not None:
        if api is not None:
            check_answers(api)
            check_admits(api)
        _import(needed)
        yield
        return
    password = secrets.token_urlsafe(32)
    with _started(password, prefect_home(), needed) as server:
        from prefect import settings

        ours = {settings.PREFECT_API_URL: server.api, settings.PREFECT_API_AUTH_STRING: password}
        with settings.temporary_settings(ours):
            token = _TEMPORARY.set(True)
            try:
                yield
            finally:
                _TEMPORARY.reset(token)
                _send_pending_records()


def is_temporary() -> bool:
    """Return whether this flow's server ends with this command, so that it has no page to look at."""
    return _TEMPORARY.get()


def check_answers(api: str) -> None:
    """Refuse a configured server that does not answer, before anything else is done."""
    if not answers(api):
        raise DpboError(
            f"no Prefect server answers at {api}",
            cause="PREFECT_API_URL or Prefect's active profile names a server that is not running, or a network "
            "that this machine cannot reach",
            remedy="start that server, or unset PREFECT_API_URL (prefect profile use local); nothing was charged",
        )


def check_admits(api: str) -> None:
    """Refuse a configured server that does not take the credentials of Prefect's settings."""
    ours = prefect_settings().api
    password = None if ours.auth_string is None else ours.auth_string.get_secret_value()
    key = None if ours.key is None else ours.key.get_secret_value()
    if not admits(api, password, key):
        raise DpboError(
            f"the Prefect server at {api} asks for credentials that were not given",
            cause="the server has a password, and this process has none or another",
            remedy="set PREFECT_API_AUTH_STRING=USER:PASSWORD (or PREFECT_API_KEY); nothing was charged",
        )


@contextmanager
def _started(password: str, home: Path, needed: Sequence[str]) -> Iterator[PrefectProcess]:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        writable = os.access(home, os.W_OK)
    except OSError:
        writable = False
    if not writable:
        raise StudyInvalid(
            f"Prefect's folder {home} cannot be written",
            cause="the home folder is read-only, or belongs to another user",
            remedy="set PREFECT_HOME to a folder of your own, or run with --direct, which needs no server",
        )
    if not (home / DATABASE_FILE).exists() and "PREFECT_API_DATABASE_CONNECTION_URL" not in os.environ:
        sys.stderr.write(FIRST_START_MESSAGE)
        sys.stderr.flush()
    held = bound_socket(0)
    if held is None:
        raise start_failure(b"", "the system's log: no port of the loopback can be bound")
    with tempfile.TemporaryFile() as log, reserve_port(held):
        with held:  # the server alone listens from then on: one that dies leaves no client waiting
            server = PrefectProcess(held, password, home=home, log=log, settings=EPHEMERAL_SETTINGS)
        try:
            _import(needed)
            if not server.wait_until_ready():
                log.seek(0)
                output = log.read()
                sys.stderr.write(output.decode(errors="replace")[-2000:])
                raise start_failure(output, "what it wrote, above")
            yield server
        finally:
            server.close()


def _import(needed: Sequence[str]) -> None:
    for name in needed:
        with suppress(Exception):
            import_module(name)


def _send_pending_records() -> None:
    """Send the events and log lines that Prefect's threads still hold, and end these threads.

    In threads of their own: where a loop runs, as in a notebook, Prefect returns a coroutine that nobody awaits.
    """
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (EventsWorker, APILogWorker):
        options = {"timeout": DRAIN_TIMEOUT_S, "at_exit": False}
        thread = threading.Thread(target=worker.drain_all, kwargs=options)
        thread.start()
        thread.join()
