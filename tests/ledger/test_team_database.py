"""One PostgreSQL setting for the ledger, MLflow and Prefect; a backup restored does not grant budget again."""

import copy
import importlib.util
import json
import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import debian_postgresql
import pytest
import sqlalchemy as sa
import tomli_w
from conftest import STUDY, maintenance, new_database
from prefect.settings import PREFECT_API_URL, temporary_settings
from test_ledger import engine_of, sql

from dpbo.flows.cli import running
from dpbo.flows.stores import Stores, databases, prepare
from dpbo_core.errors import StudyInvalid
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study


def test_the_three_addresses():
    found = databases("postgresql://ann:s3cret@db.example:5433/dpbo?sslmode=require")
    assert found.ledger == "postgresql+psycopg://ann:s3cret@db.example:5433/dpbo?sslmode=require"
    assert found.mlflow.endswith("/dpbo_mlflow?sslmode=require")
    assert found.prefect.startswith("postgresql+asyncpg://ann:s3cret@db.example:5433/dpbo_prefect")


@pytest.mark.parametrize("url", ["sqlite:///x.db", "postgresql://host", "nonsense", "mysql://h/d"])
def test_other_addresses_are_messages(url):
    with pytest.raises(StudyInvalid, match="DPBO_DATABASE_URL"):
        databases(url)


def test_no_database_is_made_for_a_server_that_is_set(postgresql, monkeypatch):
    url = new_database(postgresql)
    monkeypatch.setenv("DPBO_DATABASE_URL", url)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        running._prepare_stores()
    name = sa.make_url(url).database
    assert rows(url, f"SELECT datname FROM pg_database WHERE datname LIKE '{name}%'") == [(name,)]


def test_what_belongs_to_a_machine_is_in_the_folder_that_is_set(postgresql, here, monkeypatch):
    """Locks and vaults, and how far a team's ledger had come: workers of several folders share them."""
    monkeypatch.setenv("DPBO_STATE_DIR", str(here / "state"))
    stores, ledger = Stores(), PrivacyLedger(new_database(postgresql))
    assert ledger.accounts() == ()
    assert (stores.running, stores.vaults) == (here / "state" / "running", here / "state" / "curator")
    assert len(list((here / "state").glob("ledger-*.generation"))) == 2  # by its URL, and by its identity
    assert not list(here.glob("mlruns/*"))


def rows(url, query):
    with engine_of(sa.make_url(url).set(drivername="postgresql+psycopg")).connect() as connection:
        return [tuple(row) for row in connection.execute(sa.text(query))]


@pytest.fixture
def called(monkeypatch, dpbo):
    """Run the command in this process, under an environment."""

    def call(words, environment, code):
        with monkeypatch.context() as patch:
            for name in environment.keys() & {"DPBO_DATABASE_URL", "DPBO_LEDGER_URL"}:
                patch.setenv(name, environment[name])
            ended, out, err = dpbo(*words)
        assert ended == code, err
        return SimpleNamespace(stdout=out, stderr=err)

    return call


@pytest.fixture
def team(postgresql, here, tables, called):
    """A study and a command that runs under the one setting: (url, call). Without Prefect: pg_trgm is missing."""
    return of_a_team(new_database(postgresql), here, tables, called)


@pytest.fixture
def whole_team(here, tables, called):
    """The same with Prefect. Where its server cannot be had the test fails and says what is missing."""
    if (why := debian_postgresql.missing()) is not None:
        pytest.fail(why)
    with debian_postgresql.server() as server:
        yield of_a_team(new_database(server), here, tables, called)


def of_a_team(url, here, tables, called):
    environment = os.environ | {"DPBO_DATABASE_URL": url, "PREFECT_HOME": str(here / "prefect")}

    def call(*words, edition=None, code=0, settings=None):
        if words[0] == "budget":
            return called(words, environment | (settings or {}), code)
        if edition is not None:
            tables["study"] |= {"edition": edition, "method": "private_grid"}
            (here / "study.toml").write_text(tomli_w.dumps(tables))
        command = [sys.executable, "-c", "from dpbo.flows.cli import main; main()", *words]
        run = subprocess.run(command, cwd=here, env=environment | (settings or {}), capture_output=True, text=True)
        assert run.returncode == code, run.stderr
        return run

    return url, call


