"""A Prefect server on this machine alone: found where one answers, else started, and again if it dies."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from dpbo_core.errors import DpboError

HOST = "127.0.0.1"
PATIENCE = 120.0  # seconds a server may take to answer
LAST_WORDS = 10.0  # seconds a server may take to stop
PAUSE = 1.0  # seconds between two looks at it


def answers(api: str) -> bool:
    """Whether a Prefect server answers at `api`."""
    import httpx

    try:
        return bool(httpx.get(f"{api}/health", timeout=5.0).json() is True)
    except (httpx.HTTPError, ValueError):
        return False


class LoopbackServer:
    """While it is open a server answers at `api`: a configured one, one that was there, or a child of its own.

    A child that dies is started again; its database is Prefect's own, so its schedules and runs are still there.
    """

    def __init__(self, folder: Path, *, port: int) -> None:
        """`folder` keeps the server's log; `port` is where one is looked for or started."""
        self._log = folder / "prefect-server.log"
        self._port = port
        self._child: subprocess.Popen[bytes] | None = None
        self._closing = threading.Event()
        self.api = configured() or f"http://{HOST}:{port}/api"
        self.started = False

    def __enter__(self) -> "LoopbackServer":
        if not answers(self.api):
            if configured():
                raise DpboError(
                    f"no Prefect server answers at {self.api}",
                    cause="PREFECT_API_URL names a server that is not running",
                    remedy="start it, or unset PREFECT_API_URL to have one on this machine",
                )
            self._start()
            self.started = True
            threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._closing.set()
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(LAST_WORDS)
            except subprocess.TimeoutExpired:
                os.killpg(self._child.pid, signal.SIGKILL)  # it leads a session of its own
                self._child.wait()

    def _start(self) -> None:
        command = [sys.executable, "-m", "prefect", "server", "start", "--host", HOST, "--port", str(self._port)]
        with os.fdopen(os.open(self._log, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), "wb") as log:
            self._child = subprocess.Popen(  # noqa: S603  our own interpreter
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )
        end = time.monotonic() + PATIENCE
        while not answers(self.api):
            if self._child.poll() is not None or time.monotonic() > end or self._closing.is_set():
                raise DpboError(
                    f"a Prefect server could not be started on port {self._port}",
                    cause="another program listens there, or the machine is too slow",
                    remedy=f"choose another --port, or look at {self._log.name}",
                )
            time.sleep(PAUSE)

    def _watch(self) -> None:
        while not self._closing.wait(PAUSE):
            if self._child is not None and self._child.poll() is not None:
                with suppress(DpboError):  # tried again after the next pause
                    self._start()


def configured() -> str | None:
    """The API that Prefect's settings name, if any."""
    from prefect.settings import get_current_settings

    url = get_current_settings().api.url
    return None if url is None else str(url).rstrip("/")
