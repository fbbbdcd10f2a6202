"""A ledger that may only be read is read, by its owner and by others; nothing is written to it or beside it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from test_ledger import capped
from test_ledger_audit import spend

NOBODY = 65534
READER = """
import os, sys
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.errors import DpboError
from dpbo.flows.cli.running import own_ledger
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
ledger = own_ledger()
(account,) = ledger.accounts("d")
print(account.spent.epsilon_units, *(entry.study for entry in account.entries))
print(*(item.release.value["score"] for item in ledger.recorded("a")))
try:
    ledger.set_budget(PrivacyBudget.of("e", epsilon=1.0, delta=0.0))
except DpboError as error:
    print(error)
"""


@pytest.fixture
def folder(monkeypatch):
    """A folder that everybody may enter, with a ledger of one study; nobody may write there."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        book = capped(f"sqlite:///{path / 'ledger.db'}", 5.0, 0.0)
        spend(book, "a", 1.0)
        (path / "ledger.db").chmod(0o444)
        path.chmod(0o555)
        yield path
        path.chmod(0o700)


def read(folder):
    settings = {"DPBO_LEDGER_URL": f"sqlite:///{folder / 'ledger.db'}", "XDG_STATE_HOME": "/nonexistent"}
    around = os.environ | settings | {"PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", READER], env=around, cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_ledger_that_may_only_be_read_is_read(folder):
    """Another user cannot read the record beside it."""
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    spent, scores, refusal = read(folder)
    assert (spent, scores) == ("1000000000000 a", "0.25")
    assert "may only be read by this user" in refusal
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
