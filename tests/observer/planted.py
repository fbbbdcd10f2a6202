"""Leaks to be caught, one of each class: what a bystander would see of an exact score."""

import os
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

Change = Callable[[ModuleType], None]
OBJECTIVE = "dpbo_core.models.scoring.in_memory"
LOOPBACK = "127.0.0.1"


def _scored(leak: Callable[[int], None]) -> Change:
    """`leak` is told every exact sum."""

    def change(module: ModuleType) -> None:
        honest = module.Objective.totals

        def totals(self: Any, *words: Any, **named: Any) -> Any:
            sums, differences = honest(self, *words, **named)
            for total in sums:
                leak(int(total))
            return sums, differences

        module.Objective.totals = totals

    return change


def _file(total: int) -> None:
    """A file of TMPDIR, its owner's alone, whose size follows the score."""
    path = f"/tmp/spill-{os.getpid()}"
    with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "wb") as file:
        file.write(bytes(total >> 20))


def _page(total: int) -> None:
    """A page of the loopback with a counter of the bytes that the score takes; there until somebody has read it."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    if _ASKED:
        return
    asked = threading.Event()
    _ASKED.append(asked)

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"bytes_total {sys.getsizeof(total)}\n".encode())
            asked.set()

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer((LOOPBACK, 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert asked.wait(120)


_ASKED: list[threading.Event] = []


def _line(total: int) -> None:
    """A word on the stream that a scheduled job's log keeps, where the score is high."""
    if total >= 2**30:
        sys.__stderr__.write("scored\n")


def _title(total: int) -> None:
    """A process whose arguments carry the sum."""
    import subprocess

    if not _TOLD:
        _TOLD.append(total)
        subprocess.run(["sleep", f"3.{total}"], check=True)


_TOLD: list[int] = []


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
