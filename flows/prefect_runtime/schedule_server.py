"""A Prefect server on this machine alone: found where one of ours answers, else started, and again if it dies.

Whoever reaches a Prefect server's API can make its runner execute what they like. So the one that is started here
asks for a password, is reached by its own address and from its own page alone, and dies with this process; and one
that is found is used only if it asks for a password too, and is this user's own.
"""

import os
import secrets
import socket
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

from packaging.version import Version

from dpbo.flows.prefect_runtime.flow_runs import configured_api, prefect_settings
from dpbo.flows.prefect_runtime.run_server import (
    PrefectProcess,
    api_url,
    bound_socket,
    check_answers,
    credentials,
    is_local,
    start_failure,
)
from dpbo_core.errors import DpboError
from dpbo_core.privacy.atomically import replace_atomically

SECRET_FILE_PREFIX = "dpbo-password-"  # and the port  # noqa: S105
POLL_INTERVAL_S = 1.0  # seconds between two looks at a server
PROBE_PATH = "/flows/count"  # every Prefect server has it, and it says nothing of anybody
LISTEN_STATE = "0A"  # the state, in /proc/net/tcp
Standing = Literal["open", "ours", "locked", "silent"]


def password_in(folder: Path, port: int, *, is_new: bool = False) -> tuple[str, Path]:
    """Return the password of the server on `port`, and its file in `folder`; refused if others can read it.

    A newly started server gets a new password. Otherwise a program that takes the port after a server has ended
    would receive the old one from a page that is still open in a browser.
    """
    path = folder / f"{SECRET_FILE_PREFIX}{port}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(OSError, UnicodeDecodeError):
        if is_new or not os.path.lexists(path):
            replace_atomically(path, f"{secrets.token_urlsafe(32)}\n".encode())
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="ascii") as file:
            facts, text = os.fstat(file.fileno()), file.readline().strip()
        private = facts.st_uid == os.geteuid() and not facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        if private and len(text) >= 32:
            return text, path
    raise DpboError(
        f"the file {path.name} in Prefect's folder is not a password that only you can know",
        cause="it was copied, linked, cut short or opened to others",
        remedy=f"remove {path}; a new one is made",
    )


def standing(api: str, headers: Mapping[str, str]) -> Standing:
    """Return whether the server at `api` is "open" to strangers, "ours" with `headers`, "locked" or "silent"."""
    import httpx

    try:
        with httpx.Client(timeout=5.0, trust_env=not is_local(api)) as client:
            if client.post(f"{api}{PROBE_PATH}", json={}).status_code == 200:
                return "open"
            accepted = client.post(f"{api}{PROBE_PATH}", json={}, headers=dict(headers)).status_code == 200
    except httpx.HTTPError:
        return "silent"
    return "ours" if accepted else "locked"


@dataclass(frozen=True)
class ScheduleServer:
    """A Prefect server that answers: its API, what clients send (None: as is set), and the password's file."""

    api: str
    auth: str | None = None
    password_file: Path | None = None
    started: bool = False


@contextmanager
def loopback_server(folder: Path, *, port: int, home: Path, trust: bool = False) -> Iterator[ScheduleServer]:
    """Context with the configured server, the one that listens on `port`, or one that is started there.

    Its database is Prefect's own, so its schedules and runs are still there when it is started again.
    """
    api = configured_api()
    if api is not None:
        check_answers(api)
        _refuse_open(standing(api, {}), api, trust=trust)
        yield ScheduleServer(api)
        return
    held = bound_socket(port)
    if held is None:
        yield _existing(home.resolve(), port, trust=trust)
        return
    with held, _lasting_server(held, home.resolve(), folder / "prefect-server.log") as server:
        yield server


def refuse_idle_scheduler() -> None:
    """Refuse the releases under which a server started here would make no scheduled run, without an error."""
    if Version(version("prefect")) < Version("3.9") and Version(version("sqlalchemy")) >= Version("2.1"):
        raise DpboError(
            "Prefect 3.8 makes no scheduled run under SQLAlchemy 2.1, and reports no error",
            cause="Prefect's own requirements allow the two together",
            remedy="pip install 'prefect>=3.9', or 'sqlalchemy<2.1'",
        )


def _existing(home: Path, port: int, *, trust: bool) -> ScheduleServer:
    """The server on our port; refused unless it lets us in and, if not trusted, is ours and has a password."""
    if not trust and not is_owned_by_user(port):
        raise DpboError(
            f"what listens on port {port} is not known to be yours",
            cause="another user of this machine runs a program there, who would decide what your schedule runs",
            remedy="choose another --port; --trust-server uses it all the same",
        )
    secret = prefect_settings().api.auth_string
    auth, file = password_in(home, port) if secret is None else (secret.get_secret_value(), None)
    answer = standing(api_url(port), credentials(auth))
    _refuse_open(answer, api_url(port), trust=trust)
    if answer in ("silent", "locked"):
        raise DpboError(
            f"what listens on port {port} is no Prefect server that knows us",
            cause="another program, or a server started with another password",
            remedy="choose another --port, or set PREFECT_API_AUTH_STRING to the server's password",
        )
    return ScheduleServer(api_url(port), auth, file)


def _refuse_open(answer: Standing, api: str, *, trust: bool) -> None:
    if answer == "open" and not trust:
        raise DpboError(
            f"the Prefect server at {api} asks nobody for a password",
            cause="it was started without PREFECT_SERVER_API_AUTH_STRING; whoever reaches it runs code as you",
            remedy="stop it, and dpbo serve starts one that does; --trust-server uses it all the same",
        )


@contextmanager
def _lasting_server(held: socket.socket, home: Path, log: Path) -> Iterator[ScheduleServer]:
    refuse_idle_scheduler()
    auth, file = password_in(home, int(held.getsockname()[1]), is_new=True)
    closing = threading.Event()

    def start() -> PrefectProcess:
        flags = os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW
        with os.fdopen(os.open(log, flags, 0o600), "wb") as output:
            process = PrefectProcess(held, auth, home=home, log=output, settings={})
        try:
            if process.wait_until_ready(cancelled=closing.is_set):
                return process
            raise start_failure(log.read_bytes()[-10_000:], f"{log.name} in mlruns")
        except BaseException:
            process.close()
            raise

    running = [start()]

    def watch() -> None:
        while not closing.wait(POLL_INTERVAL_S):
            if running[0].ended():
                with suppress(DpboError):  # tried again after the next pause
                    running[0] = start()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield ScheduleServer(running[0].api, auth, file, started=True)
    finally:
        closing.set()
        watching.join()
        running[0].close()


def owners(port: int) -> set[int] | None:
    """The ids of the users whose programs listen on `port` of this machine; None if the system does not tell."""
    users: set[int] = set()
    readable = False
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with suppress(OSError):
            rows = [line.split() for line in table.read_text(encoding="ascii").split("\n")[1:] if line]
            readable = True
            users |= {
                int(row[7]) for row in rows if row[3] == LISTEN_STATE and int(row[1].rsplit(":", 1)[1], 16) == port
            }
    return users if readable else None


def is_owned_by_user(port: int) -> bool:
    """True if this user's programs alone listen on `port`; False if others or none do, or it is unknown."""
    return owners(port) == {os.geteuid()}
