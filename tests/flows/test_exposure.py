"""What dpbo doctor says of a deployment: each fault is planted and named, and nothing is changed."""

import base64
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from answering import answering
from conftest import new_database

from dpbo.flows.cli import exposure
from dpbo_core.accounting.budget import PrivacyBudget
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.ledger.sources import file_source


@pytest.fixture
def open_folder(here, monkeypatch):
    """A current folder that others may enter, as no folder of pytest's is."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        monkeypatch.chdir(name)
        home = Path(name, "prefect")
        monkeypatch.setattr(exposure, "_of_prefect", lambda: (home, home / "profiles.toml"))
        yield Path(name)


def wrong(look):
    return [finding.observed for finding in look if finding.verdict == "wrong"]


def test_files_that_others_can_read_are_named(open_folder):
    """The folder of the stores, a vault, and the sensitive file itself; not what lies behind a closed folder."""
    for name in ("mlruns", "mlruns/curator", "prefect"):
        Path(name).mkdir(mode=0o755)
    Path("prefect/profiles.toml").write_text("active = 'default'\n")  # of no secret, so nobody need hide it
    Path("visits.csv").write_text("a,y\n")
    Path("visits.csv").chmod(0o640)
    Path("closed").mkdir(mode=0o700)
    Path("closed/visits.csv").touch(0o644)
    ledger = PrivacyLedger("sqlite:///mlruns/ledger.db")
    for name in ("visits.csv", "closed/visits.csv"):
        cap = PrivacyBudget.of(name.replace("/", " "), epsilon=1.0, delta=0.0)
        ledger.set_budget(cap, sources=(file_source(name),))
    before = {path: path.stat().st_mode for path in open_folder.rglob("*")}
    (seen,) = wrong(exposure.files(ledger.accounts()))
    named = seen.removeprefix("others can read ").split(", ")
    assert [Path(name).name for name in named] == ["mlruns", "curator", "visits.csv"]
    assert {path: path.stat().st_mode for path in open_folder.rglob("*")} == before
    Path("prefect/profiles.toml").write_text("PREFECT_API_AUTH_STRING = 'a:b'\n")
    (seen,) = wrong(exposure.files(ledger.accounts()))
    assert seen.endswith("profiles.toml, " + str(open_folder.resolve() / "visits.csv"))
    for name in ("mlruns", "mlruns/curator", "visits.csv", "prefect"):
        Path(name).chmod(0o700)
    assert wrong(exposure.files(ledger.accounts())) == []


def test_a_vault_on_another_machines_disk(here, monkeypatch):
    mounts = here / "mounts"
    monkeypatch.setattr(exposure, "MOUNTS", mounts)
    root = "/dev/vda / ext4 rw 0 0\n"
    for kind, said in (("nfs4", "nfs4"), ("fuse.sshfs", ""), ("cifs", "cifs"), ("ext4", "")):
        mounts.write_text(f"{root}server:/home {here} {kind} rw 0 0\n")
        found = wrong(exposure.shared_folders())
        assert bool(found) == bool(said)
        assert said in "".join(found)
    mounts.write_text(root)
    assert wrong(exposure.shared_folders()) == []


def test_a_ledger_server_that_lets_others_in(postgresql, here, monkeypatch):
    """pgserver's asks nobody for anything; a role that may write beside the owner is named, a reader is not."""
    url = new_database(postgresql)
    monkeypatch.setenv("DPBO_LEDGER_URL", url)
    PrivacyLedger(url).accounts()
    with sa.create_engine(url, poolclass=sa.pool.NullPool).begin() as connection:
        for role, right in (("exposed_writer", "INSERT"), ("exposed_reader", "SELECT")):
            connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
            connection.exec_driver_sql(f"GRANT {right} ON reservations TO {role}")
    findings = list(exposure.ledger_server())
    assert wrong(findings) == ["its server lets anybody in as its administrator", "exposed_writer may write it too"]


def test_a_ledger_that_travels_in_the_open(here, monkeypatch):
    monkeypatch.setattr(exposure, "_lets_in", lambda address: False)
    monkeypatch.setattr(exposure, "_writers", lambda address: [])
    for url, unencrypted in (
        ("postgresql://ann@db.example/dpbo", True),
        ("postgresql://ann@db.example/dpbo?sslmode=prefer", True),
        ("postgresql://ann@db.example/dpbo?sslmode=verify-full", False),
        ("postgresql://ann@127.0.0.1/dpbo", False),
        ("postgresql://ann@/dpbo?host=/run/dpbo-postgresql", False),
        ("sqlite:///ledger.db", False),
    ):
        monkeypatch.setenv("DPBO_LEDGER_URL", url)
        assert wrong(exposure.ledger_server()) == ["its entries travel unencrypted"] * unencrypted, url


SHIPPED = "Basic " + base64.b64encode(b"admin:password1234").decode()


@pytest.mark.parametrize(("allowed", "said"), [
    (lambda sent: True, "for whoever asks"), (lambda sent: sent == SHIPPED, "that MLflow ships"),
    (lambda sent: False, "none is set"),
])  # fmt: skip
def test_a_tracking_server_without_authentication(here, monkeypatch, allowed, said):
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)

    def respond(method, headers, body):
        return 200 if allowed(headers.get("Authorization")) else 401, b""

    with answering(respond) as port:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{port}")
        (seen,) = wrong(exposure.tracking_server())
        assert said in seen
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "curator")
        assert bool(wrong(exposure.tracking_server())) == (said != "none is set")


def test_passwords_in_the_open(here, monkeypatch):
    import httpx

    monkeypatch.setattr(httpx, "get", lambda *_, **__: SimpleNamespace(status_code=401))
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "curator")
    for uri, is_wrong in (("http://mlflow.example", True), ("https://mlflow.example", False)):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        assert bool(wrong(exposure.tracking_server())) == is_wrong
        assert bool(wrong(exposure.prefect_in_the_open(f"{uri}/api"))) == is_wrong
    assert wrong(exposure.prefect_in_the_open(None)) == []
    assert os.environ["MLFLOW_TRACKING_URI"] == "https://mlflow.example"
