"""A scheduled day in a minute: five-second runs, the Prefect server killed on the way, on to the cap."""

import os
import signal
import socket
import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from intruder import command, environment

from dpbo.flows.serve import MISSED_STATE

PATIENCE = 600.0  # seconds between two runs that spend or are refused, on a busy machine
SERVER = "prefect.server.api.server:create_app"


@dataclass(frozen=True)
class Firing:
    """One flow run as Prefect's database has it."""

    due: str
    kind: str
    state: str
    message: str


@dataclass(frozen=True)
class Day:
    """What a day left: its runs, oldest first, and the streams of the command."""

    runs: tuple[Firing, ...]
    before_kill: int
    streams: tuple[bytes, bytes]
    exit_code: int
    left_running: tuple[str, ...]
    paused: bool

    def named(self, state: str) -> list[Firing]:
        return [run for run in self.runs if run.state == state]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def runs(home: Path) -> tuple[Firing, ...]:
    """Runs that have begun."""
    query = """SELECT run.expected_start_time, run.state_type, run.state_name, state.message
        FROM flow_run run JOIN flow_run_state state ON state.id = run.state_id
        WHERE run.state_type NOT IN ('SCHEDULED', 'PENDING', 'RUNNING') ORDER BY 1"""
    with suppress(sqlite3.OperationalError), sqlite3.connect(home / "prefect.db", timeout=30) as store:
        return tuple(Firing(*row) for row in store.execute(query))
    return ()


def servers(port: int) -> list[int]:
    """Prefect servers of this machine that serve on `port`."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if SERVER in words and f" --port {port} " in words:
                found.append(int(entry.name))
    return found


def day(folder: Path, study: str, *, kill_after: int, until: Callable[[tuple[Firing, ...]], bool]) -> Day:
    """Serve `study` in `folder`; kill the server once `kill_after` runs ended; stop when `until` holds."""
    home, port = folder / "prefect", free_port()
    words = command("serve", study, "--every", "5s", "--port", str(port))
    with TemporaryFile() as out, TemporaryFile() as err:
        serving = subprocess.Popen(
            words, cwd=folder, env=environment(folder), stdout=out, stderr=err, start_new_session=True
        )
        try:
            _wait(lambda: len(runs(home)) >= kill_after, serving, home)
            for process in servers(port):
                os.kill(process, signal.SIGKILL)
            before = len(runs(home))
            _wait(lambda: until(runs(home)), serving, home)
            serving.send_signal(signal.SIGTERM)  # an interrupt is ignored by what a shell started in the background
            with suppress(subprocess.TimeoutExpired):
                serving.wait(PATIENCE)
        except TimeoutError as told:
            err.seek(0)
            told.add_note(err.read().decode(errors="replace")[-4000:])
            raise
        finally:
            with suppress(ProcessLookupError):
                os.killpg(serving.pid, signal.SIGKILL)
            left = tuple(str(process) for process in servers(port))
            for process in servers(port):
                os.kill(process, signal.SIGKILL)
        out.seek(0)
        err.seek(0)
        with sqlite3.connect(home / "prefect.db", timeout=30) as store:
            ((paused,),) = store.execute("SELECT paused FROM deployment")
        return Day(runs(home), before, (out.read(), err.read()), serving.returncode or 0, left, bool(paused))


def _wait(done: Callable[[], bool], serving: "subprocess.Popen[bytes]", home: Path) -> None:
    """Until `done`, for as long as runs go on: how many of them a minute holds is the machine's affair."""
    end, seen = time.monotonic() + PATIENCE, 0
    while not done():
        if len(ran := [run for run in runs(home) if run.state != MISSED_STATE]) > seen:
            end, seen = time.monotonic() + PATIENCE, len(ran)
        if time.monotonic() > end or serving.poll() is not None:
            raise TimeoutError("the schedule stopped, or took too long")
        time.sleep(0.5)
