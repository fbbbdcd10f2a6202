"""Which Prefect server records a run: the one that is set, the one of the user's own flow, or a temporary one.

The temporary one is Prefect's own, on Prefect's own database, so `prefect server start` shows the run afterwards.
Its password is fresh for each command. Task processes get it with the flow's settings, through pipes between
processes of this user or Dask's TLS.

It is a child process, started by Prefect's own command with two differences. The socket is bound before the server
starts, so no other program can listen where clients send the password. And the server ends when this process does,
however it ends: it reads from a pipe whose other end the operating system closes.
"""

import base64
import os
import secrets
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import IO

from dpbo.flows.prefect_runtime.flow_runs import (
    PREFECT_TELEMETRY,
    bypass_proxies_for_loopback,
    configured_api,
    current_flow_run,
    prefect_home,
    prefect_settings,
)
from dpbo_core.errors import DpboError, StudyInvalid

LOOPBACK_HOST = "127.0.0.1"
OWNER_UMASK = 0o077  # the umask of what Prefect and MLflow write beside what is written here
BACKLOG = 2048  # connections that wait until the server accepts them
STARTUP_TIMEOUT_S, POLL_INTERVAL_S, STOP_TIMEOUT_S = 120.0, 0.1, 5.0
SERVER_CODE = """
import os, runpy, threading
def end_with_starter():
    while os.read(0, 1):
        pass
    os._exit(0)
threading.Thread(target=end_with_starter, daemon=True).start()
runpy.run_module("uvicorn", run_name="__main__", alter_sys=True)
"""
NEWER_DATABASE_ERROR = b"Can't locate revision"  # what Alembic says of a database of a newer Prefect
# As Prefect's own temporary server; the services that only schedules and automations need are off.
EPHEMERAL_SETTINGS = {
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT_UI_ENABLED": "0",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "0",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "0",
    **{
        f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false"
        for service in (
            "SCHEDULER", "LATE_RUNS", "CANCELLATION_CLEANUP", "PAUSE_EXPIRATIONS", "TRIGGERS", "EVENT_LOGGER",
            "FOREMAN", "REPOSSESSOR",
        )
    },
}  # fmt: skip
_TEMPORARY: ContextVar[bool] = ContextVar("this run's server ends with the command", default=False)
DRAIN_TIMEOUT_S = 5.0  # nothing of a study depends on what Prefect recorded
FIRST_START_MESSAGE = "Setting up Prefect's database, once: about 15 seconds\n"
DATABASE_FILE = "prefect.db"


def bound_socket(port: int) -> socket.socket | None:
    """Return a socket that listens on `port` of the loopback (0: any free one), or None if another program does."""
    try:
        held = socket.create_server((LOOPBACK_HOST, port), backlog=BACKLOG)
    except OSError:
        return None
    held.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # accepted connections inherit it
    return held


def reserve_port(listener: socket.socket) -> socket.socket:
    """Return a socket that keeps the port of `listener` from other users until it is closed.

    It never listens. So if the server dies, clients are refused at once, and no other program receives their
    password.
    """
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        for one in (listener, reserved):  # Linux lets sockets of one user alone share a port by this
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(listener.getsockname())
    except BaseException:
        reserved.close()
        raise
    return reserved


def api_url(port: int) -> str:
    """Return the address of the API of a Prefect server on this machine."""
    return f"http://{LOOPBACK_HOST}:{port}/api"


def answers(api: str) -> bool:
    """Return whether a Prefect server answers at `api`, without asking a proxy for a server of this machine."""
    import httpx

    try:
        return bool(httpx.get(f"{api}/health", timeout=5.0, trust_env=not is_local(api)).json() is True)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError):
        return False


