"""A second user of this machine, and a web page: what they can do to a server that dpbo started.

The second user is uid 65534 in a process that was root a moment ago (it needs our interpreter's files, no more) and
has given up every right before the attack runs. Where the tests are not run as root there is no second user.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from made_once import empty_prefect_database

NOBODY = 65534
DROP = f"""
import asyncio, base64, json, os, socket, sys, time
from pathlib import Path
import httpx, websockets
from contextlib import suppress
async def load():
    async with websockets.connect("ws://localhost:9"):
        pass
with suppress(OSError):
    asyncio.run(load())  # what they import late lies where the second user may not read
with suppress(httpx.HTTPError):
    httpx.get("http://localhost:9")
os.chdir("/")
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})
assert os.getuid() == os.geteuid() == {NOBODY}
given = json.loads(sys.argv[1])
"""


def as_nobody(script: str, **given: object) -> object:
    """What `script` prints as JSON, run by the second user; it finds `given` by that name."""
    if os.geteuid() != 0:
        pytest.skip("a second user attacks: only root can become one")
    done = subprocess.run(
        [sys.executable, "-c", DROP + script, json.dumps(given)],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def wait_until(
    done: Callable[[], object], *, seconds: float = 180.0, alive: Callable[[], bool] = lambda: True
) -> None:
    """Return when `done` holds; it is an error if it does not within so long that no machine is that slow."""
    end = time.monotonic() + seconds
    while not done():
        assert alive(), "the command ended before"
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.1)


def command(*words: str) -> list[str]:
    """`dpbo` of this checkout."""
    return [sys.executable, "-c", "from dpbo.flows.cli import main; main()", *words]


def environment(folder: Path) -> dict[str, str]:
    """Ours, without the settings of whoever runs the tests; Prefect's home lies in `folder`."""
    strange = ("DPBO_", "MLFLOW_", "PREFECT_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    (folder / "tmp").mkdir(exist_ok=True)
    home = folder / "prefect"
    if not home.exists():
        home.mkdir(mode=0o700)
        shutil.copy(empty_prefect_database(), home / "prefect.db")
    return clean | {"PREFECT_HOME": str(folder / "prefect"), "TMPDIR": str(folder / "tmp")}


def family(pid: int) -> set[int]:
    """The process and all that descend from it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found, grown = {pid}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found


def lives(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
