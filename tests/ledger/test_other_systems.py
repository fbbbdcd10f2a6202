"""What is refused on macOS and Windows, tried with what Linux alone has taken away."""

import subprocess
import sys


def test_a_server_that_is_found_is_nobodys_where_the_system_does_not_tell(tmp_path, monkeypatch):
    from dpbo.flows.prefect_runtime import schedule_server

    with schedule_server.bound_socket(0) as held:
        port = held.getsockname()[1]
        assert schedule_server.is_owned_by_user(port)
        monkeypatch.setattr(schedule_server, "Path", lambda name: tmp_path / name.strip("/"))
        assert schedule_server.owners(port) is None
        assert not schedule_server.is_owned_by_user(port)


def test_without_unix_locks_there_is_no_ledger():
    code = "import sys; sys.modules['fcntl'] = None; from dpbo_core import PrivacyLedger"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ModuleNotFoundError: import of fcntl halted" in done.stderr
