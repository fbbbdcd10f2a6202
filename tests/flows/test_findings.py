"""What dpbo doctor finds of files that others can read: each is named, and nothing is changed."""

from pathlib import Path

import pytest

from dpbo.flows.cli import doctor
from dpbo_core.ledger.accounting.account import PrivacyBudget
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
        monkeypatch.setattr(doctor, "prefect_home", lambda: home)
        monkeypatch.setattr(doctor, "prefect_is_configured", lambda: False)
        yield Path(name)


def wrong(look):
    return [finding.observed for finding in look if finding.verdict == "wrong"]


def test_files_that_others_can_read_are_named(open_folder):
    """The folder of the stores, a vault, and the sensitive file itself; not what lies behind a closed folder."""
    for name in ("mlruns", "mlruns/curator", "prefect"):
        Path(name).mkdir(mode=0o755)
    Path("prefect/profiles.toml").write_text("active = 'default'\n")  # of no secret, so nobody need hide it
    Path("prefect/prefect.db").touch(0o644)
    Path("visits.csv").write_text("a,y\n")
    Path("visits.csv").chmod(0o640)
    Path("closed").mkdir(mode=0o700)
    Path("closed/visits.csv").touch(0o644)
    ledger = PrivacyLedger("sqlite:///mlruns/ledger.db")
    for name in ("visits.csv", "closed/visits.csv"):
        cap = PrivacyBudget.of(name.replace("/", " "), epsilon=1.0, delta=0.0)
        ledger.set_budget(cap, sources=(file_source(name),))
    before = {path: path.stat().st_mode for path in open_folder.rglob("*")}
    note, _ = doctor.files(ledger.accounts())
    assert (note.what, note.verdict, note.remedy) == (
        "prefect's folder",
        "note",
        f"chmod 700 {open_folder / 'prefect'}",
    )
    (seen,) = wrong(doctor.files(ledger.accounts()))
    named = seen.removeprefix("others can read ").split(", ")
    assert [Path(name).name for name in named] == ["mlruns", "curator", "visits.csv"]
    assert {path: path.stat().st_mode for path in open_folder.rglob("*")} == before
    Path("prefect/profiles.toml").write_text("PREFECT_API_AUTH_STRING = 'a:b'\n")
    (seen,) = wrong(doctor.files(ledger.accounts()))
    assert seen.endswith("profiles.toml, " + str(open_folder.resolve() / "visits.csv"))
    for name in ("mlruns", "mlruns/curator", "visits.csv", "prefect"):
        Path(name).chmod(0o700)
    assert [one.verdict for one in doctor.files(ledger.accounts())] == ["fine"]