def credentials(auth: str) -> dict[str, str]:
    """Return the HTTP header that carries the password `auth`, as Prefect's clients send it."""
    return {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"}


def is_local(api: str) -> bool:
    """Return whether an address is on this machine."""
    from urllib.parse import urlsplit

    return urlsplit(api).hostname in (LOOPBACK_HOST, "localhost", "::1")


class PrefectProcess:
    """A Prefect server that serves on a socket of ours until this process closes it or ends."""

    def __init__(
        self, held: socket.socket, password: str, *, home: Path, log: IO[bytes], settings: Mapping[str, str]
    ) -> None:
        """Start the server on the socket `held`, in Prefect's folder `home`: no other settings are read.

        Its clients must send `password`, its output goes to `log`, and `settings` are added to its environment.
        """
        handle, port = held.fileno(), int(held.getsockname()[1])
        self.api = api_url(port)
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter
            [
                sys.executable, "-P", "-c", SERVER_CODE, "--app-dir", sysconfig.get_path("purelib"),
                "--factory", "prefect.server.api.server:create_app",
                "--fd", str(handle), "--port", str(port), "--log-level", "error", "--lifespan", "on",
            ],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=_environment(password, home, port) | dict(settings),
            cwd=home,
            pass_fds=(handle,),
            start_new_session=True,
            umask=OWNER_UMASK,  # Prefect makes its database, whatever a script's own umask is
        )  # fmt: skip

    def ended(self) -> bool:
        """Return whether the server's process has ended."""
        return self._process.poll() is not None

    def wait_until_ready(self, cancelled: Callable[[], bool] = lambda: False) -> bool:
        """Wait for the first answer; return False if none comes or it is `cancelled`."""
        end = time.monotonic() + STARTUP_TIMEOUT_S
        while not answers(self.api):
            if self.ended() or time.monotonic() > end or cancelled():
                return False
            time.sleep(POLL_INTERVAL_S)
        return True

    def close(self) -> None:
        """Stop the server, and kill it if it takes longer than five seconds."""
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def start_failure(output: bytes, place: str) -> DpboError:
    """Return the error for a server that did not start; its `output` can be read in `place`."""
    if NEWER_DATABASE_ERROR in output:
        return DpboError(
            "Prefect's database was made by a newer Prefect than the one that is installed here",
            cause="another of your environments has a newer Prefect and the same Prefect home (~/.prefect)",
            remedy="install that Prefect, or set PREFECT_HOME to a folder of its own; nothing was charged",
        )
    return DpboError(
        "Prefect's server did not start",
        cause="a broken installation, an invalid Prefect setting, or a full disk",
        remedy=f"read {place}, and run dpbo doctor; dpbo tune STUDY.toml --direct needs no server",
    )


def _environment(password: str, home: Path, port: int) -> dict[str, str]:
    ours = dict(os.environ)
    if "prefect" in sys.modules:
        from prefect.settings import get_current_settings

        ours |= get_current_settings().to_environment_variables(exclude_unset=True)
    for setting in ("PREFECT_API_URL", "PREFECT_API_KEY"):
        ours.pop(setting, None)
    return (
        ours
        | PREFECT_TELEMETRY
        | {
            "PREFECT_HOME": str(home),
            "PREFECT_SERVER_API_AUTH_STRING": password,
            "PREFECT_API_AUTH_STRING": password,
            "PREFECT_SERVER_API_HOST": LOOPBACK_HOST,
            "PREFECT_SERVER_API_PORT": str(port),
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": f"http://{LOOPBACK_HOST}:{port}",
            "PREFECT_UI_API_URL": api_url(port),
        }
    )


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
    import httpx

    ours = prefect_settings().api
    headers = {} if ours.auth_string is None else credentials(ours.auth_string.get_secret_value())
    if ours.key is not None:
        headers = {"Authorization": f"Bearer {ours.key.get_secret_value()}"}
    with suppress(httpx.HTTPError):  # one that does not answer is told of elsewhere
        answer = httpx.get(f"{api}/admin/version", headers=headers, timeout=5.0, trust_env=not is_local(api))
        if answer.status_code in (401, 403):
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
