"""A store is whole or not there, whoever is killed and whoever comes second."""

import os
import signal
import sqlite3
import subprocess
import sys

import pytest

from dpbo.tasks.reporting.mlflow_store import open_store
from dpbo_core.privacy.atomically import create_atomically


def write(text):
    return lambda path: path.write_text(text)


def test_the_first_wins_and_is_never_replaced(tmp_path):
    path = tmp_path / "deep" / "store.db"
    assert create_atomically(path, write("first")) is True
    assert create_atomically(path, write("second")) is False
    path.unlink()
    assert create_atomically(path, lambda built: (built.write_text("third"), path.write_text("faster"))) is False
    assert path.read_text() == "faster"
    assert [item.name for item in path.parent.iterdir()] == ["store.db"]


def test_a_maker_that_fails_leaves_nothing(tmp_path):
    def fails(built):
        built.write_text("half")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        create_atomically(tmp_path / "store.db", fails)
    assert list(tmp_path.iterdir()) == []


def test_a_kill_while_the_store_is_made_leaves_no_store(tmp_path):
    script = (
        "import os, signal, sys\nfrom pathlib import Path\n"
        "from dpbo_core.privacy.atomically import create_atomically\n"
        "def make(built):\n    built.write_text('half')\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "create_atomically(Path(sys.argv[1]), make)"
    )
    path = tmp_path / "store.db"
    killed = subprocess.run([sys.executable, "-c", script, str(path)], env=os.environ)
    assert killed.returncode == -signal.SIGKILL
    assert not path.exists()
    assert create_atomically(path, write("whole")) is True


def test_mlflows_store_appears_whole(tmp_path):
    path = tmp_path / "mlflow.db"
    client = open_store(f"sqlite:///{path}").client
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*) FROM alembic_version").fetchone() == (1,)
    assert client.get_experiment_by_name("nothing") is None
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_of_four_first_commands_each_has_mlflows_store(tmp_path):
    """MLflow itself crashes where two make the tables of one file."""
    script = "import sys; from dpbo.tasks.reporting.mlflow_store import open_store; open_store(sys.argv[1])"
    command = [sys.executable, "-c", script, f"sqlite:///{tmp_path / 'mlflow.db'}"]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4, [process.stderr.read() for process in running]
