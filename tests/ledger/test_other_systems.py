"""What is refused on macOS and Windows, tried with what Linux alone has taken away."""

import subprocess
import sys

WITHOUT = """
import fcntl, os, sys, zoneinfo  # the last asks for what the interpreter was built for
for module, starts in ((fcntl, ("F_SEAL_", "F_ADD_SEALS")), (os, ("MFD_", "memfd_", "sched_"))):
    for name in [name for name in vars(module) if name.startswith(starts)]:
        delattr(module, name)
sys.platform = "darwin"
from dpbo_core import DpboError
from dpbo.features.isolation.available import check_enforceable
try:
    check_enforceable()
except DpboError as refused:
    print(refused.what, refused.cause, sep=": ")
"""


def test_records_scored_alone_are_refused_by_name_where_the_system_cannot():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'rowwise = "enforced" is not to be had here: darwin has no seccomp'


def test_a_server_that_is_found_is_nobodys_where_the_system_does_not_tell(tmp_path, monkeypatch):
    from dpbo.flows.prefect_runtime import schedule_server

    with schedule_server.bound_socket(0) as held:
        port = held.getsockname()[1]
        assert schedule_server.ours_alone(port)
        monkeypatch.setattr(schedule_server, "Path", lambda name: tmp_path / name.strip("/"))
        assert schedule_server.owners(port) is None
        assert not schedule_server.ours_alone(port)


def test_without_unix_locks_there_is_no_ledger():
    code = "import sys; sys.modules['fcntl'] = None; from dpbo_core import PrivacyLedger"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ModuleNotFoundError: import of fcntl halted" in done.stderr
