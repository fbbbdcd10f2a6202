"""A machine of its own for the deployment: folders, network and processes that are gone when it ends.

Whatever is written to /etc, /var, /srv, /home, /opt, /root or /usr/local lies above the real ones, in memory; the
environment of Python in /opt/dpbo alone is kept in build/deployment, since it takes a minute.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "deployment"
CHECKOUT = Path("/srv/checkout")
ABOVE = ("/etc", "/var", "/srv", "/home", "/opt", "/usr/local")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STRANGE = ("DPBO_", "MLFLOW_", "PREFECT_", "PYTHON", "VIRTUAL_ENV", "PYENV", "DO_NOT_TRACK", "CI")
SHIM = f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("units.py")} systemctl "$@"\n'


def words():
    """The environment of a root that has just logged in, with what pip needs here."""
    return {name: value for name, value in os.environ.items() if not name.startswith(STRANGE)} | {
        "PATH": PATH,
        "HOME": "/root",
    }


def unshared(stage, *kinds):
    """This program's next stage, in namespaces of its own; its exit code."""
    command = ["unshare", *kinds, "--fork", "--kill-child", sys.executable, "-m", "deployment", stage]
    return subprocess.run(command, check=False).returncode


def mount(*words_):
    subprocess.run(["mount", *words_], check=True)


def build():
    """Empty folders above the machine's own, the checkout, and a `systemctl` that starts what units say."""
    scratch = BUILD / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    (BUILD / "opt").mkdir(exist_ok=True)
    mount("-t", "tmpfs", "-o", "mode=0755", "deployment", str(scratch))
    for place in ABOVE:
        upper, work = (scratch / kind / place.strip("/") for kind in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        mount("-t", "overlay", "-o", f"lowerdir={place},upperdir={upper},workdir={work}", "overlay", place)
    for place, mode in (("/run", "0755"), ("/tmp", "1777")):
        mount("-t", "tmpfs", "-o", f"mode={mode}", "deployment", place)
    Path("/opt/dpbo").mkdir()
    mount("--bind", str(BUILD / "opt"), "/opt/dpbo")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    for name in listed:
        if (ROOT / name).exists() or (ROOT / name).is_symlink():
            (CHECKOUT / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, CHECKOUT / name, follow_symlinks=False)
    shim = Path("/usr/local/sbin/systemctl")
    shim.write_text(SHIM)
    shim.chmod(0o755)
