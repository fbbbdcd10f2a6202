"""A small stand-in for systemd where none runs: it reads the unit files themselves, and starts what they say.

python units.py systemctl start|stop|restart|enable|daemon-reload|is-active [--now] UNIT…     (as root)
python units.py supervise UNIT

Of [Service] it follows User, WorkingDirectory, EnvironmentFile, UMask, NoNewPrivileges, RuntimeDirectory and its
mode, ExecStart, KillSignal, Restart and RestartSec; it refuses a key that it does not know, so that nothing that
is shipped is passed over in silence.
"""

import os
import pwd
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

FOLDER, STATE = Path("/etc/systemd/system"), Path("/run/units")
FOLLOWED = {"User", "WorkingDirectory", "EnvironmentFile", "UMask", "NoNewPrivileges", "RuntimeDirectory",
            "RuntimeDirectoryMode", "ExecStart", "KillSignal", "Restart", "RestartSec"}  # fmt: skip
LEFT = {"Type", "ExecReload", "TimeoutStopSec", "OOMScoreAdjust"}  # waiting, reloading and the kernel's choice
AS_SYSTEMD = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG": "C.UTF-8"}


def service(unit):
    """[Service] of a unit file: key → value. Each key once."""
    text = (FOLDER / f"{unit.removesuffix('.service')}.service").read_text().replace("\\\n", " ")
    section = text.split("[Service]")[1].split("\n[")[0]
    lines = [line.split("=", 1) for line in section.splitlines() if line and not line.startswith("#")]
    found = dict(lines)
    strange = sorted(set(found) - FOLLOWED - LEFT)
    if strange or len(found) != len(lines):
        raise SystemExit(f"{unit}: {strange or 'a key comes twice'}, which nobody here follows")
    return found


def environment(found):
    """What the service gets: its user's names, and the file of settings, read as root reads it."""
    user = pwd.getpwnam(found["User"])
    made = AS_SYSTEMD | {"HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name}
    if "EnvironmentFile" in found:
        lines = Path(found["EnvironmentFile"]).read_text().splitlines()
        made |= dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    return made


def start(found, log):
    """The service's process: its user's, with its groups, in its folder."""
    user = pwd.getpwnam(found["User"])
    if (name := found.get("RuntimeDirectory")) is not None:
        place = Path("/run") / name
        place.mkdir(exist_ok=True)
        place.chmod(int(found["RuntimeDirectoryMode"], 8))
        os.chown(place, user.pw_uid, user.pw_gid)
    held = ["setpriv", "--no-new-privs"] if found.get("NoNewPrivileges") == "yes" else []
    return subprocess.Popen(
        [*held, *shlex.split(found["ExecStart"])],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=os.getgrouplist(user.pw_name, user.pw_gid),
        umask=int(found["UMask"], 8),
        cwd=found.get("WorkingDirectory", "/"),
        env=environment(found),
        stdout=log,
        stderr=log,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def end_group(pid):
    """Whatever is left of the process's group is killed, as systemd does with a unit's."""
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


def supervise(unit):
    """Run it, and again when it ends, as its Restart says, until told to stop."""
    found, stopping = service(unit), []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    kind = signal.Signals[found.get("KillSignal", "SIGTERM")]
    with (STATE / f"{unit}.log").open("ab") as log:
        while True:
            process = start(found, log)
            (STATE / f"{unit}.main").write_text(str(process.pid))
            while process.poll() is None and not stopping:
                time.sleep(0.1)
            if stopping and process.poll() is None:
                process.send_signal(kind)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(60)
            end_group(process.pid)
            process.wait()
            again = {"always": True, "on-failure": process.returncode != 0}.get(found.get("Restart"), False)
            if stopping or not again:
                return
            time.sleep(float(found.get("RestartSec", "0.1")))


def supervisor(unit):
    """The pid of the process that runs it; None where none does."""
    place = STATE / f"{unit}.pid"
    try:
        pid = int(place.read_text())
        line = Path(f"/proc/{pid}/stat").read_text()
    except (OSError, ValueError):
        return None
    return None if line.rpartition(")")[2].split()[0] == "Z" else pid


def up(unit):
    STATE.mkdir(exist_ok=True)
    if supervisor(unit) is None:
        nowhere = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        process = subprocess.Popen([sys.executable, __file__, "supervise", unit], start_new_session=True, **nowhere)
        (STATE / f"{unit}.pid").write_text(str(process.pid))


def down(unit):
    pid = supervisor(unit)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        while supervisor(unit) is not None:
            time.sleep(0.1)


def systemctl(verb, *units):
    """As much of it as the page of the deployment asks for."""
    now = "--now" in units
    names = [unit.removesuffix(".service") for unit in units if unit != "--now"]
    for unit in names:
        if verb in ("stop", "restart") or (verb == "disable" and now):
            down(unit)
        if verb in ("start", "restart") or (verb == "enable" and now):
            up(unit)
        if verb == "is-active" and supervisor(unit) is None:
            raise SystemExit(3)


if __name__ == "__main__":
    {"systemctl": systemctl, "supervise": supervise}[sys.argv[1]](*sys.argv[2:])
