"""One observed run, in namespaces of its own: `python -m observer.inside`, a run as JSON on its standard input.

It starts as root and as the first process of its namespaces: nothing else is on its network, in /proc, in /tmp,
/var/tmp, /run and /dev/shm. The answer is on its standard output.
"""

import base64
import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from observer import stores
from observer.frozen import ASKED, FAULT, TAPE, TRIALS
from observer.notes import Notes

TOPS = ("/tmp", "/var/tmp", "/run", "/dev/shm")
HOUSE = Path("/tmp/house")
TEAM, HOME, SECRET = HOUSE / "team", HOUSE / "home", Path("/mnt/secret")
LONGEST = 500.0  # seconds
TESTS = Path(__file__).parents[1]


def _own_folders() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for top in (*TOPS, "/mnt"):
        mode = b"mode=0755" if top in ("/run", "/mnt") else b"mode=1777"
        if libc.mount(b"none", top.encode(), b"tmpfs", 0, mode) != 0:
            raise OSError(ctypes.get_errno(), f"mount {top}")


def _loopback_up() -> None:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: up, running


def _write(files: dict[str, str]) -> None:
    for folder in (HOUSE, TEAM, HOME):
        folder.mkdir(mode=0o755)
    for name, text in files.items():
        path = TEAM / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
        path.chmod(0o600 if "validation" in name else 0o644)


def _stock(stock: dict[str, str]) -> None:
    """The empty databases of Prefect and of MLflow, as an earlier command left them: making them takes long."""
    for name, raw in stock.items():
        path = HOUSE / name
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_bytes(base64.b64decode(raw))
        path.chmod(0o600)


def _environment(run: dict[str, Any]) -> dict[str, str]:
    strange = ("DPBO_", "MLFLOW_", "PREFECT_", "OBSERVER_", "PYTEST_", "XDG_", "TMPDIR")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    path = os.pathsep.join((str(TESTS / "observer" / "hook"), str(TESTS), str(TESTS.parent)))
    ours = {"HOME": str(HOME), "PYTHONPATH": path, TAPE: str(SECRET / "tape"), TRIALS: str(run["trials"])}
    fault = ({FAULT: run["fault"]} if run["fault"] else {}) | ({ASKED: str(SECRET)} if run["asks"] else {})
    return clean | ours | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"} | fault | run["environment"]


def _hear(observer: subprocess.Popen[bytes], told: list[bytes]) -> None:
    """Which ports were asked, each a file that no other user sees; at last what was seen."""
    assert observer.stdout is not None
    for line in observer.stdout:
        if line.startswith(b"asked "):
            (SECRET / f"asked-{int(line[6:])}").touch()
        else:
            told.append(line)


def main() -> None:
    run = json.load(sys.stdin)
    _own_folders()
    _loopback_up()
    os.umask(0o022)
    SECRET.mkdir(mode=0o700)
    if run["tape"] is not None:
        (SECRET / "tape").write_text(run["tape"])
    _write(run["files"])
    _stock(run["stock"])
    observer = subprocess.Popen(
        [sys.executable, "-m", "observer.second_user", str(os.getpid()), "1" if run["asks"] else "0", *TOPS],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=TESTS,
        env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(TESTS)},
    )  # fmt: skip
    assert observer.stdin is not None
    assert observer.stdout is not None
    assert observer.stdout.readline() == b"ready\n"
    told: list[bytes] = []
    hearing = threading.Thread(target=_hear, args=(observer, told))
    hearing.start()
    notes, begun = Notes(), time.monotonic()
    with (SECRET / "out").open("wb") as out, (SECRET / "err").open("wb") as err:
        command = subprocess.Popen(
            run["command"], cwd=TEAM, env=_environment(run), stdout=out, stderr=err, stdin=subprocess.DEVNULL
        )
        code = command.wait(LONGEST)
    notes.number("durations", "seconds", time.monotonic() - begun)
    _end_what_is_left()
    observer.stdin.close()
    hearing.join()
    said = {"stdout": (SECRET / "out").read_bytes(), "stderr": (SECRET / "err").read_bytes()}
    stores.streams(notes, said, code)
    stores.databases(
        notes,
        {"Prefect": _prefect(), "MLflow": TEAM / "mlruns" / "mlflow.db", "ledger": TEAM / "mlruns" / "ledger.db"},
    )
    stores.folder(notes, "Prefect's home", HOME)
    stores.folder(notes, "MLflow's files", TEAM / "mlruns", ("curator", "ledger"))
    stores.folder(notes, "published files", TEAM, ("mlruns", "validation", "parts", "curator"))
    tape = (SECRET / "tape").read_text() if (SECRET / "tape").exists() else "{}"
    json.dump(
        {
            "seen": json.loads(b"".join(told)) | notes.plainly(),
            "tape": tape,
            "said": {name: base64.b64encode(raw).decode() for name, raw in said.items()},
            "code": code,
        },
        sys.stdout,
    )


def _prefect() -> Path:
    """Prefect's database; where its server was stopped, as it was at rest before, for stopping is a race."""
    home = HOME / ".prefect"
    return next((home / name for name in ("at-rest.db", "prefect.db") if (home / name).exists()), home)


def _end_what_is_left() -> None:
    """Wait for what the command leaves behind; what is still there after a while stays for the kernel to end."""
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                others = [
                    entry for entry in Path("/proc").iterdir() if entry.name.isdecimal() and entry.name != "1"
                ]
                if len(others) <= 1:
                    return
                time.sleep(0.1)
        except ChildProcessError:
            return


if __name__ == "__main__":
    main()
