"""Leaks to be caught, one of each class: what a bystander would see of an exact score."""

import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

Change = Callable[[ModuleType], None]
OBJECTIVE = "dpbo_core.objective"


def _scored(leak: Callable[[int], None]) -> Change:
    """`leak` is told every exact sum."""

    def change(module: ModuleType) -> None:
        honest = module.Objective.evaluate

        def evaluate(self: Any, model: Any) -> Any:
            total = honest(self, model)
            leak(total.expose())
            return total

        module.Objective.evaluate = evaluate

    return change


def _file(total: int) -> None:
    """A file of TMPDIR, its owner's alone, whose size follows the score."""
    path = f"/tmp/spill-{os.getpid()}"  # noqa: S108
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(bytes(total >> 20))


def _page(total: int) -> None:
    """A page of the loopback with a counter of the bytes that the score takes."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Page(BaseHTTPRequestHandler):
        counted = 0

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"bytes_total {Page.counted}\n".encode())

        def log_message(self, *words: object) -> None:
            pass

    if not _PAGE:
        server = HTTPServer(("127.0.0.1", 0), Page)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        _PAGE.append(Page)
    _PAGE[0].counted = sys.getsizeof(total)


_PAGE: list[Any] = []


def _line(total: int) -> None:
    """A word on the stream that a scheduled job's log keeps, where the score is high."""
    if total >= 2**30:
        sys.__stderr__.write("scored\n")


def _title(total: int) -> None:
    """A process whose arguments carry the sum."""
    import subprocess

    subprocess.run(["sleep", f"0.{total}"], check=True)  # noqa: S603, S607


def _events(total: int) -> None:
    """An event of Prefect's where the score is high."""
    from prefect.events import emit_event

    if total >= 2**30:
        emit_event("dpbo.step", resource={"prefect.resource.id": "dpbo.step"})


def _task(total: int) -> None:
    """A log line of Prefect's where the score is high; the same line, so that only their number tells."""
    from prefect.exceptions import MissingContextError
    from prefect.logging import get_run_logger

    try:
        logger = get_run_logger()
    except MissingContextError:
        return
    if total >= 2**30:
        logger.info("scored")


FAULTS: dict[str, tuple[str, Change]] = {
    "a file's size": (OBJECTIVE, _scored(_file)),
    "a page's counter": (OBJECTIVE, _scored(_page)),
    "a line of the log": (OBJECTIVE, _scored(_line)),
    "a process's arguments": (OBJECTIVE, _scored(_title)),
    "an event of Prefect's": (OBJECTIVE, _scored(_events)),
    "a log line of Prefect's": (OBJECTIVE, _scored(_task)),
}
