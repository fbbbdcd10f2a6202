"""`dpbo ui`: MLflow's server on a socket of a folder of ours alone, and the gate on a port of this machine.

The port is held by this process from before its server starts until after it ends: a child that serves on it
inherits the socket, so that nobody else can listen there while it is started again. A browser lets any page send
requests to the loopback; what it cannot forge is `Host` (another name that resolves to 127.0.0.1 stays in it) and
`Origin`. The pages themselves may load from this server, and tell it, alone.
"""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from dpbo.flows.cli.gate import TOKEN_PARAMETER, Gate
from dpbo.flows.cli.leashed_process import LeashedProcess
from dpbo.flows.cli.running import is_there
from dpbo.flows.prefect_runtime.run_server import LOOPBACK_HOST, bound_socket
from dpbo.flows.stores import Stores
from dpbo.tasks.reporting.mlflow_store import ARTIFACT_FOLDER, MLFLOW_TELEMETRY, Store, newest_page, open_store
from dpbo_core.errors import DpboError

ANSWER_TIMEOUT_S = 120.0  # seconds MLflow's server may take to answer
POLL_INTERVAL_S = 0.2
MAX_SOCKET_PATH = 90  # characters of a socket's name; the system allows about a hundred
STORE_VARIABLE = "MLFLOW_BACKEND_STORE_URI"  # no word of the command, which everybody reads: it may have a password
NO_JOBS_SETTING = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # they run what a request names
REFUSAL_BODY = b"Only by this server's own address, and from its own pages.\n"
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def show_pages(port: int) -> None:
    """Serve MLflow's pages of this folder's store until stopped, or name the server that shows them already."""
    stores = Stores()
    if stores.tracking.startswith(("http://", "https://")):
        sys.stdout.write(f"MLflow, at the server of MLFLOW_TRACKING_URI: {stores.mlflow_page}\n")
        return
    if not is_there(stores.tracking):
        raise DpboError(
            "there is no release to show yet", cause="no study has run here", remedy="run dpbo tune first"
        )
    if stores.mlflow_tracking_uri is None:
        stores.make_folder()
    store = open_store(stores.tracking)
    if store.root is None:
        raise DpboError(
            "MLFLOW_TRACKING_URI names no store that can be shown here",
            remedy="open its own page, or name a server (https://…), sqlite:/// or postgresql://",
        )
    show(store, base=store.root.resolve(), port=port)


def show(store: Store, *, base: Path, port: int) -> None:
    """Serve the store's pages until stopped, and print the one link that opens them."""
    token = secrets.token_urlsafe(32)
    for how in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(how, lambda *_: sys.exit(0))  # in good order, whenever it comes
    with listening(port) as listener, mlflow(store.uri, base, port) as path:
        server = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url=f"http://{names(port)[0]}", timeout=60.0
        )
        gate = Gate(server, base=base, artifacts=base / ARTIFACT_FOLDER, port=port, token=token)
        sys.stdout.write(
            f"MLflow, to read: http://{LOOPBACK_HOST}:{port}/?{TOKEN_PARAMETER}={token}{newest_page(store)}\n"
            "The link holds this session's token; without it nobody on this machine gets in.  (Ctrl-C stops it)\n"
        )
        sys.stdout.flush()
        config = uvicorn.Config(
            HostChecks(gate, port), log_level="critical", lifespan="off", access_log=False, server_header=False
        )

        async def until_stopped() -> None:
            async with server:
                await uvicorn.Server(config).serve(sockets=[listener])

        with suppress(KeyboardInterrupt):
            asyncio.run(until_stopped())


