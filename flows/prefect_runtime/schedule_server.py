"""A Prefect server on this machine alone: found where one of ours answers, else started, and again if it dies.

Whoever reaches a Prefect server's API can make its runner execute what they like. So the one that is started here
asks for a password, is reached by its own address and from its own page alone, and dies with this process; and one
that is found is used only if it asks for a password too, and is this user's own.
"""

import base64
import os
import secrets
import signal
import stat
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal

from dpbo.flows.prefect_runtime.prefect_process import (
    PrefectProcess,
    answers,
    api_url,
    bound_socket,
    is_local,
    start_failure,
)
from dpbo.flows.prefect_runtime.settings import prefect_is_configured, prefect_settings
from dpbo_core.errors import DpboError

NAME = "dpbo-password-"  # and the port
PAUSE = 1.0  # seconds between two looks at a server
PROBE = "/flows/count"  # every Prefect server has it, and it says nothing of anybody
OUTAGE = "Service exceeded error threshold"  # what Prefect's runner raises after three polls without an answer
LISTENS = "0A"  # the state, in /proc/net/tcp
Standing = Literal["open", "ours", "locked", "silent"]


def password_in(folder: Path, port: int, *, is_new: bool = False) -> tuple[str, Path]:
    """Return the password of the server on `port`, and its file in `folder`; refused if others can read it.

    A server that is started gets a new one: whoever listens on the port after a server has ended hears the old one
    from a page that is still open in a browser.

    Raises:
        DpboError: somebody else can read or write the file, or it cannot be kept.
    """
    path = folder / f"{NAME}{port}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        if is_new or not os.path.lexists(path):
            _make_password(path)
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(handle, encoding="ascii") as file:
            facts = os.fstat(file.fileno())
            private = facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
            text = file.readline().strip()
    except (OSError, UnicodeDecodeError):
        private, text = False, ""
    if not private or len(text) < 32:
        raise DpboError(
            f"the file {path.name} in Prefect's folder is no password of yours alone",
            cause="it was copied, linked, cut short or opened to others",
            remedy=f"remove {path}; a new one is made",
        )
    return text, path


def _make_password(path: Path) -> None:
    """Put a file with a new password at `path`, in one step, in place of the one that may be there."""
    made = path.with_name(f".{path.name}")
    made.unlink(missing_ok=True)
    handle = os.open(made, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as new:
        new.write(secrets.token_urlsafe(32) + "\n")
    made.replace(path)


def standing(api: str, headers: Mapping[str, str]) -> Standing:
    """Whether the server at `api` is "open" to strangers, "ours" with `headers`, "locked" or "silent"."""
    import httpx

    try:
        with httpx.Client(timeout=5.0, trust_env=not is_local(api)) as client:
            if client.post(f"{api}{PROBE}", json={}).status_code == 200:
                return "open"
            accepted = client.post(f"{api}{PROBE}", json={}, headers=dict(headers)).status_code == 200
    except httpx.HTTPError:
        return "silent"
    return "ours" if accepted else "locked"


def credentials(auth: str) -> dict[str, str]:
    """The HTTP header that carries the password `auth`, as Prefect's clients send it."""
    return {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"}


class LoopbackServer:
    """A Prefect server that answers while this is open: the configured one, one that ran already, or a child.

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
        self.api = configured() or api_url(port)
        self.started = False
        self.auth: str | None = None
        self.password_file: Path | None = None

    def __enter__(self) -> "LoopbackServer":
        if configured():
            self._use_configured()
            return self
        socket = bound_socket(self._port)
        if socket is None:
            self._use_existing()
            return self
        self.auth, self.password_file = password_in(self._home, self._port, is_new=True)
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
        """Refuse a configured server that is silent, or that asks nobody for a password unless it is trusted."""
        answer = standing(self.api, {})
        if answer == "silent":
            raise DpboError(
                f"no Prefect server answers at {self.api}",
                cause="PREFECT_API_URL names a server that is not running",
                remedy="start it, or unset PREFECT_API_URL to have one on this machine",
            )
        self._refuse_open(answer)

    def _use_existing(self) -> None:
        """Take the server that listens on our port, and its password; refused if it does not let us in or, unless
        it is trusted, is another user's or asks for no password.
        """
        if not self._trust and not ours_alone(self._port):
            raise DpboError(
                f"what listens on port {self._port} is not known to be yours",
                cause="another user of this machine runs a program there, who would decide what your schedule runs",
                remedy="choose another --port; --trust-server uses it all the same",
            )
        secret = prefect_settings().api.auth_string
        if secret is None:
            self.auth, self.password_file = password_in(self._home, self._port)
        else:
            self.auth = secret.get_secret_value()
        answer = standing(self.api, credentials(self.auth))
        self._refuse_open(answer)
        if answer in ("silent", "locked"):
            raise DpboError(
                f"what listens on port {self._port} is no Prefect server that knows us",
                cause="another program, or a server started with another password",
                remedy="choose another --port, or set PREFECT_API_AUTH_STRING to the server's password",
            )

    def _refuse_open(self, answer: Standing) -> None:
        """Refuse a server that answers without a password, unless it is trusted."""
        if answer == "open" and not self._trust:
            raise DpboError(
                f"the Prefect server at {self.api} asks nobody for a password",
                cause="it was started without PREFECT_SERVER_API_AUTH_STRING; whoever reaches it runs code as you",
                remedy="stop it, and dpbo serve starts one that does; --trust-server uses it all the same",
            )

    def _start(self) -> None:
        """Start the server as a child process and wait for its first answer."""
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
        with os.fdopen(os.open(self._log, flags, 0o600), "wb") as log:
            child = PrefectProcess(self._socket, str(self.auth), home=self._home, log=log, settings={})
        if not child.wait_until_ready(cancelled=self._closing.is_set):
            raise start_failure(self._log.read_bytes()[-10_000:], f"{self._log.name} in mlruns")
        self._child = child

    def _watch(self) -> None:
        """Until closing, restart the server's process whenever it has died."""
        while not self._closing.wait(PAUSE):
            if self._child.ended():
                with suppress(DpboError):  # tried again after the next pause
                    self._start()


def owners(port: int) -> set[int] | None:
    """The ids of the users whose programs listen on `port` of this machine; None where the system does not tell."""
    users: set[int] = set()
    readable = False
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with suppress(OSError):
            rows = [line.split() for line in table.read_text(encoding="ascii").split("\n")[1:] if line]
            readable = True
            users |= {
                int(row[7]) for row in rows if row[3] == LISTENS and int(row[1].rsplit(":", 1)[1], 16) == port
            }
    return users if readable else None


def ours_alone(port: int) -> bool:
    """True where this user's programs alone listen on `port`; False where others or none do, or it is unknown."""
    return owners(port) == {os.geteuid()}


def configured() -> str | None:
    """The API's address in Prefect's settings; None where none is set."""
    url = prefect_settings().api.url if prefect_is_configured() else None
    return None if url is None else str(url).rstrip("/")


def is_outage(error: BaseException) -> bool:
    """Whether an error, or one in its group, means that no server answered."""
    import httpx

    if isinstance(error, BaseExceptionGroup):
        return any(is_outage(part) for part in error.exceptions)
    return isinstance(error, httpx.TransportError) or OUTAGE in str(error)


def wait_for_server(api: str) -> None:
    """Wait until a server answers at `api`; a termination signal ends the process in good order."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # the runner that had it is no more
    while not answers(api):
        time.sleep(PAUSE)
