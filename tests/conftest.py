"""What tests share: a study that runs in a second, and its files."""

import copy
import functools
import gc
import itertools
import os
import shutil
import ssl
import sys
import tempfile
import uuid
from contextlib import nullcontext
from types import SimpleNamespace

import absl.logging  # comes with dp-accounting
import debian_postgresql
import pytest
from hypothesis import HealthCheck, settings
from made_once import Certificates, Databases, Pixels, shared
from shares import InShares, place

os.environ.setdefault("OMP_NUM_THREADS", "1")
STATE = tempfile.TemporaryDirectory()  # what a user saw of a ledger is kept here, and not in the real home
os.environ["XDG_STATE_HOME"] = STATE.name
# Prefect, configuring logging, closes every handler, and this one would close pytest's own stream with itself.
absl.logging.get_absl_handler().python_handler.stream = sys.__stderr__
# No example has a deadline: what a busy machine needs for one says nothing of it.
settings.register_profile("unhurried", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
NUMBERS = itertools.count()  # no test comes where another was: engines are kept by their files' names

STUDY = {
    "study": {"name": "trial", "method": "private_trajectory"},
    "privacy": {"dataset": "people", "epsilon": 1.0, "delta": 1e-6, "anyway": True},  # small: some are useless
    "budget": {"epsilon": 3.0, "delta": 1e-5},
    "data": {"source": "breast_cancer", "validation_share": 0.5},
    "model": {"estimator": "logistic", "score": "sigmoid", "steepness": 10.0},
    "space": {"lambda": {"low": 1e-4, "high": 10.0, "log": True, "points": 16}},
    "search": {"steps": 5},
}


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported stays to the end, and need not be looked through for garbage, meanwhile or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(50_000, 50, 50)
        gc.enable()


@pytest.hookimpl(optionalhook=True)  # without -n there is no such hook
def pytest_xdist_make_scheduler(config, log):
    return InShares(config, log)


@pytest.fixture
def tmp_path(request, tmp_path_factory):
    """A folder that goes with its test, unless that failed: at the session's end there would be a minute's work."""
    path, failed = tmp_path_factory.mktemp(f"test-{next(NUMBERS)}", numbered=False), request.session.testsfailed
    yield path
    if request.session.testsfailed == failed:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def tables():
    """A study as plain tables, free to be changed."""
    return copy.deepcopy(STUDY)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder, without the user's settings."""
    for name in ("DPBO_DATABASE_URL", "DPBO_LEDGER_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def url(tmp_path):
    """A place for a ledger in a file."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(scope="session")
def databases(tmp_path_factory):
    """MLflow's and Prefect's databases, made once for the session's processes."""
    made = Databases(shared(tmp_path_factory))
    yield made
    made.close()


@pytest.fixture(scope="module")
def prefect_server(databases):
    """Prefect's server of this process, which the runs of a file find."""
    with databases.prefect_server():
        yield


@pytest.fixture
def served(monkeypatch):
    """(deployment, options) of all that Prefect would serve; neither a server nor a store is made."""
    server = SimpleNamespace(started=False, api="http://127.0.0.1:1/api", auth=None, password_file=None)
    monkeypatch.setattr("dpbo.flows.serve.loopback_server", lambda *_, **__: nullcontext(server))
    deployments = []
    monkeypatch.setattr("prefect.serve", lambda deployment, **options: deployments.append((deployment, options)))
    return deployments


@pytest.fixture(scope="session", autouse=True)
def made_once(databases):
    """MLflow stores and pictures come of the first one's making: see made_once.py."""
    from matplotlib.figure import Figure

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", Certificates(ssl.create_default_context))
        patch.setattr(Figure, "savefig", Pixels(Figure.savefig))
        patch.setattr("dpbo.tasks.reporting.mlflow_store._make", databases.mlflow)
        yield patch


@pytest.fixture(scope="session", autouse=True)
def unhurried_disk():
    """Nothing in a file of a test's outlives the session: what is written is not waited for.

    A killed process loses nothing by it; only a machine that loses its power would.
    """
    import sqlalchemy as sa

    def relax(connection):
        if connection.dialect.name == "sqlite" and not connection.dialect.is_async:
            connection.connection.dbapi_connection.execute("PRAGMA synchronous=OFF")

    sa.event.listen(sa.Engine, "engine_connect", relax)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield
    sa.event.remove(sa.Engine, "engine_connect", relax)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """A command narrows its process's umask, and here the process goes on with other tests."""
    before = os.umask(0o022)
    try:
        return (yield)
    finally:
        os.umask(before)


@pytest.fixture(scope="session", autouse=True)
def few_draws():
    """No selection pauses, so that its time tells nothing: a test of thousands of them need not.

    A report's intervals come of 500 simulated tables, and not of 4,000, in the short run.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpbo_core.mechanisms.exponential.SELECTION_PAUSE_S", 1e-6)
        if "DPBO_AT_LENGTH" not in os.environ:
            patch.setattr("dpbo_core.report.noised_table.PAIRS", 250)
        yield


@pytest.fixture
def from_scratch(databases, made_once, monkeypatch):
    """The product's own making of MLflow stores, for the tests of just that."""
    monkeypatch.setattr("dpbo.tasks.reporting.mlflow_store._make", databases.make_mlflow)


@pytest.fixture
def real_pixels(made_once, monkeypatch):
    """Every picture drawn to its last pixel, for the tests of what pictures show."""
    from matplotlib.figure import Figure

    monkeypatch.setattr(Figure, "savefig", Figure.savefig)


@pytest.fixture(scope="session")
def postgresql_server():
    """The URL of a real PostgreSQL server of this session's own, ending where a database's name goes.

    It is pgserver's, or Debian's where pgserver has no wheel for this Python.
    """
    try:
        import pgserver
    except ImportError:
        if (why := debian_postgresql.missing()) is not None:
            pytest.skip(f"pgserver has no wheel for this Python, and there is {why}")
        with debian_postgresql.server() as url:
            yield url
        return
    folder = tempfile.mkdtemp()  # not pytest's: as root the server runs under another user, who must get there
    server = pgserver.get_server(folder, cleanup_mode="stop")
    for unneeded in ("fsync", "full_page_writes"):  # nothing here outlives the session
        server.psql(f"ALTER SYSTEM SET {unneeded} = off")
    server.psql("SELECT pg_reload_conf()")
    yield server.get_uri("{}").replace("postgresql://", "postgresql+psycopg://")
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgresql(postgresql_server):
    """The server's URL; what a test leaves connected is sent away after it."""
    url = postgresql_server
    yield url
    with maintenance(url) as connection:  # a test's ledgers are garbage, collected late; a hundred are let in
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request, here):
    """A place for a new ledger, in either database; the current folder is empty too."""
    if request.param == "sqlite":
        return f"sqlite:///{here / 'ledger.db'}"
    return new_database(request.getfixturevalue("postgresql"))


def new_database(server, of="template1"):
    """The URL of a new database in `server`, empty or a copy of the database `of`, which nobody may be in."""
    name = f"ledger_{uuid.uuid4().hex}"
    with maintenance(server) as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} TEMPLATE {of}")
    return server.format(name)


def maintenance(server):
    """A connection to `server`'s own database, outside transactions."""
    return _administration(server.format("postgres")).connect()


@functools.cache  # whose first connection asks more than the others
def _administration(url):
    import sqlalchemy as sa

    return sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.pool.NullPool)


@pytest.fixture
def dpbo(here, monkeypatch, capsys):
    """Run the command in this process, in an empty folder: (exit code, standard output, standard error)."""
    from dpbo.flows.cli import main

    def call(*words):
        monkeypatch.setenv("DPBO_PLAIN", "")
        monkeypatch.setattr(sys, "argv", ["dpbo", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call
