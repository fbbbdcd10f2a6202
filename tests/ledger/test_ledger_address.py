"""Where the ledger is: one rule for every face. A cap that a team set holds for its notebooks too."""

import ast
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import new_database

from dpbo.flows.stores import Stores
from dpbo_core.errors import BudgetExceeded, StudyInvalid
from dpbo_core.ledger.accounting.account import PrivacyBudget
from dpbo_core.ledger.address import ledger_url
from dpbo_core.ledger.ledger import PrivacyLedger

ROOT = Path(__file__).parents[2]
TEAM, OWN = "postgresql://ann@db.example/dpbo", "sqlite:////tmp/somewhere/own.db"


def notebook():
    from sklearn.linear_model import LogisticRegression

    from dpbo_core import PrivateSearch, Real

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    search = PrivateSearch(
        LogisticRegression(), {"C": Real(0.1, 10.0)}, epsilon=1.0, delta=1e-6, dataset="clinic", n_candidates=4,
        method="private_grid",
    )  # fmt: skip
    search.fit(X, y, X_validation=X + 1.0, y_validation=1 - y)


SETTINGS = [
    ({}, "sqlite:///{here}/mlruns/ledger.db"),
    ({"DPBO_DATABASE_URL": TEAM}, "postgresql+psycopg://ann@db.example/dpbo"),
    ({"DPBO_DATABASE_URL": TEAM, "DPBO_LEDGER_URL": OWN}, OWN),
    ({"DPBO_LEDGER_URL": OWN}, OWN),
    ({"DPBO_LEDGER_URL": "", "DPBO_DATABASE_URL": TEAM}, "postgresql+psycopg://ann@db.example/dpbo"),
]


@pytest.mark.parametrize(("settings", "expected"), SETTINGS)
def test_the_command_and_the_notebook_find_the_same_ledger(settings, expected, here, monkeypatch):
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert ledger_url() == Stores().ledger == expected.format(here=here)


def test_an_argument_comes_first(here, monkeypatch):
    monkeypatch.setenv("DPBO_LEDGER_URL", OWN)
    assert ledger_url("sqlite:///mine.db") == "sqlite:///mine.db"
    with pytest.raises(StudyInvalid, match="not a URL"):
        ledger_url(object())
    monkeypatch.delenv("DPBO_LEDGER_URL")
    monkeypatch.setenv("DPBO_DATABASE_URL", "sqlite:///x.db")
    with pytest.raises(StudyInvalid, match="DPBO_DATABASE_URL"):
        ledger_url()


OPENERS = {"PrivacyLedger", "LedgerStore", "verify", "export", "recover", "accept"}
SPEAKS = re.compile(rf"DPBO_(LEDGER|DATABASE)_URL|\b({'|'.join(OPENERS)})\(")  # of a setting, or opens one
RESOLVED = {"stores.ledger", "Stores().ledger", "ledger_url(self.ledger)"}


def opens(tree):
    """Calls that open a ledger: their first argument's words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            name = node.func
            if isinstance(name, ast.Attribute) and getattr(name.value, "id", "") in ("audit", "recovery"):
                called = name.attr
            else:
                called = getattr(name, "id", "")
            if called in OPENERS:
                yield ast.unparse(node.args[0])


def test_no_face_is_forgotten():
    """Whoever opens a ledger takes its place from the one resolver."""
    givers = 0
    for folder in ("dpbo_core", "flows", "tasks", "features"):
        for path in (ROOT / folder).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if name.startswith("dpbo_core/ledger/"):
                continue
            text = path.read_text()
            if not SPEAKS.search(text):  # most modules, whose trees take a second
                continue
            tree = ast.parse(text)
            places = set(opens(tree)) - {"file", "out", "certificate", "self"}
            assert places <= RESOLVED, name
            givers += bool(places)
            told = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
            assert not {"DPBO_LEDGER_URL", "DPBO_DATABASE_URL"} & set(map(str, told)), name
    assert givers > 10


def test_a_teams_cap_holds_for_a_notebook(postgresql, here, monkeypatch):
    """As it was reported: a cap of 0.5 on "clinic", and a notebook that drew ε = 1 into a ledger of its own."""
    monkeypatch.setenv("DPBO_DATABASE_URL", new_database(postgresql))
    PrivacyLedger(ledger_url()).set_budget(PrivacyBudget.of("clinic", epsilon=0.5, delta=1e-5))
    with pytest.raises(BudgetExceeded, match=r"limit is ε = 0\.5"):
        notebook()
    assert not (here / "mlruns" / "ledger.db").exists()


def test_a_sqlite_ledger_has_one_name(here):
    """Options behind the path made another file, beside the generation of the first."""
    path = here / "ledger.db"
    for options in ("mode=memory&uri=true", "uri=true", "vfs=unix-none&uri=true"):
        with pytest.raises(StudyInvalid, match="had two names"):
            PrivacyLedger(f"sqlite:///{path}?{options}")
    PrivacyLedger(f"sqlite:///{path}").set_budget(PrivacyBudget.of("d", epsilon=1.0, delta=0.0))
    for url in (f"sqlite:///{path}?timeout=0&isolation_level=DEFERRED", f"sqlite+pysqlite:///{path}"):
        assert PrivacyLedger(url).budget("d") is not None
    assert {file.name.removeprefix("ledger.db") for file in here.iterdir()} <= {"", ".generation", "-wal", "-shm"}


def test_what_is_no_ordinary_file_keeps_its_mode(here):
    """Named as a ledger by who may change it, a device or a pipe was made its owner's alone."""
    import os

    pipe = here / "pipe"
    os.mkfifo(pipe, 0o644)
    with pytest.raises(StudyInvalid, match="no ordinary file"):
        PrivacyLedger(f"sqlite:///{pipe}")
    assert pipe.stat().st_mode & 0o777 == 0o644
    with pytest.raises(StudyInvalid, match="place that cannot be used"):
        PrivacyLedger(f"sqlite:///{here}")
