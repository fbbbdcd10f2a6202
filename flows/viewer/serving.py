"""`dpbo ui`: MLflow's server on a socket of a folder of ours alone, and the gate on a port of this machine."""

import asyncio
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import httpx

from dpbo.flows.prefect_runtime.prefect_process import LOOPBACK
from dpbo.flows.viewer.gate import TOKEN, Gate
from dpbo.flows.viewer.host_checks import HostChecks, listening, names, origins
from dpbo.flows.viewer.leashed_process import Leashed
from dpbo.tasks.reporting.mlflow_lookup import newest_page
from dpbo.tasks.reporting.mlflow_store import LOCATION, UNREPORTED, Store
from dpbo_core.errors import DpboError

if TYPE_CHECKING:
    import uvicorn

PATIENCE = 120.0  # seconds MLflow's server may take to answer
PAUSE = 0.2
LONGEST_PATH = 90  # characters of a socket's name; the system allows about a hundred
STORE = (
    "MLFLOW_BACKEND_STORE_URI"  # not among the command's words, which everybody can read: it may hold a password
)
NO_JOBS = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # they run what a request names


def show(store: Store, *, base: Path, port: int) -> None:
    """Serve the store's pages until stopped, and print the one link that opens them."""
    import uvicorn

    token = secrets.token_urlsafe(32)
    for how in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(how, lambda *_: sys.exit(0))  # in good order, whenever it comes
    with listening(port) as listener, mlflow(store.uri, base, port) as path:
        server = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url=f"http://{names(port)[0]}", timeout=60.0
        )
        gate = Gate(server, base=base, artifacts=base / LOCATION, port=port, token=token)
        sys.stdout.write(
            f"MLflow, to read: http://{LOOPBACK}:{port}/?{TOKEN}={token}{newest_page(store)}\n"
            "The link holds this session's token; without it nobody on this machine gets in.  (Ctrl-C stops it)\n"
        )
        sys.stdout.flush()
        config = uvicorn.Config(
            HostChecks(gate, port), log_level="critical", lifespan="off", access_log=False, server_header=False
        )
        with suppress(KeyboardInterrupt):
            asyncio.run(_until_stopped(uvicorn.Server(config), listener, server))


async def _until_stopped(page: "uvicorn.Server", listener: socket.socket, server: httpx.AsyncClient) -> None:
    """Serve MLflow's pages until stopped, with the client of MLflow's own server open."""
    async with server:
        await page.serve(sockets=[listener])


@contextmanager
def mlflow(uri: str, base: Path, port: int) -> Iterator[Path]:
    """Context with MLflow's server on a Unix socket, whose path it gives; it takes the `Host` of `port` alone."""
    with tempfile.TemporaryDirectory(prefix="dpbo-") as name:
        folder = Path(name)
        path = folder / "mlflow"
        if len(str(path)) > LONGEST_PATH:
            raise DpboError(
                "the folder for temporary files has too long a name", remedy="set TMPDIR to a shorter one"
            )
        command = [
            sys.executable, "-P", "-m", "mlflow", "server",
            "--default-artifact-root", str(base / LOCATION), "--no-serve-artifacts", "--workers", "1",
            "--allowed-hosts", ",".join(names(port)), "--cors-allowed-origins", ",".join(origins(port)),
            "--uvicorn-opts", f"--uds {path}",
        ]  # fmt: skip
        child = Leashed(
            command, log=subprocess.DEVNULL, env=os.environ | UNREPORTED | NO_JOBS | {STORE: uri}, cwd=base
        )
        try:
            _wait(path, child)
            yield path
        finally:
            child.close()


def _wait(path: Path, child: Leashed) -> None:
    """Wait for the first answer of MLflow's server on the socket `path`; refused if it ends, or takes minutes."""
    end = time.monotonic() + PATIENCE
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url=f"http://{LOOPBACK}") as client:
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
            time.sleep(PAUSE)
