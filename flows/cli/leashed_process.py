"""A command that does not outlive whoever started it, however that one ends: SIGTERM, SIGKILL, a crash.

    python flows/cli/leashed_process.py COMMAND…      its standard input is the leash

The starter holds the other end of a pipe. When that end closes, as the operating system sees to, the command's
whole process group is asked to stop, then made to. This file runs by itself, with the standard library alone.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

GRACE_PERIOD_S = 5.0  # seconds between asking and making
LEASH_TIMEOUT_S = 10.0  # seconds that the leash itself may take on a busy machine


class LeashedProcess:
    """A running command that ends, with its descendants, when this process does."""

    def __init__(self, command: Sequence[str], *, log: IO[bytes] | int, env: Mapping[str, str], cwd: Path) -> None:
        """Start `command` in `cwd`; its output goes to `log`."""
        self._process = subprocess.Popen(  # noqa: S603  our own interpreter
            [sys.executable, "-I", "-S", __file__, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )

    def ended(self) -> bool:
        """Return whether the child process has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """End the child process and everything that it started."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(GRACE_PERIOD_S + LEASH_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main() -> None:
    """Run the command given as arguments, end it if standard input closes or a signal asks; exit with its code."""
    let_go = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: let_go.set())
    signal.signal(signal.SIGINT, lambda *_: None)  # a terminal's: whoever holds the leash says when
    child = subprocess.Popen(  # noqa: S603  the words of our own caller
        sys.argv[1:], stdin=subprocess.DEVNULL, close_fds=False, process_group=0
    )
    threading.Thread(target=_hold, args=(let_go,), daemon=True).start()
    threading.Thread(target=_end, args=(child, let_go), daemon=True).start()
    code = child.wait()
    _signal_group(child.pid, signal.SIGKILL)  # what it may have left
    sys.exit(abs(code))


def _hold(let_go: threading.Event) -> None:
    with suppress(OSError):
        while os.read(0, 1):
            pass
    let_go.set()


def _end(child: "subprocess.Popen[bytes]", let_go: threading.Event) -> None:
    let_go.wait()
    _signal_group(child.pid, signal.SIGTERM)
    threading.Event().wait(GRACE_PERIOD_S)
    _signal_group(child.pid, signal.SIGKILL)


def _signal_group(leader: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, how)


if __name__ == "__main__":
    main()
