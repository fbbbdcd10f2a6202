"""What nearly every test needs and none may notice: tables made once a session, and copied.

MLflow's steps and Prefect's take from a second to ten. Each is taken once, by the product's own code; after that
the databases are copied. Tests of the making itself ask for the fixture `from_scratch`. A figure is always made,
and its pixels once for each name; tests of what a picture shows ask for `real_pixels`.
"""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from dpbo_core.privacy.atomically import create_atomically


class Pixels:
    """What stands for a figure's `savefig`: of figures of one name, the first one's file."""

    def __init__(self, honest):
        self.honest, self.kept = honest, {}

    def __get__(self, figure, _):
        return self.honest if figure is None else partial(self, figure)

    def __call__(self, figure, path, **options):
        kind = (path.name, tuple(options.items()))
        if kind not in self.kept:
            self.honest(figure, path, **options)
            self.kept[kind] = path.read_bytes()
        path.write_bytes(self.kept[kind])


class Certificates:
    """What stands for `ssl.create_default_context`: those of one file are read once, and not by every client.

    Prefect makes such a context for each of its clients, though it speaks to a server of this machine without TLS.
    """

    def __init__(self, honest):
        self.honest, self.kept = honest, {}

    def __call__(self, *given, **options):
        if given or set(options) != {"cafile"}:
            return self.honest(*given, **options)
        file = options["cafile"]
        if file not in self.kept:
            self.kept[file] = self.honest(**options)
        return self.kept[file]


class Databases:
    """MLflow's and Prefect's databases in SQLite files, made once for every process of the session."""

    def __init__(self, folder: Path):
        from dpbo.tasks.reporting import mlflow_store

        self.folder, self.make_mlflow, self.server, self.database = folder, mlflow_store._make, None, None

    def mlflow(self, place: Path):
        """As `_make` makes it, at `place`: nothing in it depends on where it lies."""
        create_atomically(self.folder / "mlflow.db", self.make_mlflow)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self.folder / "mlflow.db", place)

    def prefect(self, place: Path):
        """A copy of the empty database that Prefect's migrations make, once in a virtual environment."""
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(empty_prefect_database(), place)

    @contextmanager
    def prefect_server(self):
        """Prefect's own harness, on a database that has its tables; one server a process."""
        from prefect.testing import utilities

        from dpbo.flows.prefect_runtime.flow_runs import disable_heartbeat
        from dpbo.flows.prefect_runtime.run_server import EPHEMERAL_SETTINGS

        def folder():
            made = tempfile.mkdtemp()
            self.prefect(Path(made) / "prefect-test.db")
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(utilities, "mkdtemp", folder)
            patch.setenv("PREFECT_API_DATABASE_MIGRATE_ON_START", "0")  # they are taken
            for name, value in EPHEMERAL_SETTINGS.items():
                patch.setenv(name, value)
            patch.setattr(utilities, "SubprocessASGIServer", self._standing(utilities.SubprocessASGIServer))
            with utilities.prefect_test_harness(server_startup_timeout=300), disable_heartbeat():
                patch.undo()
                yield

    def _standing(self, honest):
        """What stands for Prefect's class in its harness: always the same server, which goes on when it ends."""
        from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL

        def one(port):
            if self.server is None:
                self.server, self.database = honest(port=port), PREFECT_API_DATABASE_CONNECTION_URL.value()
                self.server.stop = lambda: None
            return self.server

        one._instances = honest._instances
        return one

    def close(self):
        if self.server is not None:
            self.server.server_process.kill()  # asked to end, it takes seconds
            type(self.server).stop(self.server)


def empty_prefect_database():
    """The file with Prefect's tables that tests copy."""
    place = Path(sys.prefix) / f"prefect-{version('prefect')}.db"
    create_atomically(place, _migrate)
    return place


def _migrate(place):
    around = os.environ | {"PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{place}"}
    command = [sys.executable, "-m", "prefect", "server", "database", "upgrade", "-y"]
    subprocess.run(command, env=around, check=True, capture_output=True)
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")  # one file, whole in itself


def shared(factory):
    """A folder that all processes of this session have."""
    here = factory.getbasetemp()
    return here.parent if "PYTEST_XDIST_WORKER" in os.environ else here