def check_stores(url, run_id):
    found = databases(url)
    assert rows(found.ledger, "SELECT study, edition FROM reservations") == [("trial", "1")]
    shown = "SELECT run_uuid FROM tags WHERE key = 'dpbo.release_id'"  # beside it stands the study's own run
    assert rows(found.mlflow, shown) == [(run_id,)]
    assert rows(found.mlflow, "SELECT artifact_uri FROM runs")[0][0].startswith("mlruns/artifacts/")


@pytest.mark.slow
def test_all_three_stores_are_one_servers(whole_team, here):
    """Debian's PostgreSQL, Prefect's migrations and its server on it; and again, as the second run of a night."""
    url, call = whole_team
    document = json.loads(call("tune", "study.toml", "--json", edition="1").stdout)
    found = databases(url)
    check_stores(url, document["tracking"]["run_id"])
    call("tune", "study.toml", "--json", edition="2")
    assert rows(found.prefect, "SELECT state_name FROM flow_run") == [("Completed",), ("Completed",)]
    assert rows(found.prefect, "SELECT extname FROM pg_extension WHERE extname = 'pg_trgm'") == [("pg_trgm",)]
    assert [path.name for path in here.rglob("*.db")] == []
    assert (here / "mlruns" / "artifacts").exists()


def test_what_is_missing_for_it_is_said(tmp_path):
    """No silent skip: without the packages the test above fails with this."""
    assert "no /usr/lib/postgresql" in debian_postgresql.missing(tmp_path)
    (tmp_path / "lib/postgresql/15/bin").mkdir(parents=True)
    (tmp_path / "lib/postgresql/15/bin/initdb").touch()
    assert "without the extension pg_trgm; apt-get install" in debian_postgresql.missing(tmp_path)
    (tmp_path / "share/postgresql/15/extension").mkdir(parents=True)
    (tmp_path / "share/postgresql/15/extension/pg_trgm.control").touch()
    assert debian_postgresql.missing(tmp_path) is None


def test_a_restored_backup_grants_nothing(team, here):
    """Dump, spend, restore: the ledger refuses, and goes on only with the spends that the export still has."""
    url, call = team
    call("budget", "set", "people", "--epsilon", "3", "--delta", "1e-5")
    before = dump(url, here / "ledger.dump")
    for edition in ("1", "2"):
        run_once(url, edition)
    (here / "history.jsonl").write_text(call("budget", "export").stdout)
    restore(url, before)
    refused = call("budget", "people", code=1)
    assert "older than it was" in refused.stderr
    call("budget", "verify", "history.jsonl", "--accept-restored")
    (account,) = json.loads(call("budget", "people", "--json").stdout)["datasets"]
    assert account["spent"]["epsilon"] == pytest.approx(2.0)
    assert len(account["entries"]) == 2


