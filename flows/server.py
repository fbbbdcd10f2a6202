"""A Prefect server on this machine alone: found where one of ours answers, else started, and again if it dies.

Whoever reaches a Prefect server's API can make its runner execute what they like. So the one that is started here
asks for a password, is reached by its own address and from its own page alone, and dies with this process; and one
that is found is used only if it asks for a password too, and is this user's own.
"""

import base64
import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal

from dpbo_core.errors import DpboError
from flows.leash import Leashed
from flows.listening import ours_alone, taken
from flows.own_address import LOOPBACK, origins
from flows.password import password_in
from flows.prefect_store import SCHEME, prefect_store

PATIENCE = 120.0  # seconds a server may take to answer
PAUSE = 1.0  # seconds between two looks at it
ASKED = "/flows/count"  # every Prefect server has it, and it says nothing of anybody
Standing = Literal["open", "ours", "locked", "silent"]


def answers(api: str) -> bool:
    """Whether a Prefect server answers at `api`."""
    import httpx

    try:
        return bool(httpx.get(f"{api}/health", timeout=5.0).json() is True)
    except (httpx.HTTPError, ValueError):
        return False


def standing(api: str, headers: Mapping[str, str]) -> Standing:
    """What the server at `api` says to a stranger ("open"), and to whom sends `headers` ("ours", or "locked")."""
    import httpx

    try:
        if httpx.post(f"{api}{ASKED}", json={}, timeout=5.0).status_code == 200:
            return "open"
        known = httpx.post(f"{api}{ASKED}", json={}, headers=dict(headers), timeout=5.0).status_code == 200
    except httpx.HTTPError:
        return "silent"
    return "ours" if known else "locked"


def credentials(auth: str) -> dict[str, str]:
    """The header that Prefect's clients send."""
    return {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"}


class LoopbackServer:
    """While it is open a server answers at `api`: a configured one, one that was there, or a child of its own.

    A child that dies is started again, on the same socket: nobody else can listen there meanwhile. Its database is
    Prefect's own, so its schedules and runs are still there. `auth` is what clients send; None: as Prefect is set.
    """

    def __init__(self, folder: Path, *, port: int, home: Path, trust: bool = False) -> None:
        """`folder` keeps the server's log, `home` its password; `port` is where one is looked for or started.

        With `trust` a server is used whoever may reach it.
        """
        self._log, self._home, self._port, self._trust = folder / "prefect-server.log", home.resolve(), port, trust
        self._held = ExitStack()
        self._closing = threading.Event()
        self.api = configured() or f"http://{LOOPBACK}:{port}/api"
        self.started = False
        self.auth: str | None = None
        self.password_file: Path | None = None

    def __enter__(self) -> "LoopbackServer":
        if configured():
            self._use_configured()
            return self
        socket = taken(self._port)
        if socket is None:
            self._use_found()
            return self
        self.auth, self.password_file = password_in(self._home)
        self._socket = self._held.enter_context(socket)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        self.started = True
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._closing.set()
        child = getattr(self, "_child", None)
        if child is not None:
            child.close()
        self._held.close()

    def _use_configured(self) -> None:
        """How it knows its clients is between it and Prefect's settings; that it asks them is our business."""
        found = standing(self.api, {})
        if found == "silent":
            raise DpboError(
                f"no Prefect server answers at {self.api}",
                cause="PREFECT_API_URL names a server that is not running",
                remedy="start it, or unset PREFECT_API_URL to have one on this machine",
            )
        self._refuse_open(found)

    def _use_found(self) -> None:
        """A server on our port, which must be this user's before it is told any password."""
        if not self._trust and not ours_alone(self._port):
            raise DpboError(
                f"what listens on port {self._port} is not known to be yours",
                cause="another user of this machine runs a program there, who would decide what your schedule runs",
                remedy="choose another --port; --trust-server uses it all the same",
            )
        from prefect.settings import get_current_settings

        secret = get_current_settings().api.auth_string
        if secret is None:
            self.auth, self.password_file = password_in(self._home)
        else:
            self.auth = secret.get_secret_value()
        found = standing(self.api, credentials(self.auth))
        self._refuse_open(found)
        if found in ("silent", "locked"):
            raise DpboError(
                f"what listens on port {self._port} is no Prefect server that knows us",
                cause="another program, or a server started with another password",
                remedy="choose another --port, or set PREFECT_API_AUTH_STRING to the server's password",
            )

    def _refuse_open(self, found: Standing) -> None:
        if found == "open" and not self._trust:
            raise DpboError(
                f"the Prefect server at {self.api} asks nobody for a password",
                cause="it was started without PREFECT_SERVER_API_AUTH_STRING; whoever reaches it runs code as you",
                remedy="stop it, and dpbo serve starts one that does; --trust-server uses it all the same",
            )

    def _start(self) -> None:
        handle = self._socket.fileno()
        command = [sys.executable, "-P", "-m", "flows.prefect_app", str(handle), str(self._port)]
        with os.fdopen(
            os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW, 0o600), "wb"
        ) as log:
            self._child = Leashed(command, log=log, env=self._environment(), cwd=self._home, fd=handle)
        end = time.monotonic() + PATIENCE
        while not answers(self.api):
            if self._child.ended() or time.monotonic() > end or self._closing.is_set():
                self._child.close()
                raise DpboError(
                    f"a Prefect server could not be started on port {self._port}",
                    cause="a broken installation or settings of Prefect's, or the machine is too slow",
                    remedy=f"look at {self._log.name} in mlruns",
                )
            time.sleep(PAUSE)

    def _environment(self) -> dict[str, str]:
        """The child's: it is Prefect's server, so it is a client of nobody."""
        kept = {
            name: value for name, value in os.environ.items() if name not in ("PREFECT_API_URL", "PREFECT_API_KEY")
        }
        place = prefect_store()
        if place is not None:  # said in full, since the child stands elsewhere
            kept["PREFECT_API_DATABASE_CONNECTION_URL"] = f"{SCHEME}{place.resolve()}"
        return kept | {
            "PREFECT_HOME": str(self._home),
            "PREFECT_SERVER_API_AUTH_STRING": str(self.auth),
            "PREFECT_API_AUTH_STRING": str(self.auth),
            "PREFECT_SERVER_API_HOST": LOOPBACK,
            "PREFECT_SERVER_API_PORT": str(self._port),
            "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ",".join(origins(self._port)),
            "PREFECT_UI_API_URL": self.api,
        }

    def _watch(self) -> None:
        while not self._closing.wait(PAUSE):
            if self._child.ended():
                with suppress(DpboError):  # tried again after the next pause
                    self._start()


def configured() -> str | None:
    """The API that Prefect's settings name, if any."""
    from prefect.settings import get_current_settings

    url = get_current_settings().api.url
    return None if url is None else str(url).rstrip("/")
