"""A PostgreSQL server of Debian's packages, with pg_trgm, which Prefect's tables need and pgserver's lacks."""

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

PACKAGES = "apt-get install postgresql postgresql-contrib"


def missing(top="/usr"):
    """What keeps one from being started, in words; None where nothing does."""
    if not programs(top):
        return f"no /usr/lib/postgresql/*/bin/initdb; {PACKAGES}"
    if not [*Path(top, "share/postgresql").glob("*/extension/pg_trgm.control")]:
        return f"PostgreSQL without the extension pg_trgm; {PACKAGES}"
    return None


def programs(top="/usr"):
    """The folders of the installed versions' programs, oldest first."""
    return sorted(path.parent for path in Path(top, "lib/postgresql").glob("*/bin/initdb"))


@contextmanager
def server():
    """The URL of one, ending where a database's name goes; it listens on a socket of its own folder alone."""
    folder, who = Path(tempfile.mkdtemp()), {}
    if os.geteuid() == 0:  # which it refuses to run as
        shutil.chown(folder, "postgres", "postgres")
        who = {"user": "postgres", "group": "postgres", "extra_groups": []}
    folder.chmod(0o755)
    bin_, data = programs()[-1], folder / "data"
    quiet = {"check": True, "capture_output": True, "cwd": folder, **who}
    subprocess.run([bin_ / "initdb", "--auth=trust", "--username=postgres", "--no-sync", "-D", data], **quiet)
    options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
    log = folder / "log"
    subprocess.run([bin_ / "pg_ctl", "-D", data, "-w", "-l", log, "-o", options, "start"], **quiet)
    try:
        yield f"postgresql+psycopg://postgres@/{{}}?host={folder}"
    finally:
        subprocess.run([bin_ / "pg_ctl", "-D", data, "-m", "immediate", "stop"], **quiet)
        shutil.rmtree(folder, ignore_errors=True)
