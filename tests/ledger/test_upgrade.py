"""A ledger that version 0.2 wrote, kept in ledger_0_2.sql: an upgrade reads it whole, and never counts from zero.

A version with another schema must migrate this ledger, or refuse it by its number as `test_ledger.py` says.
"""

import copy
import re
import sqlite3
from pathlib import Path

import pytest
from conftest import STUDY

from dpbo_core.errors import BudgetExceeded, DpboError
from dpbo_core.ledger import audit
from dpbo_core.ledger.accounting.certificate import recompute
from dpbo_core.ledger.ledger import PrivacyLedger
from dpbo_core.report.certified import CERTIFIED
from dpbo_core.study import StudySpec
from dpbo_core.study.tuning import run_study

WRITTEN = Path(__file__).with_name("ledger_0_2.sql").read_text(encoding="utf-8")
LAST = "bf5a4e5ba11a979454863eb137b2c47f13e428797f243ebe8c348f81db46f83e"
GENERATION = f'{{"entries": 18, "hash": "{LAST}", "schema": 1}}'.ljust(256)


def written_by_0_2(url, text=WRITTEN):
    path = Path(url.removeprefix("sqlite:///"))
    with sqlite3.connect(path) as connection:
        connection.executescript(text)
    path.with_name(f"{path.name}.generation").write_text(GENERATION)
    return url


@pytest.fixture
def tables_of_0_2():
    """The study of its first release."""
    tables = copy.deepcopy(STUDY)
    tables["study"]["method"], tables["evaluation"] = "private_grid", {"epsilon": 0.5}
    tables["space"]["lambda"]["points"] = 4
    return tables


def test_a_ledger_of_version_0_2_keeps_its_caps_spends_and_releases(url, tables_of_0_2):
    ledger = PrivacyLedger(written_by_0_2(url))
    (account,) = ledger.accounts()
    assert [(entry.study, entry.edition, entry.epsilon) for entry in account.entries] == [
        ("trial", "1", 1.0),
        ("trial/evaluation", "1", 0.5),
        ("trial", "2", 1.0),
    ]
    assert (account.budget.epsilon_units, account.spent.rho_units) == (3 * 10**12, 559_355_970_361)
    assert account.left == pytest.approx(0.6957735385607364, rel=1e-9)
    assert account.cap_set_by == ""  # that version recorded nobody
    releases = [ledger.release_named(str(entry.release_id)) for entry in account.entries]
    assert all(recompute(one, CERTIFIED) for one in releases if "metrics" not in one.value)  # few_draws
    assert audit.verify(url).hash == LAST
    again = run_study(StudySpec.from_dict(tables_of_0_2), ledger=ledger)
    assert (again.replayed, again.release) == (True, releases[0])  # nothing is drawn or paid twice after an upgrade
    tables_of_0_2["study"]["edition"], tables_of_0_2["privacy"]["epsilon"] = "3", 1.2
    with pytest.raises(BudgetExceeded):
        run_study(StudySpec.from_dict(tables_of_0_2), ledger=ledger)
    assert ledger.accounts() == (account,)


def test_a_ledger_of_version_0_2_whose_schema_is_another_is_refused_by_its_number(url):
    another = re.sub(r"(INSERT INTO \"ledger\" VALUES\('\w+'),1\)", r"\1,2)", WRITTEN)
    assert another != WRITTEN
    written_by_0_2(url, another)
    with pytest.raises(DpboError, match=r"schema 2, .* schema 1 alone.*budget export"):
        PrivacyLedger(url)
