"""A child process that is Prefect's server: behind a password, on a socket that we hold, dead when we are."""

import os
import socket
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from dpbo.flows.prefect_runtime.child_process import Leashed
from dpbo.flows.prefect_runtime.loopback import LOOPBACK, origins
from dpbo.flows.prefect_runtime.prefect_store import SCHEME, is_migrated, prefect_store
from dpbo.flows.prefect_runtime.settings import default_home, prefect_settings
from dpbo_core.errors import DpboError

PATIENCE = 120.0  # seconds a server may take to answer
PAUSE = 0.2  # seconds between two looks at it
SHORT = {  # as Prefect's own temporary server: no page; and no look at each package that brings blocks
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT_SERVER_MEMOIZE_BLOCK_AUTO_REGISTRATION": "0",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "0",
}


def address_of(port: int) -> str:
    """The address of the API of a Prefect server on this machine."""
    return f"http://{LOOPBACK}:{port}/api"


def answers(api: str) -> bool:
    """Whether a Prefect server answers at `api`."""
    import httpx

    try:
        return bool(httpx.get(f"{api}/health", timeout=5.0).json() is True)
    except (httpx.HTTPError, ValueError):
        return False


def start(
    listening: socket.socket, *, auth: str, home: Path, log: IO[bytes] | int, extra: Mapping[str, str]
) -> Leashed:
    """Start a Prefect server in the folder `home`, with `extra` environment variables and its output to `log`, that
    will answer on `listening` to clients with the password `auth`.

    It stands in `home`, Prefect's folder, with our environment and `extra`, and writes to `log`.
    """
    handle, port = listening.fileno(), int(listening.getsockname()[1])
    command = [sys.executable, "-P", "-m", "dpbo.flows.prefect_runtime.prefect_app", str(handle), str(port)]
    environment = _environment(auth, home, port) | dict(extra)
    return Leashed(command, log=log, env=environment, cwd=home, fd=handle)


def awaited(child: Leashed, port: int, *, cancelled: Callable[[], bool] = lambda: False) -> bool:
    """Wait for the server's first answer; False, and the server ended, if none comes or `cancelled` says so."""
    end = time.monotonic() + PATIENCE
    try:
        while not answers(address_of(port)):
            if child.ended() or time.monotonic() > end or cancelled():
                child.close()
                return False
            time.sleep(PAUSE)
    except BaseException:
        child.close()
        raise
    return True


def not_started(port: int, remedy: str) -> DpboError:
    """The error for a server that did not start."""
    return DpboError(
        f"a Prefect server could not be started on port {port}",
        cause="a broken installation or settings of Prefect's, or the machine is too slow",
        remedy=remedy,
    )


def _environment(auth: str, home: Path, port: int) -> dict[str, str]:
    """The environment of a child process that is a Prefect server, without settings of a client."""
    ours = dict(os.environ)
    if default_home() is None:
        ours |= prefect_settings().to_environment_variables(exclude_unset=True)
    for setting in ("PREFECT_API_URL", "PREFECT_API_KEY"):
        ours.pop(setting, None)
    place = prefect_store()
    if place is not None:  # in full, since the child stands elsewhere
        ours["PREFECT_API_DATABASE_CONNECTION_URL"] = f"{SCHEME}{place.resolve()}"
        if is_migrated(place):  # else it would read every migration to find none left
            ours["PREFECT_API_DATABASE_MIGRATE_ON_START"] = "0"
    return ours | {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_API_AUTH_STRING": auth,
        "PREFECT_API_AUTH_STRING": auth,
        "PREFECT_SERVER_API_HOST": LOOPBACK,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(origins(port)),
        "PREFECT_UI_API_URL": address_of(port),
    }