def test_the_ledger_and_mlflow_are_one_servers_where_a_viewer_reads_and_writes_nothing(team, here):
    """The SQL of docs/how_to/team.md, run as it stands there. Without the command and Prefect, which the
    slow test above adds."""
    url, call = team
    tracked = publish_once(url, "1", here)
    check_stores(url, tracked.run_id)
    assert [path.name for path in here.rglob("*.db")] == []
    assert (here / "mlruns" / "artifacts").exists()
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "team.md").read_text()
    (script,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    found, name, viewer = databases(url), sa.engine.make_url(url).database, f"viewer_{uuid.uuid4().hex[:8]}"
    operator = viewer.replace("viewer", "operator")
    script = script.replace("viewer", viewer).replace("operator", operator).replace("dpbo", name)
    everywhere, inside = script.split(f"-- in {name}_mlflow:")
    run_sql(found.ledger, everywhere)
    run_sql(found.mlflow, inside)
    seen = sa.engine.make_url(found.mlflow).set(username=viewer)
    assert rows(seen, "SELECT DISTINCT key FROM metrics WHERE key = 'sigmoid'") == [("sigmoid",)]
    for statement in ("UPDATE metrics SET value = 1", "DELETE FROM runs", "CREATE TABLE mine (x int)"):
        with pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
            rows(seen, statement)
    with pytest.raises(sa.exc.OperationalError, match="permission denied"):
        rows(sa.engine.make_url(found.ledger).set(username=viewer), "SELECT 1")
    theirs = sa.engine.make_url(found.ledger).set(username=operator).render_as_string(hide_password=False)
    (account,) = json.loads(call("budget", "--json", settings={"DPBO_LEDGER_URL": theirs}).stdout)["datasets"]
    assert len(account["entries"]) == 1
    shown = sa.engine.make_url(found.mlflow).set(username=operator)
    assert rows(shown, "SELECT DISTINCT key FROM metrics WHERE key = 'sigmoid'") == [("sigmoid",)]
    for writing in (("set", "others", "--epsilon", "3"), ("allow", "people", "memory")):
        call("budget", *writing, settings={"DPBO_LEDGER_URL": theirs}, code=1)
    for address, statement in ((shown, "DELETE FROM runs"), (theirs, "DELETE FROM reservations")):
        with pytest.raises(sa.exc.ProgrammingError, match="permission denied"):
            rows(address, statement)


def test_the_table_of_roles_is_what_the_roles_can_do():
    """Each cell of docs/how_to/team.md's table is a test's: of the SQL above, or of `test_policy_runs`."""
    page = (Path(__file__).parents[2] / "docs" / "how_to" / "team.md").read_text()
    table = page.split("## Roles")[1].split("Whoever holds")[0]
    rows_ = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines() if line.startswith("|")
    ]
    assert rows_[2:] == [
        ["owner (the command, a notebook)", "writes; opens caps, adds files", "writes", "writes", "reads"],
        ["worker, and whoever holds Prefect's password", "writes", "writes", "writes", "reads"],
        ["operator", "reads (`dpbo budget`)", "–", "reads", "–"],
        ["viewer", "–", "–", "reads", "–"],
    ]


def run_sql(url, script):
    sql(url, *filter(str.strip, script.split(";")))


def run_once(url, edition):
    """A release without Prefect: the ledger alone is at stake."""
    tables = copy.deepcopy(STUDY)
    tables["study"] |= {"edition": edition, "method": "private_grid"}
    return run_study(StudySpec.from_dict(tables), ledger=PrivacyLedger(databases(url).ledger)).release


def publish_once(url, edition, here):
    """A release in the ledger and in MLflow, as the flow's tasks leave it, without a server of Prefect's."""
    from dpbo.tasks.reporting.mlflow_run import log_release

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", f"sqlite+aiosqlite:///{here / 'prefect.db'}")
        prepare(url)
    release = run_once(url, edition)
    (account,) = PrivacyLedger(databases(url).ledger).accounts("people")
    return log_release(release, account, databases(url).mlflow)


def tool(name, url, *words, **more):
    """A program of the server's own: pgserver's, or Debian's where pgserver has no wheel for this Python."""
    pgserver = importlib.util.find_spec("pgserver")
    programs = Path(pgserver.origin).parent / "pginstall" / "bin" if pgserver else debian_postgresql.programs()[-1]
    address = sa.engine.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    return subprocess.run([programs / name, *words, "-d", address], check=True, capture_output=True, **more)


def dump(url, path):
    path.write_bytes(tool("pg_dump", url, "--format=plain").stdout)
    return path


def restore(url, path):
    """Into an empty database of the same name, as an administrator would."""
    name, spare = sa.engine.make_url(url).database, f"old_{uuid.uuid4().hex}"
    server = sa.engine.make_url(url).set(database="DATABASE").render_as_string(hide_password=False)
    server = server.replace("DATABASE", "{}")
    with maintenance(server) as connection:
        connection.exec_driver_sql(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        connection.exec_driver_sql(f"ALTER DATABASE {name} RENAME TO {spare}")
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    tool("psql", url, "-q", "-v", "ON_ERROR_STOP=1", "-f", str(path))