@contextmanager
def mlflow(uri: str, base: Path, port: int) -> Iterator[Path]:
    """Context with MLflow's server on a Unix socket, whose path it gives; it takes the `Host` of `port` alone."""
    with tempfile.TemporaryDirectory(prefix="dpbo-") as name:
        folder = Path(name)
        path = folder / "mlflow"
        if len(str(path)) > MAX_SOCKET_PATH:
            raise DpboError(
                "the folder for temporary files has too long a name", remedy="set TMPDIR to a shorter one"
            )
        command = [
            sys.executable, "-P", "-m", "mlflow", "server",
            "--default-artifact-root", str(base / ARTIFACT_FOLDER), "--no-serve-artifacts", "--workers", "1",
            "--allowed-hosts", ",".join(names(port)), "--cors-allowed-origins", ",".join(origins(port)),
            "--uvicorn-opts", f"--uds {path}",
        ]  # fmt: skip
        child = LeashedProcess(
            command,
            log=subprocess.DEVNULL,
            env=os.environ | MLFLOW_TELEMETRY | NO_JOBS_SETTING | {STORE_VARIABLE: uri},
            cwd=base,
        )
        try:
            _wait(path, child)
            yield path
        finally:
            child.close()


def _wait(path: Path, child: LeashedProcess) -> None:
    end = time.monotonic() + ANSWER_TIMEOUT_S
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url=f"http://{LOOPBACK_HOST}") as client:
        while True:
            try:
                client.get("/version", timeout=5.0)
            except httpx.HTTPError:
                pass
            else:
                return
            if child.ended() or time.monotonic() > end:
                raise DpboError(
                    "MLflow's server did not start",
                    cause="a store of another version, or a broken installation",
                    remedy="run dpbo doctor",
                )
            time.sleep(POLL_INTERVAL_S)


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Context with a socket that listens on `port` of the loopback; refused if another program does."""
    held = bound_socket(port)
    if held is None:
        raise DpboError(
            f"port {port} cannot be listened on",
            cause="another program does already",
            remedy="choose another --port",
        )
    with held:
        yield held


def names(port: int) -> tuple[str, ...]:
    """Return the values of `Host` that a server on this port of the loopback accepts."""
    return f"{LOOPBACK_HOST}:{port}", f"localhost:{port}"


def origins(port: int) -> tuple[str, ...]:
    """Return the values of `Origin` that a server on this port of the loopback accepts."""
    return tuple(f"http://{name}" for name in names(port))


class HostChecks:
    """Middleware: 403 for another `Host`, another `Origin`, or a fetch that the browser says began elsewhere."""

    def __init__(self, app: App, port: int) -> None:
        self._app = app
        ours = " ".join((*origins(port), *(f"ws://{name}" for name in names(port))))  # a page reaches nobody else
        policy = f"default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob: {ours}; frame-ancestors 'self'"
        self._strict = (
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"x-frame-options", b"SAMEORIGIN"),
            (b"referrer-policy", b"no-referrer"),
        )
        self._hosts = frozenset(name.encode() for name in names(port))
        self._origins = frozenset(name.encode() for name in origins(port))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 403."""

        async def strictly(message: Message) -> None:
            """Send a message, with the page's strict headers if it begins a response."""
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self._strict]
            await send(message)

        if scope["type"] == "lifespan" or self._ours(scope):
            await self._app(scope, receive, strictly)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            headers = [(b"content-type", b"text/plain; charset=utf-8")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": REFUSAL_BODY})

    def _ours(self, scope: Scope) -> bool:
        """Whether a request has our host and no foreign origin, and began on our pages or as a followed link."""
        sent: list[tuple[bytes, bytes]] = list(scope["headers"])
        hosts = [value.lower() for name, value in sent if name == b"host"]
        senders = [value.lower() for name, value in sent if name == b"origin"]
        sites = [value for name, value in sent if name == b"sec-fetch-site"]
        modes = [value for name, value in sent if name == b"sec-fetch-mode"]
        elsewhere = any(site in (b"cross-site", b"same-site") for site in sites)  # the port is no part of a site
        opened = scope.get("method") == "GET" and modes == [b"navigate"]  # a link that was followed
        return (
            len(hosts) == 1
            and hosts[0] in self._hosts
            and all(origin in self._origins for origin in senders)
            and (opened or not elsewhere)
        )
